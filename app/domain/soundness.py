"""Was it measured so that it can be believed and repeated? Quantization's cost, soundness, raw material."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.domain.claim import Level, Scalar
from app.domain.contrast import Arm, Contrast
from app.domain.criterion import CriterionResult, Facts, result, value_of
from app.domain.evidence import Criterion, EvidenceKind, Status
from app.domain.metrics import canonical, spec_of
from app.domain.scalars import folded, format_name, number, same

COSTS: Final[Mapping[str, tuple[str, ...]]] = {
    "quantization.weights": ("none", "in time", "ahead of time", "excluded"),
    "quantization.activations": ("none", "in time", "excluded"),
}
FULL_WIDTH: Final = ("bf16", "fp16", "fp32", "none")
"""Formats that nothing has to be quantized to."""


def quantization_counted(facts: Facts) -> CriterionResult:
    """The cost of quantizing is inside the measured time, or declared ahead of time with its cost given."""
    names = tuple(COSTS)

    def say(status: Status, reason: str, fields: tuple[str, ...] = names) -> CriterionResult:
        return result(Criterion.QUANTIZATION_COUNTED, status, reason, fields)

    treatment = facts.treatment
    if treatment is None:
        return say(Status.UNKNOWN, "the arms are not described")
    told = {n: _word(value_of(treatment, n)) for n in names}
    excluded = tuple(n for n in names if told[n] == "excluded")
    if excluded:
        return say(Status.UNMET, f"the cost of {_parts(excluded)} is left out of the measured time", excluded)
    missing = tuple(n for n in names if told[n] is None)
    if missing:
        return say(Status.UNKNOWN, f"where the cost of {_parts(missing)} went is not stated", missing)
    odd = tuple(n for n in names if told[n] not in COSTS[n])
    if odd:
        words = "; ".join(f"{n} is {told[n]!r}, which is none of {', '.join(COSTS[n])}" for n in odd)
        return say(Status.UNKNOWN, words, odd)
    denied = tuple(n for n in names if told[n] == "none" and _quantized(treatment, n))
    if denied:
        words = " and ".join(f"{n.split('.')[1]} are {_quantized(treatment, n)}" for n in denied)
        return say(Status.UNKNOWN, f"{words}, yet no quantization is said to have been needed", denied)
    if told["quantization.weights"] == "ahead of time" and not _has_time(treatment):
        words = "weights were quantized ahead of time, its cost is not given"
        return say(Status.UNKNOWN, words, ("quantization.weights", "quantize_time"))
    return say(Status.MET, "; ".join(f"{_parts((n,))}: {told[n]}" for n in names))


def _word(value: Scalar) -> str | None:
    return None if value is None else folded(str(value))


def _parts(names: tuple[str, ...]) -> str:
    return " and ".join(f"quantizing {name.split('.')[1]}" for name in names)


def _quantized(arm: Arm, name: str) -> Scalar:
    """The format of what `name` says the cost of, where it is one that has to be quantized to."""
    value = value_of(arm, f"{name.split('.')[1]}.format")
    return None if value is None or format_name(value) in FULL_WIDTH else value


def _has_time(arm: Arm) -> bool:
    return any(m.name == "quantize_time" and m.values for m in arm.metrics)


def measured_soundly(facts: Facts) -> CriterionResult:
    """The runs are valid, or, for a kernel, checked, fresh, cold and recorded; spread is given, units are
    likely."""
    if facts.arms is None or facts.evidence.kind is not EvidenceKind.RESULT:
        return result(Criterion.MEASURED_SOUNDLY, Status.UNKNOWN, "no raw measurement is at hand")
    level = facts.evidence.level
    if level is not None and level.rank <= Level.KERNEL.rank:
        return _sound_kernel(facts, facts.arms)
    return _sound_serving(facts)


def _sound_serving(facts: Facts) -> CriterionResult:
    def say(status: Status, reason: str, *fields: str) -> CriterionResult:
        return result(Criterion.MEASURED_SOUNDLY, status, reason, fields or ("run_validity",))

    validity = facts.evidence.validity
    bad = [v for v in validity if v.valid is False]
    if bad:
        return say(Status.UNMET, "; ".join(f"{v.arm}: {', '.join(v.reasons)}" for v in bad))
    blind = [v for v in validity if v.valid is None]
    if blind or {v.arm for v in validity} != {arm.role for arm in facts.evidence.arms}:
        words = "; ".join(f"{v.arm}: {', '.join(v.reasons)}" for v in blind) or "run facts are not recorded"
        return say(Status.UNKNOWN, words)
    speaking = facts.speaking
    if speaking is None or speaking.se_imputed:
        return say(Status.UNKNOWN, "one run an arm: no spread is given", "metrics.values")
    doubts = unit_doubts(facts)
    if doubts:
        return say(Status.UNKNOWN, "; ".join(doubts), "metrics.unit")
    return say(Status.MET, "both arms' runs are valid and their spread is given")


SOUND_KERNEL: Final[Mapping[str, tuple[Scalar, ...]]] = {
    "check.finite": (True,),
    "inputs.distribution": ("model", "normal", "uniform"),
    "cache.state": ("cold", "rotated"),
    "warmup.excluded": (True,),
    "clocks.recorded": (True,),
    "power.recorded": (True,),
    "baseline.tuned": (True,),
}
"""Values under which a kernel measurement is believed; `check.reference` must be named besides."""


def _sound_kernel(facts: Facts, arms: tuple[Arm, Arm]) -> CriterionResult:
    bad: list[str] = []
    missing: list[str] = []
    for name, good in SOUND_KERNEL.items():
        values = [value_of(arm, name) for arm in arms]
        told = dict.fromkeys(str(v) for v in values if v is not None and not any(same(v, g) for g in good))
        bad += [f"{name} is {value}" for value in told]
        if None in values:
            missing.append(name)
    bad += dict.fromkeys(fault for arm in arms for fault in _unchecked(arm))
    if any(_no_reference(arm) for arm in arms):
        missing.append("check.reference")
    if bad:
        return result(Criterion.MEASURED_SOUNDLY, Status.UNMET, "; ".join(bad), tuple(SOUND_KERNEL))
    if facts.speaking is None or facts.speaking.se_imputed:
        missing.append("spread (one sample, or equal ones)")
    doubts = unit_doubts(facts)
    if missing or doubts:
        words = [f"not stated: {', '.join(missing)}"] if missing else []
        fields = tuple(missing) or ("metrics.unit",)
        return result(Criterion.MEASURED_SOUNDLY, Status.UNKNOWN, "; ".join((*words, *doubts)), fields)
    words = ["checked, fresh inputs, cold caches, clocks and power recorded"]
    return result(Criterion.MEASURED_SOUNDLY, Status.MET, words[0], tuple(SOUND_KERNEL))


def _no_reference(arm: Arm) -> bool:
    value = value_of(arm, "check.reference")
    return value is None or isinstance(value, bool | int | float) or folded(value) in ("none", "no", "false")


def _unchecked(arm: Arm) -> list[str]:
    """Checks that prove nothing: against the kernel itself, or with an error as large as the values."""
    found = []
    reference, kernel = value_of(arm, "check.reference"), value_of(arm, "gemm.kernel")
    if reference is not None and kernel is not None and same(reference, kernel):
        found.append(f"check.reference is the kernel itself ({kernel})")
    error = number(value_of(arm, "check.max_rel_error"))
    if error is not None and not 0 <= error < 1:
        found.append(f"check.max_rel_error is {error:g}")
    return found


FAR: Final = 500.0
"""Beyond this many times the claimed figure, a unit a thousand times too large or small is the likelier
cause."""


def unit_doubts(facts: Facts) -> list[str]:
    """What looks like a wrong unit. It is flagged, never guessed; an audit can say that the figure is
    right."""
    speaking = facts.speaking
    if speaking is None:
        return []
    found = [flag for flag in speaking.flags if "check the units" in flag]
    return found + _far_from_claim(facts, speaking)


def _far_from_claim(facts: Facts, contrast: Contrast) -> list[str]:
    if contrast.treatment is None:
        return []
    for effect in facts.claim.effects:
        if effect.unit == "ratio" or effect.metric != contrast.metric or effect.level is not contrast.level:
            continue
        low, high = (canonical(v, effect.unit, effect.metric) for v in (effect.low, effect.high))
        if low > 0 and not low / FAR < contrast.treatment < high * FAR:
            unit = spec_of(contrast.metric).unit
            return [
                f"{contrast.metric} of {contrast.treatment:.3g} {unit} is far from the claimed "
                f"{effect.low:g}–{effect.high:g} {effect.unit}: check the units"
            ]
    return []


def reproducible(facts: Facts) -> CriterionResult:
    """Raw output, exact command and software versions are attached."""
    missing = []
    if not (facts.evidence.command or "").strip():
        missing.append("the exact command")
    arms = facts.arms
    if arms is None or any(not arm.attachments for arm in arms):
        missing.append("raw output of both arms")
    if arms is None or any(value_of(arm, "engine.version") is None for arm in arms):
        missing.append("software versions of both arms")
    fields = ("command", "files", "engine.version")
    if not missing:
        words = "raw output, command and versions are attached"
        return result(Criterion.REPRODUCIBLE, Status.MET, words, fields)
    # A result is handed in with all that it will ever have; what a source could show is not known. So naming
    # a part never counts for less than naming nothing.
    status = Status.UNMET if facts.evidence.kind is EvidenceKind.RESULT else Status.UNKNOWN
    return result(Criterion.REPRODUCIBLE, status, f"missing: {', '.join(missing)}", fields)

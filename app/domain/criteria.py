"""The eight criteria of end-to-end validation, each met, unmet or unknown, with its reason and its fields."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from app.domain.claim import Claim, Level, Scalar
from app.domain.contrast import Arm, Role
from app.domain.evidence import Criterion, Evidence, EvidenceKind, Relation, Status
from app.domain.metrics import canonical
from app.domain.policy import Policy
from app.domain.vocabulary import EFFECTIVE, Group, group_of, required_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionResult:
    """One row of the criteria table. `fields` are the configuration names that it was read from."""

    criterion: Criterion
    status: Status
    reason: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    evidence: Evidence
    claim: Claim
    policy: Policy
    baseline: Arm | None
    treatment: Arm | None

    @property
    def arms(self) -> tuple[Arm, Arm] | None:
        return (self.baseline, self.treatment) if self.baseline and self.treatment else None


Rule = Callable[[_Facts], CriterionResult]


def assess_criteria(evidence: Evidence, claim: Claim, policy: Policy) -> tuple[CriterionResult, ...]:
    """Judge one item of evidence against a claim, one row a criterion, always all eight in order."""
    arms = {arm.role: arm for arm in evidence.arms}
    facts = _Facts(
        evidence=evidence,
        claim=claim,
        policy=policy,
        baseline=arms.get(Role.BASELINE),
        treatment=arms.get(Role.TREATMENT),
    )
    return tuple(RULES[criterion](facts) for criterion in Criterion)


def _result(
    criterion: Criterion, status: Status, reason: str, fields: tuple[str, ...] = ()
) -> CriterionResult:
    return CriterionResult(criterion=criterion, status=status, reason=reason, fields=fields)


def _independent(facts: _Facts) -> CriterionResult:
    def say(status: Status, reason: str) -> CriterionResult:
        return _result(Criterion.INDEPENDENT, status, reason, ("publisher.name", "publisher.relation"))

    publisher = facts.evidence.publisher
    if publisher is None:
        return say(Status.UNKNOWN, "the publisher is not stated")
    if publisher.relation in (Relation.CLAIMANT, Relation.PAID, Relation.DERIVED):
        return say(Status.UNMET, f"{publisher.name} is {_relation(publisher.relation)}")
    if _folded(publisher.name) in {_folded(name) for name in facts.claim.claimants}:
        return say(Status.UNMET, f"{publisher.name} makes the claim itself")
    if publisher.relation is Relation.INDEPENDENT:
        return say(Status.MET, f"{publisher.name} declares no tie to the claimant")
    return say(Status.MET, f"{publisher.name} is not the claimant and no tie is known")


def _relation(relation: Relation) -> str:
    return {
        Relation.CLAIMANT: "the claimant",
        Relation.PAID: "paid by the claimant",
        Relation.DERIVED: "repeating the claimant's own figures",
        Relation.INDEPENDENT: "independent",
    }[relation]


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def _end_to_end(facts: _Facts) -> CriterionResult:
    level, wanted = facts.evidence.level, facts.claim.settles_at
    if level is None:
        return _result(Criterion.END_TO_END, Status.UNKNOWN, "nothing was measured", ("level",))
    if level.rank >= wanted.rank:
        return _result(Criterion.END_TO_END, Status.MET, f"measured at {level} level", ("level",))
    return _result(
        Criterion.END_TO_END,
        Status.UNMET,
        f"measured at {level} level; the claim settles at {wanted}",
        ("level",),
    )


def _workload_matched(facts: _Facts) -> CriterionResult:
    arms = facts.arms
    if arms is None:
        return _result(Criterion.WORKLOAD_MATCHED, Status.UNKNOWN, "the arms are not described")
    level = facts.evidence.level or facts.claim.settles_at
    factor = set(facts.claim.factor)
    names = [n for n in _names(arms) if group_of(n) is Group.WORKLOAD and n not in factor]
    differing = tuple(n for n in names if _differs(n, arms, facts.policy))
    observed = tuple(
        n for n in ("observed.input_length", "observed.output_length") if _differs(n, arms, facts.policy)
    )
    off_claim = tuple(
        n
        for n, v in facts.claim.workload.items()
        if v is not None and any(a.config.get(n) is not None and not _same(a.config[n], v) for a in arms)
    )
    if differing or observed or off_claim:
        parts = [f"the arms differ in {_values(n, arms)}" for n in (*differing, *observed)]
        parts += [f"{n} is not the claim's ({facts.claim.workload[n]})" for n in off_claim]
        return _result(
            Criterion.WORKLOAD_MATCHED, Status.UNMET, "; ".join(parts), (*differing, *observed, *off_claim)
        )
    return _workload_gaps(arms, level, facts.claim)


def _workload_gaps(arms: tuple[Arm, Arm], level: Level, claim: Claim) -> CriterionResult:
    wanted = dict.fromkeys((*required_fields(level), *claim.workload))
    missing = tuple(n for n in wanted if any(a.config.get(n) is None for a in arms))
    if level.rank >= Level.SERVING.rank and not _both_state(arms, "load.rate", "load.concurrency"):
        missing = (*missing, "load.rate or load.concurrency")
    if missing:
        return _result(
            Criterion.WORKLOAD_MATCHED,
            Status.UNKNOWN,
            f"not stated for both arms: {', '.join(missing)}",
            missing,
        )
    return _result(
        Criterion.WORKLOAD_MATCHED, Status.MET, f"both arms agree in {', '.join(wanted)}", tuple(wanted)
    )


def _both_state(arms: tuple[Arm, Arm], *names: str) -> bool:
    return any(all(a.config.get(n) is not None for a in arms) for n in names)


def _factor_isolated(facts: _Facts) -> CriterionResult:
    arms, factor = facts.arms, facts.claim.factor
    if arms is None:
        return _result(Criterion.FACTOR_ISOLATED, Status.UNKNOWN, "the arms are not described", factor)
    names = [n for n in _names(arms) if group_of(n) is Group.SYSTEM]
    differing = [n for n in names if _differs(n, arms, facts.policy)]
    others = tuple(n for n in differing if n not in factor)
    unchanged = tuple(n for n in factor if _equal(n, arms))
    if others:
        also = "also differ" if set(differing) & set(factor) else "differ"
        reason = f"the arms {also} in {', '.join(others)}"
        if not set(differing) & set(factor):
            reason += f", not in the claim's factor {', '.join(factor)}"
        return _result(Criterion.FACTOR_ISOLATED, Status.UNMET, reason, others)
    if unchanged:
        return _result(
            Criterion.FACTOR_ISOLATED,
            Status.UNMET,
            f"both arms have the same {', '.join(unchanged)}",
            unchanged,
        )
    return _factor_gaps(arms, factor, names)


def _factor_gaps(arms: tuple[Arm, Arm], factor: tuple[str, ...], names: list[str]) -> CriterionResult:
    unstated = tuple(n for n in factor if any(a.config.get(n) is None for a in arms))
    if unstated:
        return _result(
            Criterion.FACTOR_ISOLATED,
            Status.UNKNOWN,
            f"{', '.join(unstated)} is not stated for both arms",
            unstated,
        )
    replaced, unverified = _effective(arms, factor)
    if replaced:
        return _result(Criterion.FACTOR_ISOLATED, Status.UNMET, "; ".join(replaced), factor)
    one_sided = tuple(n for n in names if n not in factor and _one_sided(n, arms))
    if one_sided or unverified:
        parts = []
        if unverified:
            parts.append(
                f"effective {', '.join(unverified)} unverified: no log or metric shows what was in force"
            )
        if one_sided:
            parts.append(f"stated for one arm only: {', '.join(one_sided)}")
        return _result(
            Criterion.FACTOR_ISOLATED,
            Status.UNKNOWN,
            "; ".join(parts),
            (*(EFFECTIVE[n] for n in unverified), *one_sided),
        )
    return _result(
        Criterion.FACTOR_ISOLATED, Status.MET, f"the arms differ in {', '.join(factor)} alone", factor
    )


def _effective(arms: tuple[Arm, Arm], factor: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Where the value in force is another than the declared one, and where nothing shows it."""
    replaced: list[str] = []
    unverified: list[str] = []
    for name in factor:
        if name not in EFFECTIVE:
            continue
        seen = [(arm, arm.config.get(EFFECTIVE[name])) for arm in arms]
        replaced += [
            f"{arm.role} declares {name} {arm.config[name]} but {value} was in force"
            for arm, value in seen
            if value is not None and not _same(value, arm.config[name])
        ]
        if any(value is None for _, value in seen):
            unverified.append(name)
    return replaced, unverified


def _quality_retained(facts: _Facts) -> CriterionResult:
    def say(status: Status, reason: str, *fields: str) -> CriterionResult:
        return _result(Criterion.QUALITY_RETAINED, status, reason, fields or ("accuracy", "perplexity"))

    arms = facts.arms
    if arms is None:
        return say(Status.UNKNOWN, "no quality metric is reported")
    tasks = [arm.config.get("quality.task") for arm in arms]
    if None not in tasks and tasks[0] != tasks[1]:
        return say(
            Status.UNMET, f"quality was measured on different tasks: {tasks[0]}, {tasks[1]}", "quality.task"
        )
    accuracy, perplexity = _means(arms, "accuracy"), _means(arms, "perplexity")
    policy = facts.policy
    if accuracy:
        loss, limit = accuracy[0] - accuracy[1], policy.accuracy_tolerance
        words = f"accuracy {accuracy[0]:.4g} → {accuracy[1]:.4g}, a loss of {loss:.4g} against a tolerance of {limit:g}"
        return say(Status.MET if loss <= limit + 1e-12 else Status.UNMET, words, "accuracy")
    if perplexity:
        loss, limit = perplexity[1] / perplexity[0] - 1, policy.perplexity_tolerance
        words = f"perplexity {perplexity[0]:.4g} → {perplexity[1]:.4g}, {loss:+.2%} against a tolerance of {limit:.0%}"
        return say(Status.MET if loss <= limit + 1e-12 else Status.UNMET, words, "perplexity")
    return say(Status.UNKNOWN, "no quality metric is reported for both arms")


def _means(arms: tuple[Arm, Arm], name: str) -> tuple[float, float] | None:
    means = []
    for arm in arms:
        values = [canonical(v, m.unit, m.name) for m in arm.metrics if m.name == name for v in m.values]
        if not values or not all(math.isfinite(v) and v > 0 for v in values):
            return None
        means.append(math.fsum(values) / len(values))
    return (means[0], means[1])


def _quantization_counted(facts: _Facts) -> CriterionResult:
    names = ("quantization.weights", "quantization.activations")

    def say(status: Status, reason: str, fields: tuple[str, ...] = names) -> CriterionResult:
        return _result(Criterion.QUANTIZATION_COUNTED, status, reason, fields)

    if facts.treatment is None:
        return say(Status.UNKNOWN, "the arms are not described")
    config = facts.treatment.config
    excluded = tuple(n for n in names if config.get(n) == "excluded")
    if excluded:
        return say(Status.UNMET, f"the cost of {_parts(excluded)} is left out of the measured time", excluded)
    missing = tuple(n for n in names if config.get(n) is None)
    if missing:
        return say(Status.UNKNOWN, f"where the cost of {_parts(missing)} went is not stated", missing)
    if config["quantization.weights"] == "ahead_of_time" and not _has(facts.treatment, "quantize_time"):
        return say(
            Status.UNKNOWN,
            "weights were quantized ahead of time, its cost is not given",
            ("quantization.weights", "quantize_time"),
        )
    return say(Status.MET, "; ".join(f"{_parts((n,))}: {str(config[n]).replace('_', ' ')}" for n in names))


def _parts(names: tuple[str, ...]) -> str:
    return " and ".join(f"quantizing {name.split('.')[1]}" for name in names)


def _has(arm: Arm, metric: str) -> bool:
    return any(m.name == metric and m.values for m in arm.metrics)


def _measured_soundly(facts: _Facts) -> CriterionResult:
    criterion = Criterion.MEASURED_SOUNDLY
    if facts.arms is None or facts.evidence.kind is not EvidenceKind.RESULT:
        return _result(criterion, Status.UNKNOWN, "no raw measurement is at hand")
    if facts.evidence.level is not None and facts.evidence.level.rank <= Level.KERNEL.rank:
        return _sound_kernel(facts.arms)
    bad = [v for v in facts.evidence.validity if v.valid is False]
    if bad:
        return _result(
            criterion,
            Status.UNMET,
            "; ".join(f"{v.arm}: {', '.join(v.reasons)}" for v in bad),
            ("run_validity",),
        )
    blind = [v for v in facts.evidence.validity if v.valid is None]
    if blind or len(facts.evidence.validity) < 2:
        words = "; ".join(f"{v.arm}: {', '.join(v.reasons)}" for v in blind) or "run facts are not recorded"
        return _result(criterion, Status.UNKNOWN, words, ("run_validity",))
    if all(contrast.se_imputed for contrast in facts.evidence.contrasts):
        return _result(criterion, Status.UNKNOWN, "one run an arm: no spread is given", ("metrics.values",))
    return _result(
        criterion, Status.MET, "both arms' runs are valid and their spread is given", ("run_validity",)
    )


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


def _sound_kernel(arms: tuple[Arm, Arm]) -> CriterionResult:
    bad: list[str] = []
    missing: list[str] = []
    for name, good in SOUND_KERNEL.items():
        values = [arm.config.get(name) for arm in arms]
        bad += [
            f"{name} is {value}" for value in dict.fromkeys(values) if value is not None and value not in good
        ]
        if None in values:
            missing.append(name)
    if any(arm.config.get("check.reference") is None for arm in arms):
        missing.append("check.reference")
    if bad:
        return _result(Criterion.MEASURED_SOUNDLY, Status.UNMET, "; ".join(bad), tuple(SOUND_KERNEL))
    if any(len(metric.values) < 2 for arm in arms for metric in arm.metrics):
        missing.append("spread (one sample only)")
    if missing:
        return _result(
            Criterion.MEASURED_SOUNDLY, Status.UNKNOWN, f"not stated: {', '.join(missing)}", tuple(missing)
        )
    return _result(
        Criterion.MEASURED_SOUNDLY,
        Status.MET,
        "checked, fresh inputs, cold caches, clocks and power recorded",
        tuple(SOUND_KERNEL),
    )


def _reproducible(facts: _Facts) -> CriterionResult:
    missing = []
    if not facts.evidence.command:
        missing.append("the exact command")
    arms = facts.arms
    if arms is None or any(not arm.attachments for arm in arms):
        missing.append("raw output of both arms")
    if arms is None or any(arm.config.get("engine.version") is None for arm in arms):
        missing.append("software versions of both arms")
    fields = ("command", "files", "engine.version")
    if not missing:
        return _result(
            Criterion.REPRODUCIBLE, Status.MET, "raw output, command and versions are attached", fields
        )
    nothing = len(missing) == len(fields)
    return _result(
        Criterion.REPRODUCIBLE,
        Status.UNKNOWN if nothing else Status.UNMET,
        f"missing: {', '.join(missing)}",
        fields,
    )


RULES: Final[Mapping[Criterion, Rule]] = {
    Criterion.INDEPENDENT: _independent,
    Criterion.END_TO_END: _end_to_end,
    Criterion.WORKLOAD_MATCHED: _workload_matched,
    Criterion.FACTOR_ISOLATED: _factor_isolated,
    Criterion.QUALITY_RETAINED: _quality_retained,
    Criterion.QUANTIZATION_COUNTED: _quantization_counted,
    Criterion.MEASURED_SOUNDLY: _measured_soundly,
    Criterion.REPRODUCIBLE: _reproducible,
}


def _names(arms: tuple[Arm, Arm]) -> list[str]:
    return sorted({*arms[0].config, *arms[1].config})


def _pair(name: str, arms: tuple[Arm, Arm]) -> tuple[Scalar, Scalar]:
    return arms[0].config.get(name), arms[1].config.get(name)


def _one_sided(name: str, arms: tuple[Arm, Arm]) -> bool:
    left, right = _pair(name, arms)
    return (left is None) is not (right is None)


def _equal(name: str, arms: tuple[Arm, Arm]) -> bool:
    left, right = _pair(name, arms)
    return left is not None and right is not None and _same(left, right)


def _differs(name: str, arms: tuple[Arm, Arm], policy: Policy) -> bool:
    left, right = _pair(name, arms)
    if left is None or right is None:
        return False
    tolerance = {
        "load.rate": policy.rate_tolerance,
        "observed.input_length": policy.length_tolerance,
        "observed.output_length": policy.length_tolerance,
    }.get(name, 0.0)
    return not _same(left, right, tolerance)


def _same(left: Scalar, right: Scalar, tolerance: float = 0.0) -> bool:
    """Equal by value: 1 and 1.0 agree, true and 1 do not; texts agree whatever their case and spacing."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return math.isclose(left, right, rel_tol=tolerance, abs_tol=0.0)
    return _folded(str(left)) == _folded(str(right))


def _values(name: str, arms: tuple[Arm, Arm]) -> str:
    left, right = _pair(name, arms)
    return f"{name} ({left} against {right})"

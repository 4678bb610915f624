"""Arms and contrasts: a treatment against a baseline on one metric, as a signed log ratio.

y = ln(treatment / baseline), its sign turned so that positive is better (latency, cost and energy are
lower-is-better). Standard error: paired log ratios when both arms say that their repeats are paired;
otherwise the delta method on the two means; imputed by level, and flagged, with one run an arm.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from app.domain.claim import Level, Scalar
from app.domain.errors import Refused
from app.domain.metrics import Direction, canonical, spec_of
from app.domain.policy import Policy
from app.domain.scalars import spelled, stated

SMALLEST: Final = 1e-30
LARGEST: Final = 1e30
"""Bounds of a value in canonical units: beyond them lies no measurement, and arithmetic on ratios could
overflow."""


ROUNDING: Final = 1e-9
"""A relative standard error below this is the rounding of the numbers, not their spread."""


class Role(StrEnum):
    """Part that an arm plays in a contrast."""

    BASELINE = "baseline"
    TREATMENT = "treatment"


class Origin(StrEnum):
    """Where a metric's value came from."""

    MEASURED = "measured"
    DERIVED = "derived"
    REPORTED = "reported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of one arm: `values` holds one number a replicate, in `unit`.

    `statistic` says which statistic of a distribution it is (median, p99, mean), `None` where there is one
    value a run. `origin` says whether the tool measured it or it was derived, and `how`.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    statistic: str | None = None
    origin: Origin = Origin.MEASURED
    how: str | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """Identity: two metrics compare only when this agrees."""
        return (self.name, self.statistic)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What a load generator recorded about one run, for judging its validity. `None` means "not recorded".

    Times in seconds, rates in requests a second, lengths in tokens. `lengths_by_client` says that the output
    lengths are the client's own tokenization of the text, not the server's count.
    """

    source: str
    requests: int | None = None
    failures: int | None = None
    duration_s: float | None = None
    requested_rate: float | None = None
    achieved_rate: float | None = None
    concurrency: float | None = None
    schedule_delay_p99_s: float | None = None
    ttft_min_s: float | None = None
    ttft_p99_s: float | None = None
    ttft_median_s: float | None = None
    e2e_min_s: float | None = None
    e2e_median_s: float | None = None
    output_len_min: float | None = None
    output_len_mean: float | None = None
    output_len_max: float | None = None
    input_len_mean: float | None = None
    max_tokens: float | None = None
    lengths_by_client: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A raw file kept by content. `sha256` is the lower-case hex digest of its bytes."""

    name: str
    format: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One measured configuration. `config` maps vocabulary names to values; `paired` says that the n-th
    values of both arms belong to one pair."""

    role: Role
    config: Mapping[str, Scalar]
    metrics: tuple[Metric, ...] = ()
    runs: tuple[RunFacts, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    notes: tuple[str, ...] = ()
    paired: bool = False
    tool: str | None = None
    tool_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """A treatment against a baseline on one metric.

    `baseline` and `treatment` are means in the metric's canonical unit, absent where a source gave only a
    ratio. `ratio` is treatment over baseline as measured; `log_ratio` is positive when the treatment is
    better.
    """

    metric: str
    unit: str
    ratio: float
    log_ratio: float
    se: float
    se_imputed: bool
    level: Level
    statistic: str | None = None
    baseline: float | None = None
    treatment: float | None = None
    runs: int = 1
    flags: tuple[str, ...] = field(default=())


def contrasts_of(baseline: Arm, treatment: Arm, level: Level, policy: Policy) -> tuple[Contrast, ...]:
    """Every contrast that two arms allow, in the order of the baseline's metrics.

    Raises:
        Refused: arms share no metric, are identical, or a value is not finite and positive.
    """
    others = {metric.key: metric for metric in treatment.metrics}
    pairs = [(metric, others[metric.key]) for metric in baseline.metrics if metric.key in others]
    for arm in (baseline, treatment):
        _refuse_unreadable(arm)
    if not pairs:
        raise Refused(
            "The arms report no metric in common.",
            field="arms",
            value=f"baseline: {_names(baseline)}; treatment: {_names(treatment)}",
            remedy="Give the same metric, with the same statistic, for both arms.",
            code="no-common-metric",
        )
    _refuse_identical(baseline, treatment, pairs)
    paired = baseline.paired and treatment.paired
    return tuple(_contrast(base, treat, level, policy, paired) for base, treat in pairs)


def reported_contrast(
    *, metric: str, low: float, high: float, level: Level, policy: Policy, baseline: float | None = None
) -> Contrast:
    """The contrast that a source states as a ratio range (treatment over baseline).

    The centre is the mean of the two logs; the half-unknown width is added as the variance of a uniform
    range.
    """
    low, high = sorted((low, high))
    if not SMALLEST <= low <= high <= LARGEST:
        raise Refused(
            "A reported ratio must be finite and above zero.",
            field="low",
            value=f"{low}–{high}",
            remedy='State "+29 %" as 1.29.',
            code="not-positive",
        )
    spec = spec_of(metric)
    centre = (math.log(low) + math.log(high)) / 2
    spread = (math.log(high) - math.log(low)) ** 2 / 12
    sign = 1.0 if spec.direction is Direction.HIGHER else -1.0
    return Contrast(
        metric=metric,
        unit="ratio",
        ratio=math.exp(centre),
        log_ratio=sign * centre,
        se=math.sqrt(policy.imputed_se[level] ** 2 + spread),
        se_imputed=True,
        level=level,
        baseline=baseline,
        flags=("reported by its source, not measured here",),
    )


def _names(arm: Arm) -> str:
    return ", ".join(metric.name for metric in arm.metrics) or "none"


def _refuse_identical(baseline: Arm, treatment: Arm, pairs: Sequence[tuple[Metric, Metric]]) -> None:
    same_bytes = {a.sha256 for a in baseline.attachments} & {a.sha256 for a in treatment.attachments}
    same_values = all(_canonical(base) == _canonical(treat) for base, treat in pairs)
    if same_bytes or (same_values and _stated(baseline) == _stated(treatment)):
        raise Refused(
            "The treatment is identical to its baseline.",
            field="arms",
            value=", ".join(sorted(same_bytes)) or "equal configuration and equal values",
            remedy="Give two different runs; one file cannot be both arms.",
            code="identical-arms",
        )


def _canonical(metric: Metric) -> list[float]:
    return [canonical(value, metric.unit, metric.name) for value in metric.values]


def _stated(arm: Arm) -> dict[str, str]:
    """What an arm states, in one spelling for each meaning."""
    return {name: spelled(value) for name, value in arm.config.items() if stated(value) is not None}


def _refuse_unreadable(arm: Arm) -> None:
    """No metric is stored that cannot be read: not even one that only one arm reports."""
    seen: set[tuple[str, str | None]] = set()
    for metric in arm.metrics:
        where = f"arms[{arm.role}].metrics[{metric.name}]"
        if metric.key in seen:
            raise Refused(
                f"{metric.name} of the {arm.role} is given twice.",
                field=where,
                value=metric.name,
                remedy="Give all values of a metric in one entry.",
                code="metric-twice",
            )
        seen.add(metric.key)
        for index, value in enumerate(_canonical(metric)):
            if not 0 <= value <= LARGEST:
                raise Refused(
                    f"{metric.name} of the {arm.role} is {metric.values[index]}: not a finite measurement.",
                    field=f"{where}.values[{index}]",
                    value=metric.values[index],
                    remedy="Leave the metric out where it was not measured.",
                    code="not-positive",
                )


def _contrast(base: Metric, treat: Metric, level: Level, policy: Policy, paired: bool) -> Contrast:
    spec = spec_of(base.name)
    b = _positive(base, "baseline")
    t = _positive(treat, "treatment")
    ratio = statistics.fmean(t) / statistics.fmean(b)
    if paired and len(b) == len(t) and len(b) > 1:
        logs = [math.log(x / y) for x, y in zip(t, b, strict=True)]
        log_ratio, se = statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
        ratio = math.exp(log_ratio)
    else:
        log_ratio, se = math.log(ratio), math.hypot(_relative_se(b), _relative_se(t))
    # Repeats that agree but for rounding carry no spread to estimate an error from: impute it.
    imputed = min(len(b), len(t)) < 2 or se < ROUNDING
    flags = _flags(ratio)
    if paired and len(b) != len(t):
        flags += (f"said to be paired, but with {len(b)} and {len(t)} values: taken as unpaired",)
    return Contrast(
        metric=base.name,
        statistic=base.statistic,
        unit=spec.unit,
        baseline=statistics.fmean(b),
        treatment=statistics.fmean(t),
        ratio=ratio,
        log_ratio=log_ratio if spec.direction is Direction.HIGHER else -log_ratio,
        se=policy.imputed_se[level] if imputed else se,
        se_imputed=imputed,
        level=level,
        runs=min(len(b), len(t)),
        flags=flags,
    )


def _positive(metric: Metric, role: str) -> list[float]:
    values = _canonical(metric)
    for index, value in enumerate(values):
        if not SMALLEST <= value <= LARGEST:
            raise Refused(
                f"{metric.name} of the {role} is {metric.values[index]}: a ratio needs finite values above "
                f"zero.",
                field=f"arms[{role}].metrics[{metric.name}].values[{index}]",
                value=metric.values[index],
                remedy='Leave the metric out where it was not measured; 0 is not "not measured".',
                code="not-positive",
            )
    if not values:
        raise Refused(
            f"{metric.name} of the {role} has no values.",
            field=f"arms[{role}].metrics[{metric.name}].values",
            value=[],
            remedy="Give one value a run.",
            code="no-values",
        )
    return values


def _relative_se(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    return statistics.stdev(values) / math.sqrt(len(values)) / statistics.fmean(values)


def _flags(ratio: float) -> tuple[str, ...]:
    if 1 / 50 < ratio < 50:
        return ()
    return (f"ratio {ratio:.3g} is beyond 50-fold: check the units of both arms",)

"""From evidence to effects that may be pooled: criteria, audits, widened variance, projection to the
settling level."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.domain.claim import Claim
from app.domain.contrast import Contrast
from app.domain.criteria import CriterionResult, assess_criteria
from app.domain.effects import Effect, Share, project
from app.domain.evidence import Criterion, Evidence, EvidenceKind, Finding, Status
from app.domain.metrics import METRICS, Family, spec_of, statistic_rank
from app.domain.mixture import Prior
from app.domain.policy import Policy
from app.domain.synthesis import Posterior, posterior


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessedContrast:
    """A contrast with what became of it.

    `y` and `se` are the effect at the settling level on the log scale, its variance widened by what the
    evidence leaves open; `pooled` says whether it may enter the synthesis, `reason` why not.
    """

    metric: str
    statistic: str | None
    pooled: bool
    reason: str
    y: float
    se: float
    measured_y: float
    measured_se: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """One item of evidence, judged. Compact: this is all that the synthesis needs of it."""

    ref: str
    number: int
    kind: EvidenceKind
    root: str
    address: str | None
    twin: str | None
    title: str
    level_rank: int
    criteria: tuple[CriterionResult, ...]
    contrasts: tuple[AssessedContrast, ...]
    qualifying: bool

    @property
    def pooled(self) -> bool:
        """Whether any of its contrasts may enter the synthesis."""
        return any(contrast.pooled for contrast in self.contrasts)

    def status(self, criterion: Criterion) -> Status:
        """Status of one criterion."""
        return next(row.status for row in self.criteria if row.criterion is criterion)


def assess(
    evidence: Evidence,
    number: int,
    claim: Claim,
    findings: Sequence[Finding],
    policy: Policy,
    *,
    tied_to: int | None = None,
    barred: str | None = None,
) -> Assessment:
    """Judge one item of evidence.

    Args:
        number: its number within the case.
        findings: what audits say of it; a finding overrides the row of its criterion unless it says unknown.
            None makes an invalid run sound.
        tied_to: number of an item of the same source or measurement that is not independent.
        barred: why the same source or measurement was withdrawn, where it was.
    """
    rows = [_tied(row, tied_to) for row in assess_criteria(evidence, claim, policy)]
    invalid = any(entry.valid is False for entry in evidence.validity)
    criteria = tuple(_audited(row, findings, invalid=invalid) for row in rows)
    status = {row.criterion: row for row in criteria}
    contrasts = tuple(_assess_contrast(c, status, claim, policy, barred) for c in evidence.contrasts)
    on_metric = any(c.pooled and c.metric == claim.metric for c in contrasts)
    return Assessment(
        ref=evidence.ref,
        number=number,
        kind=evidence.kind,
        root=evidence.root,
        address=evidence.address,
        twin=evidence.twin,
        title=evidence.title,
        level_rank=evidence.level.rank if evidence.level else -1,
        criteria=criteria,
        contrasts=contrasts,
        qualifying=on_metric and all(row.status is Status.MET for row in criteria),
    )


def _tied(row: CriterionResult, tied_to: int | None) -> CriterionResult:
    if row.criterion is not Criterion.INDEPENDENT or row.status is Status.UNMET or tied_to is None:
        return row
    reason = f"it goes back to the same source as evidence {tied_to}, which is not independent"
    return replace(row, status=Status.UNMET, reason=reason)


def _audited(row: CriterionResult, findings: Sequence[Finding], *, invalid: bool) -> CriterionResult:
    if invalid and row.criterion is Criterion.MEASURED_SOUNDLY:
        return row
    for finding in findings:
        if finding.criterion is row.criterion and finding.status is not Status.UNKNOWN:
            return replace(row, status=finding.status, reason=f"{finding.reason} (audit)")
    return row


def _assess_contrast(
    contrast: Contrast,
    rows: dict[Criterion, CriterionResult],
    claim: Claim,
    policy: Policy,
    barred: str | None,
) -> AssessedContrast:
    reason = f"the same was withdrawn: {barred}" if barred else _why_not_pooled(contrast, rows, claim)
    widened = math.sqrt(contrast.se**2 + _added_variance(rows.values(), policy))
    effect = Effect(y=contrast.log_ratio, se=widened)
    if contrast.level.rank < claim.settles_at.rank:
        effect = project(effect, Share(low=policy.share_low, high=policy.share_high))
    return AssessedContrast(
        metric=contrast.metric,
        statistic=contrast.statistic,
        pooled=reason is None,
        reason=reason or "pooled",
        y=effect.y,
        se=effect.se,
        measured_y=contrast.log_ratio,
        measured_se=contrast.se,
    )


def _why_not_pooled(contrast: Contrast, rows: dict[Criterion, CriterionResult], claim: Claim) -> str | None:
    for criterion in (Criterion.FACTOR_ISOLATED, Criterion.WORKLOAD_MATCHED):
        row = rows[criterion]
        if row.status is Status.UNMET:
            return f"{criterion} unmet: {row.reason}"
    sound = rows[Criterion.MEASURED_SOUNDLY]
    if sound.status is Status.UNMET:
        return f"not measured soundly: {sound.reason}"
    return _other_metric(contrast, claim)


def _other_metric(contrast: Contrast, claim: Claim) -> str | None:
    """A claim about throughput is not settled by a latency; a lower level counts by any measure of speed."""
    same = contrast.metric == claim.metric
    if contrast.level.rank < claim.settles_at.rank and spec_of(claim.metric).family in TIMED:
        same = same or spec_of(contrast.metric).family is Family.SPEED
    return None if same else f"another metric than the claim's ({claim.metric})"


TIMED = (Family.SPEED, Family.LATENCY, Family.COST)
"""Families that follow from the time taken, so that Amdahl's law reaches them from a lower level's speed."""


def _added_variance(rows: Iterable[CriterionResult], policy: Policy) -> float:
    added = 0.0
    for row in rows:
        # A level below the settling one is paid for by the projection.
        if row.status is Status.MET or row.criterion is Criterion.END_TO_END:
            continue
        added += (policy.unknown_sd if row.status is Status.UNKNOWN else policy.unmet_sd) ** 2
    return added


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledContrast:
    """A contrast that entered the synthesis, and whose it is."""

    number: int
    root: str
    contrast: AssessedContrast


def select(assessments: Sequence[Assessment]) -> tuple[PooledContrast, ...]:
    """One contrast an independent root or measurement: qualifying first, then of the highest level, by the metric and
    statistic that speak for it, then the most precise.

    What stands in the pool stands there for the effect on the claim's metric, so that several statistics of
    one metric, a time and its throughput, or several copies of one post are one piece of evidence. The
    choice depends on content alone, never on order.
    """
    best: dict[str, tuple[tuple[bool, int, int, tuple[int, str], float, float, int], PooledContrast]] = {}
    origin = _origins(assessments)
    for item in assessments:
        source = origin[item.number]
        for contrast in item.contrasts:
            if not contrast.pooled:
                continue
            rank = (
                not item.qualifying,
                -item.level_rank,
                METRIC_ORDER[contrast.metric],
                statistic_rank(contrast.statistic),
                contrast.se,
                contrast.y,
                item.number,
            )
            candidate = PooledContrast(number=item.number, root=item.root, contrast=contrast)
            if source not in best or rank < best[source][0]:
                best[source] = (rank, candidate)
    return tuple(pair[1] for _, pair in sorted(best.items()))


def _origins(assessments: Sequence[Assessment]) -> dict[int, str]:
    """For each item, by number, the least identity among all that it shares a root or a measurement with."""
    least: dict[str, str] = {}

    def find(name: str) -> str:
        while least.setdefault(name, name) != name:
            name = least[name]
        return name

    for item in assessments:
        one, other = find(item.root), find(item.twin or item.root)
        least[max(one, other)] = min(one, other)
    return {item.number: find(item.root) for item in assessments}


METRIC_ORDER = {name: index for index, name in enumerate(METRICS)}


def synthesize(assessments: Sequence[Assessment], claim: Claim, policy: Policy) -> Posterior:
    """Posterior of the true effect at the settling level; its `price` is P(effect ≥ 1 + delta)."""
    effects = [Effect(y=item.contrast.y, se=item.contrast.se) for item in select(assessments)]
    prior = Prior(theta_sd=policy.theta_sd, tau_scale=policy.tau_scale)
    return posterior(effects, delta=claim.delta, prior=prior)


def closest(assessments: Sequence[Assessment]) -> Assessment | None:
    """The item that lacks least for end-to-end validation: its table says what would settle the case."""
    judged = [item for item in assessments if item.contrasts]
    if not judged:
        return None
    return max(
        judged,
        key=lambda item: (
            item.qualifying,
            # Evidence that measures something else lacks more than any row of its table says.
            item.pooled,
            sum(row.status is Status.MET for row in item.criteria),
            -sum(row.status is Status.UNMET for row in item.criteria),
            item.level_rank,
            item.root,
            item.number,
        ),
    )

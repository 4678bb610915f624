"""The forest plot: every effect of a case on one axis, counted in ink, others in grey with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.assess import AssessedContrast, Assessment, select, synthesize
from app.domain.claim import Claim
from app.domain.contrast import Contrast
from app.domain.effects import Effect
from app.domain.metrics import METRICS, Family
from app.domain.policy import Policy
from app.domain.pooled import Pooled, pooled
from app.domain.synthesis import Posterior
from app.store.records import EvidenceRecord
from app.web.charts import LogAxis, Ratios, Span, Tick, axis_over, span
from app.web.words import in_words, percent, ratio, words

SMALL, BIG = 5.0, 13.0
"""Side of the smallest and of the biggest square, px: its area shows the weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestRow:
    """One effect.

    Attributes:
        number: item of evidence that it comes from.
        measured: the effect as it was measured or reported, as text; `measured_span` as drawn.
        counted: the effect as it entered the price (projected, widened); empty where it did not.
        reason: why it did not.
        weight: share of the weight, as text; empty where it did not enter.
        side: side of its square, px.
    """

    number: int
    title: str
    metric: str
    level: str
    measured: str
    measured_span: Span
    counted: str
    counted_span: Span | None
    reason: str
    weight: str
    side: float
    imputed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A pooled effect under the rows."""

    name: str
    text: str
    span: Span
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """The plot and its table. `folded` counts contrasts on other metrics, shown with their evidence."""

    rows: tuple[ForestRow, ...]
    posterior: Summary
    classical: Summary | None
    classical_why: str
    ticks: tuple[Tick, ...]
    at_one: float
    at_delta: float
    delta: str
    folded: int
    price: str
    tau: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    record: EvidenceRecord
    contrast: Contrast
    judged: AssessedContrast
    counted: bool

    @property
    def measured(self) -> Ratios:
        return Ratios.of(self.judged.measured_y, self.judged.measured_se)

    @property
    def entered(self) -> Ratios:
        return Ratios.of(self.judged.y, self.judged.se)


def forest(claim: Claim, records: Sequence[EvidenceRecord], policy: Policy) -> Forest:
    """The forest plot of a case, over the evidence that stands."""
    living = [item.assessment for item in records if item.assessment is not None and item.withdrawn is None]
    belief = synthesize(living, claim, policy)
    rows, folded = _rows(claim, records, living)
    posterior_ratios = Ratios.between(belief.low, belief.mean, belief.high)
    classical = _classical([row for row in rows if row.counted])
    effects = [row.entered if row.counted else row.measured for row in rows]
    axis = axis_over([*effects, posterior_ratios], claim.delta)
    return Forest(
        rows=_drawn(rows, axis, belief),
        posterior=Summary(
            name="Posterior" if any(row.counted for row in rows) else "Prior alone",
            text=_text(posterior_ratios),
            span=span(axis, posterior_ratios),
            note="95 % credible interval",
        ),
        classical=None if classical is None else _classical_summary(classical, axis),
        classical_why=""
        if classical
        else "a pooled estimate without a prior needs at least two counted effects",
        ticks=axis.ticks(),
        at_one=axis.place(1.0),
        at_delta=axis.place(1.0 + claim.delta),
        delta=ratio(1.0 + claim.delta),
        folded=folded,
        price=f"{belief.price:.2f}",
        tau=f"{belief.tau_mean:.2f}",
    )


def _rows(
    claim: Claim, records: Sequence[EvidenceRecord], living: Sequence[Assessment]
) -> tuple[list[_Row], int]:
    counted = {(item.number, item.contrast) for item in select(living)}
    rows: list[_Row] = []
    folded = 0
    for record in records:
        if record.assessment is None or record.withdrawn is not None:
            continue
        for contrast, judged in zip(record.evidence.contrasts, record.assessment.contrasts, strict=True):
            if not on_claim(contrast, claim):
                folded += 1
                continue
            entered = (record.number, judged) in counted
            rows.append(_Row(record=record, contrast=contrast, judged=judged, counted=entered))
    rows.sort(key=lambda row: (not row.counted, row.record.number))
    return rows, folded


def on_claim(contrast: Contrast, claim: Claim) -> bool:
    """Whether a contrast is on the claim's metric, or on speed at a lower level, which is projected."""
    if contrast.metric == claim.metric:
        return True
    spec = METRICS.get(contrast.metric)
    below = contrast.level.rank < claim.settles_at.rank
    return below and spec is not None and spec.family is Family.SPEED


def _drawn(rows: Sequence[_Row], axis: LogAxis, belief: Posterior) -> tuple[ForestRow, ...]:
    weights = [1 / (row.judged.se**2 + belief.tau_mean**2) if row.counted else 0.0 for row in rows]
    total = sum(weights)
    return tuple(
        _drawn_row(row, axis, weight / total if total else 0.0)
        for row, weight in zip(rows, weights, strict=True)
    )


def _drawn_row(row: _Row, axis: LogAxis, share: float) -> ForestRow:
    contrast = row.contrast
    statistic = f", {contrast.statistic}" if contrast.statistic else ""
    return ForestRow(
        number=row.record.number,
        title=row.record.evidence.title,
        metric=f"{words(contrast.metric)}{statistic}",
        level=str(contrast.level),
        measured=_text(row.measured),
        measured_span=span(axis, row.measured),
        counted=_text(row.entered) if row.counted else "",
        counted_span=span(axis, row.entered) if row.counted else None,
        reason="" if row.counted else _why_not(row),
        weight=percent(share) if row.counted else "",
        side=round(SMALL + (BIG - SMALL) * share**0.5, 1) if row.counted else SMALL,
        imputed=contrast.se_imputed,
    )


def _why_not(row: _Row) -> str:
    if row.judged.pooled:
        return "goes back to the same source as another row: counted once"
    return in_words(row.judged.reason)


def _text(effect: Ratios) -> str:
    places = 2 if effect.high - effect.low > 0.03 else 3
    low, mid, high = (ratio(value, places) for value in (effect.low, effect.mid, effect.high))
    return f"{mid} [{low[:-1]},\u00a0{high[:-1]}]"


def _classical(rows: Sequence[_Row]) -> Pooled | None:
    return pooled([Effect(y=row.judged.y, se=row.judged.se) for row in rows])


def _classical_summary(found: Pooled, axis: LogAxis) -> Summary:
    effect = Ratios.between(found.low, found.estimate, found.high)
    return Summary(
        name="Without a prior",
        text=_text(effect),
        span=span(axis, effect),
        note=f"{found.method}, Hartung-Knapp 95 % interval, τ² {found.tau2:.3f}, {found.k} effects",
    )

"""What the API answers, as documented models. They are built from the store's values, field by field."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from app.domain.assess import closest
from app.domain.case import State, Strength
from app.domain.criteria import CriterionResult
from app.domain.evidence import Criterion, Evidence, Status
from app.domain.route import Routing
from app.domain.validity import RunValidity
from app.domain.verdict import Uncertainty, Verdict
from app.store.codec import dump
from app.store.records import (
    AlertRecord,
    CaseRecord,
    CaseSummary,
    DecisionRecord,
    EvidenceRecord,
    ImportedStanding,
    InterpretationRecord,
    PricePoint,
)


class Out(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(from_attributes=True)


class CaseList(Out):
    """One page of cases."""

    items: list[CaseSummary]
    next_cursor: str | None


class ClaimOut(Out):
    """The claim of a case."""

    sentence: str
    factor: list[str]
    metric: str
    settles_at: str
    delta: float
    horizon_hours: float
    claimants: list[str]
    effects: list[dict[str, Any]]
    workload: dict[str, Any]
    note: str | None


class GroundingOut(Out):
    """What the owner's notes say."""

    stance: str
    strength: str
    summary: str
    concepts: list[str]
    queries: list[str]


class CaseOut(Out):
    """A whole case but for its histories. `criteria` is the table of the evidence that lacks least, numbered
    `closest_evidence`; its rows that are not met are what would settle the case."""

    slug: str
    title: str
    state: State
    verdict: Verdict
    price: float
    uncertainty: Uncertainty
    heat: str | None = Field(description="null means never measured, which is not low.")
    relevance: Strength
    tags: list[str]
    entities: list[str]
    summary: str
    why_it_matters: str
    claim: ClaimOut
    grounding: GroundingOut | None
    criteria: list[CriterionResult]
    closest_evidence: int | None
    evidence_count: int
    opened_at: datetime
    last_material_at: datetime
    due_at: datetime
    updated_at: datetime
    imported: ImportedStanding | None


UNSEEN = tuple(
    CriterionResult(
        criterion=criterion, status=Status.UNKNOWN, reason="no evidence reports a measured effect"
    )
    for criterion in Criterion
)


def case_out(record: CaseRecord, evidence: tuple[EvidenceRecord, ...]) -> CaseOut:
    """A case as answered."""
    summary, claim = record.summary, record.claim
    best = closest([item.assessment for item in evidence if item.assessment and not item.withdrawn])
    return CaseOut(
        slug=summary.slug,
        title=summary.title,
        state=summary.state,
        verdict=summary.verdict,
        price=summary.price,
        uncertainty=summary.uncertainty,
        heat=summary.heat,
        relevance=record.relevance,
        tags=list(summary.tags),
        entities=list(summary.entities),
        summary=record.what,
        why_it_matters=record.why,
        claim=ClaimOut(
            sentence=claim.sentence,
            factor=list(claim.factor),
            metric=claim.metric,
            settles_at=claim.settles_at,
            delta=claim.delta,
            horizon_hours=claim.horizon.total_seconds() / 3600,
            claimants=list(claim.claimants),
            effects=[dump(effect) for effect in claim.effects],
            workload=dict(claim.workload),
            note=claim.note,
        ),
        grounding=GroundingOut.model_validate(dump(record.grounding)) if record.grounding else None,
        criteria=list(best.criteria if best else UNSEEN),
        closest_evidence=best.number if best else None,
        evidence_count=summary.evidence_count,
        opened_at=summary.opened_at,
        last_material_at=summary.last_material_at,
        due_at=summary.due_at,
        updated_at=summary.updated_at,
        imported=record.imported,
    )


class EvidenceOut(Out):
    """One item of evidence with how it is judged now."""

    number: int
    evidence: Evidence
    criteria: list[CriterionResult]
    qualifying: bool
    recorded_at: datetime
    actor: str
    withdrawn: str | None


def evidence_out(record: EvidenceRecord) -> EvidenceOut:
    """An item as answered."""
    judged = record.assessment
    return EvidenceOut(
        number=record.number,
        evidence=record.evidence,
        criteria=list(judged.criteria) if judged else [],
        qualifying=bool(judged and judged.qualifying and not record.withdrawn),
        recorded_at=record.recorded_at,
        actor=record.actor,
        withdrawn=record.withdrawn,
    )


class EvidenceList(Out):
    """One page of a case's evidence, by number."""

    items: list[EvidenceOut]
    next_cursor: str | None


class InterpretationList(Out):
    """One page of the interpretation history, newest first."""

    items: list[InterpretationRecord]
    next_cursor: str | None


class DecisionList(Out):
    """One page of the decision trace, newest first."""

    items: list[DecisionRecord]
    next_cursor: str | None


class PriceList(Out):
    """One page of price readings, newest first."""

    items: list[PricePoint]
    next_cursor: str | None


class AlertList(Out):
    """One page of alert-routing decisions, newest first."""

    items: list[AlertRecord]
    next_cursor: str | None


class DecidedOut(Out):
    """One decision of an answer."""

    verb: str
    at: datetime
    reason: str
    facts: dict[str, Any]


class ContrastOut(Out):
    """A contrast; `pooled` says whether it entered the synthesis, `why` why not."""

    metric: str
    statistic: str | None
    unit: str
    baseline: float | None
    treatment: float | None
    ratio: float
    log_ratio: float
    se: float
    se_imputed: bool
    level: str
    runs: int
    flags: list[str]
    pooled: bool
    why: str


class PriceMove(Out):
    """Price before and after."""

    before: float
    after: float


class StateMove(Out):
    """State before and after."""

    before: State
    after: State


class VerdictMove(Out):
    """Verdict before and after."""

    before: Verdict
    after: Verdict


class ChangeOut(Out):
    """What every write answers: before and after, decisions, and how alerts are routed."""

    case: str
    price: PriceMove
    state: StateMove
    verdict: VerdictMove
    decisions: list[DecidedOut]
    alerts: list[Routing]


class OpenedOut(ChangeOut):
    """The answer to a new case."""

    evidence: int
    uncertainty: Uncertainty


class SourceOut(ChangeOut):
    """The answer to a new source."""

    evidence: int
    duplicate: bool
    criteria: list[CriterionResult] = []
    notices: list[str] = []


class WithdrawnOut(ChangeOut):
    """The answer to a withdrawal."""

    evidence: int
    withdrawn: bool


class ResultOut(ChangeOut):
    """The answer to a result."""

    result_id: str
    evidence: int
    duplicate: bool
    qualifying: bool
    contrasts: list[ContrastOut]
    criteria: list[CriterionResult]
    run_validity: list[RunValidity]
    notices: list[str]

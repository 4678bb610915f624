"""What the store hands out: frozen values, never rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from app.domain.assess import Assessment
from app.domain.case import Grounding, State, Strength, Verb
from app.domain.claim import Claim
from app.domain.evidence import Evidence
from app.domain.route import Held, Route
from app.domain.verdict import Uncertainty, Verdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSummary:
    """One line of the case list. `heat` is `None` while nothing was ever measured; `prices` are the latest
    few, oldest first, for a sparkline."""

    slug: str
    title: str
    sentence: str
    state: State
    verdict: Verdict
    price: float
    uncertainty: Uncertainty
    heat: str | None
    tags: tuple[str, ...]
    entities: tuple[str, ...]
    evidence_count: int
    qualifying_count: int
    opened_at: datetime
    last_material_at: datetime
    due_at: datetime
    updated_at: datetime
    prices: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedStanding:
    """What an imported case said of itself before it lived here."""

    source: str
    state: State
    heat: str | None
    uncertainty: str | None
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRecord:
    """A whole case but for its histories."""

    summary: CaseSummary
    what: str
    why: str
    claim: Claim
    grounding: Grounding | None
    relevance: Strength
    imported: ImportedStanding | None
    recorded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRecord:
    """One item of evidence with how it was judged last. `withdrawn` holds the reason where it was taken back."""

    number: int
    evidence: Evidence
    assessment: Assessment | None
    recorded_at: datetime
    actor: str
    withdrawn: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One entry of the decision trace. Imported entries keep their own time and words and have no input hash."""

    number: int
    verb: Verb
    at: datetime
    recorded_at: datetime
    reason: str
    facts: Mapping[str, Any]
    input_hash: str | None
    policy_version: str | None
    imported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpretationRecord:
    """One entry of the interpretation history."""

    number: int
    at: datetime
    text: str
    imported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePoint:
    """The price after one event, with the 95 % interval of the effect (log ratio) that it was read from."""

    number: int
    at: datetime
    price: float
    verb: Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecord:
    """One routing decision as consumers see it."""

    id: int
    slug: str
    title: str
    at: datetime
    owner: str
    route: Route
    rule: str
    reason: str
    key: str
    held_back: tuple[Held, ...]
    would_raise: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page of a list in a stable total order; `next_cursor` is `None` on the last."""

    items: tuple[T, ...]
    next_cursor: str | None

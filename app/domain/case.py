"""A case as the core sees it: values only, everything that a decision may depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from app.domain.assess import Assessment
from app.domain.claim import Claim
from app.domain.evidence import Evidence, Finding
from app.domain.verdict import Uncertainty, Verdict


class State(StrEnum):
    """Where a case stands in its life; the verdict is another matter."""

    ACTIVE = "active"
    REPRICED = "repriced"
    EXPIRED = "expired"


class Stance(StrEnum):
    """How the owner's notes stand to a claim."""

    CONVERGES = "converges"
    DIVERGES = "diverges"
    EXTENDS = "extends"
    SILENT = "silent"


class Strength(StrEnum):
    """How strongly."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Verb(StrEnum):
    """What a decision does."""

    CREATE = "create"
    PROMOTE_ANCHOR = "promote_anchor"
    GROUND = "ground"
    SURFACE_CANDIDATE = "surface_candidate"
    OBSERVE = "observe"
    REPRICE = "reprice"
    EXPIRE = "expire"
    REVIVE = "revive"
    ALERT_ROUTE = "alert_route"
    ALERT_INTERRUPT = "alert_interrupt"
    ALERT_DIGEST = "alert_digest"
    ALERT_SILENT = "alert_silent"
    CORRECT = "correct"
    MERGE = "merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounding:
    """What the owner's notes already say."""

    stance: Stance
    strength: Strength
    summary: str = ""
    concepts: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Findings of one audit (item `number` of the case) on the evidence that goes back to `root`."""

    number: int
    root: str
    publisher: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Barred:
    """A root or measurement that was withdrawn, and why."""

    identity: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Facts of one case at one moment.

    Attributes:
        due_at: when it expires if nothing material comes.
        material_price: price at the last material event, from which the next one's move is counted.
        assessments: the judged evidence, one a piece, withdrawn ones left out.
        audits: what audits found, and of which root.
        barred: sources and measurements that were withdrawn: what comes again of them stays out of the pool.
    """

    slug: str
    claim: Claim
    state: State
    verdict: Verdict
    price: float
    uncertainty: Uncertainty
    opened_at: datetime
    last_material_at: datetime
    due_at: datetime
    material_price: float
    assessments: tuple[Assessment, ...] = ()
    audits: tuple[AuditEntry, ...] = ()
    barred: tuple[Barred, ...] = ()
    grounding: Grounding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOpened:
    """A case was created, with what is already known about it.

    `opened_at` lies before `at` where a case is taken in later; `imported_state` keeps the state of an older
    life.
    """

    at: datetime
    opened_at: datetime
    slug: str
    claim: Claim
    evidence: tuple[Evidence, ...] = ()
    grounding: Grounding | None = None
    imported_state: State | None = None
    imported_entries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRecorded:
    """An item of evidence came in, with its number within the case.

    `again` holds the evidence that it bears on, of the same source or measurement, or examined by an audit: it is
    judged anew in the same breath.
    """

    at: datetime
    number: int
    evidence: Evidence
    again: tuple[tuple[int, Evidence], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceWithdrawn:
    """A source was retracted or an entry withdrawn; the log keeps both.

    `again` holds the evidence that it bore on.
    """

    at: datetime
    number: int
    evidence: Evidence
    reason: str
    again: tuple[tuple[int, Evidence], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonPassed:
    """The hourly look at the clock. `deaf` is time in the window during which nothing could have been
    noticed."""

    at: datetime
    deaf: timedelta = timedelta(0)


Event = CaseOpened | EvidenceRecorded | EvidenceWithdrawn | HorizonPassed


def reaches(move: float, limit: float) -> bool:
    """Whether a move is at least a limit, whatever the last binary digit says: 0.50 to 0.60 is a move of
    0.10."""
    return move >= limit - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an event did to a case: the consequence that routing looks at."""

    price_before: float
    price_after: float
    state_before: State
    state_after: State
    verdict_before: Verdict
    verdict_after: Verdict
    first_qualifying: bool = False

    @property
    def price_move(self) -> float:
        """Size of the price's move, whatever its direction."""
        return abs(self.price_after - self.price_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One thing decided, with its reason in plain words and the facts that the reason was built from."""

    verb: Verb
    at: datetime
    reason: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpretation:
    """What the case means after a decision: one entry of the interpretation history."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that one event leads to: decisions in order, what they mean, and the case after them."""

    case: Case
    decisions: tuple[Decision, ...]
    interpretations: tuple[Interpretation, ...]
    assessments: tuple[Assessment, ...]
    change: Change

"""Evidence: what somebody published or measured, with where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.domain.claim import Level
from app.domain.contrast import Arm, Contrast
from app.domain.validity import RunValidity


class EvidenceKind(StrEnum):
    """What an item of evidence is."""

    SOURCE = "source"
    ECHO = "echo"
    RESULT = "result"
    AUDIT = "audit"


class Relation(StrEnum):
    """How a publisher stands to the claimant, where that is declared."""

    INDEPENDENT = "independent"
    CLAIMANT = "claimant"
    PAID = "paid"
    DERIVED = "derived"


class Criterion(StrEnum):
    """The eight conditions of end-to-end validation."""

    INDEPENDENT = "independent"
    END_TO_END = "end_to_end"
    WORKLOAD_MATCHED = "workload_matched"
    FACTOR_ISOLATED = "factor_isolated"
    QUALITY_RETAINED = "quality_retained"
    QUANTIZATION_COUNTED = "quantization_counted"
    MEASURED_SOUNDLY = "measured_soundly"
    REPRODUCIBLE = "reproducible"


class Status(StrEnum):
    """Whether a criterion holds, as far as the evidence tells."""

    MET = "met"
    UNMET = "unmet"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Who published it."""

    name: str
    url: str | None = None
    relation: Relation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What an audit found about one criterion of the evidence that it examines, with the lines it rests
    on."""

    criterion: Criterion
    status: Status
    reason: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One item of evidence.

    Attributes:
        ref: content identity: hex digest over what was handed in.
        root: identity of the independent source it goes back to; echoes of one post share it.
        address: where it was published, normalized.
        twin: identity of what was measured; the same numbers under other words share it.
        occurred_at: its own time: when it was published or measured.
        dated: whether its source states that time; otherwise it is the time at which it came in.
        audits: twin, or root, that an audit examines.
        quote: wording of the source, kept apart from judgement.
    """

    ref: str
    kind: EvidenceKind
    root: str
    address: str | None = None
    twin: str | None = None
    title: str
    publisher: Publisher | None
    occurred_at: datetime
    dated: bool = True
    url: str | None = None
    quote: str | None = None
    summary: str | None = None
    level: Level | None = None
    arms: tuple[Arm, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    validity: tuple[RunValidity, ...] = ()
    command: str | None = None
    findings: tuple[Finding, ...] = ()
    audits: str | None = None
    canonical_anchor: bool = False

"""A case as a file: what `assay cases import` reads, and the seed case is written in."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.domain.case import Stance, State, Strength, Verb
from app.domain.claim import Level
from app.formats.native import EvidenceIn
from app.formats.wire import Config, FieldName, Line, Slug, Text, Time, Wire


class EffectIn(Wire):
    """A figure as somebody stated it. With unit "ratio", treatment over baseline."""

    metric: Line
    low: float
    high: float
    unit: Line
    level: Annotated[Level, Field(strict=False)]
    treatment: Line
    baseline: Line | None = None
    hardware: Line | None = None
    workload: Line | None = None
    quote: Text | None = None
    source: Line | None = None


class ClaimIn(Wire):
    """The claim: sentence, factor, metric, settling level, materiality and horizon."""

    sentence: Text
    factor: Annotated[list[FieldName], Field(min_length=1, max_length=10)]
    metric: Line
    settles_at: Annotated[Level, Field(strict=False)] = Level.SERVING
    delta: Annotated[
        float, Field(gt=0, le=3, description="Least gain that counts, as a share: 0.10 is +10 %.")
    ] = 0.10
    horizon_hours: Annotated[float, Field(ge=1, le=24 * 366)] = 48
    claimants: Annotated[list[Line], Field(max_length=20)] = []
    effects: Annotated[list[EffectIn], Field(max_length=50)] = []
    workload: Config = {}
    note: Text | None = None


class GroundingIn(Wire):
    """What the owner's notes say of it."""

    stance: Annotated[Stance, Field(strict=False)]
    strength: Annotated[Strength, Field(strict=False)]
    summary: Text = ""
    concepts: Annotated[list[Line], Field(max_length=100)] = []
    queries: Annotated[list[Line], Field(max_length=100)] = []


class OldInterpretation(Wire):
    """An interpretation of an earlier life, kept as written."""

    at: Time
    text: Text


class OldDecision(Wire):
    """A trace entry of an earlier life, kept as written; `cut` says that its source had cut the text."""

    at: Time
    verb: Annotated[Verb, Field(strict=False)]
    reason: Text
    cut: bool = False


class HistoryIn(Wire):
    """The earlier life of an imported case."""

    source: Line
    state: Annotated[State, Field(strict=False)]
    heat: Literal["low", "medium", "high"] | None = None
    uncertainty: Literal["low", "medium", "high"] | None = None
    note: Text | None = None
    interpretations: Annotated[list[OldInterpretation], Field(max_length=10_000)] = []
    trace: Annotated[list[OldDecision], Field(max_length=10_000)] = []


class CaseIn(Wire):
    """A new case."""

    slug: Slug
    title: Line
    summary: Text = ""
    why_it_matters: Text = ""
    tags: Annotated[list[Line], Field(max_length=50)] = []
    entities: Annotated[list[Line], Field(max_length=50)] = []
    opened_at: Time | None = None
    claim: ClaimIn
    grounding: GroundingIn | None = None
    evidence: Annotated[list[EvidenceIn], Field(max_length=1000)] = []


class CaseFile(CaseIn):
    """A case with its earlier life."""

    format: Literal["assay-case-1"]
    history: HistoryIn | None = None

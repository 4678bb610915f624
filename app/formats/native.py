"""The native result, as anyone may POST it, and the same with raw tool output."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.domain.claim import Level
from app.domain.contrast import Role
from app.domain.evidence import Relation
from app.formats.wire import Config, FieldName, Line, Slug, Text, Time, Url, Wire


class PublisherIn(Wire):
    """Who publishes the result. `relation` declares a tie to the claimant, or that there is none."""

    name: Line
    url: Url | None = None
    relation: Annotated[Relation | None, Field(strict=False)] = None


class MetricIn(Wire):
    """One metric of one arm: one value a replicate, in the stated unit."""

    name: Line
    unit: Line
    values: Annotated[list[float], Field(min_length=1, max_length=10_000)]
    statistic: Annotated[str, Field(pattern=r"^[a-z0-9_.]{1,20}$")] | None = None


class FileIn(Wire):
    """A raw file, base64. `format` may be left to detection."""

    name: Line
    format: Line = "auto"
    content_base64: Annotated[str, Field(max_length=80_000_000)]


class ArmIn(Wire):
    """One arm. Metrics come from `metrics`, from `files`, or both, which must then agree."""

    role: Annotated[Role, Field(strict=False)]
    config: Config = {}
    metrics: Annotated[list[MetricIn], Field(max_length=200)] = []
    files: Annotated[list[FileIn], Field(max_length=64)] = []
    paired: bool = False


class ResultIn(Wire):
    """A benchmark result handed in from outside. Exactly one baseline and one treatment."""

    case: Slug
    format: Line = "assay"
    level: Annotated[Level, Field(strict=False)] = Level.SERVING
    factor: Annotated[list[FieldName], Field(max_length=10)] | None = None
    publisher: PublisherIn | None = None
    title: Line | None = None
    measured_at: Time | None = None
    source_url: Url | None = None
    command: Text | None = None
    note: Text | None = None
    arms: Annotated[list[ArmIn], Field(min_length=1, max_length=16)]


class ReportedIn(Wire):
    """A ratio that a source states, treatment over baseline: "+29 to 40 %" is 1.29 to 1.40."""

    metric: Line
    low: float
    high: float


class FindingIn(Wire):
    """What an audit found about one criterion, with the lines that it rests on."""

    criterion: Literal[
        "independent",
        "end_to_end",
        "workload_matched",
        "factor_isolated",
        "quality_retained",
        "quantization_counted",
        "measured_soundly",
        "reproducible",
    ]
    status: Literal["met", "unmet", "unknown"]
    reason: Text
    lines: Annotated[list[Line], Field(max_length=100)] = []


class ReportedArmIn(Wire):
    """What a source says of one of its arms."""

    role: Annotated[Role, Field(strict=False)]
    config: Config = {}


class EvidenceIn(Wire):
    """A source, an echo of one, or an audit of one. Numbers are quoted in `reported`, wording in `quote`.

    `echo_of` and `audits` name another item of the case: by its number, or by its `key` within one file.
    """

    kind: Literal["source", "echo", "audit"] = "source"
    key: Line | None = None
    title: Line
    url: Url | None = None
    publisher: PublisherIn | None = None
    published_at: Time | None = None
    quote: Text | None = None
    summary: Text | None = None
    level: Annotated[Level | None, Field(strict=False)] = None
    arms: Annotated[list[ReportedArmIn], Field(max_length=2)] = []
    reported: Annotated[list[ReportedIn], Field(max_length=20)] = []
    findings: Annotated[list[FindingIn], Field(max_length=50)] = []
    echo_of: int | Line | None = None
    audits: int | Line | None = None
    canonical_anchor: bool = False

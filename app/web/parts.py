"""Pieces that page contexts are made of: text, numbers and values made for showing."""

from __future__ import annotations

from dataclasses import dataclass

from app.web.charts import Sparkline
from app.web.times import Moment
from app.web.words import Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """What surrounds every page.

    Attributes:
        title: of the document.
        here: name of the navigation entry that is current: cases, alerts, submit, or empty.
        zone: zone of every time on the page, with its offset.
        now: when the page was made.
        owner: for whom.
        assets: version of the static files, so that a browser may keep them.
    """

    title: str
    here: str
    zone: str
    now: Moment
    owner: str
    assets: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An entry of a choice."""

    value: str
    label: str
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """Something in a form that cannot be taken: which control, what, the value found there and what to do."""

    control: str
    field: str
    detail: str
    value: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line to copy."""

    name: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A tag or entity, with the list of cases that bear it."""

    text: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseLine:
    """One case in the list."""

    slug: str
    title: str
    sentence: str
    state: Mark
    verdict: Mark
    price: str
    uncertainty: Mark
    heat: Mark
    spark: Sparkline | None
    tags: tuple[Label, ...]
    evidence: str
    updated: Moment
    due: Moment
    waiting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A filter in force, with the list without it."""

    name: str
    value: str
    without: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A claimed effect: a figure as somebody stated it."""

    figure: str
    metric: str
    level: str
    treatment: str
    baseline: str
    where: str
    quote: str
    source: str
    source_link: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPart:
    """The claim, made testable. `note` says what was added to the source's own wording."""

    sentence: str
    factor: tuple[str, ...]
    metric: str
    meaning: str
    settles_at: str
    delta: str
    horizon: str
    claimants: tuple[str, ...]
    workload: tuple[tuple[str, str], ...]
    effects: tuple[Quoted, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """A note of the owner's. `link` where its name is a web address."""

    name: str
    link: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundingPart:
    """What the owner's notes say."""

    stance: str
    strength: str
    summary: str
    concepts: tuple[Concept, ...]
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPart:
    """What an imported case said of itself before it lived here."""

    source: str
    source_link: str | None
    state: str
    heat: str
    uncertainty: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertLine:
    """One routing decision."""

    id: int
    slug: str
    title: str
    at: Moment
    owner: str
    route: Mark
    rule: str
    reason: str
    key: str
    held_back: tuple[tuple[str, str], ...]
    would_raise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """Files carried from one page to the next, because a browser cannot fill a file control."""

    names: tuple[str, ...]
    carried: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewArm:
    """One arm of a result before it is sent: its files, each with the format that was recognised."""

    role: str
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Something before and after."""

    name: str
    before: str
    after: str
    same: bool

"""What each template is given: exactly one documented value, and nothing else.

`template` names the file that draws it. Everything in a context is text, numbers and values made for showing; no
record of the store reaches a template.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from app.web.answer import Answer
from app.web.charts import Sparkline
from app.web.forest import Forest
from app.web.history import InterpretationEntry, PriceChart, Trace
from app.web.items import ContrastRow, CriterionRow, Item, Settling, ValidityRow
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
class CasesContext:
    """The case list.

    Attributes:
        q, tag, entity, min_price: texts of the filter as they were given.
        states, verdicts, sorts: the choices.
        chips: filters in force.
        known_tags, known_entities: labels on this page, offered while typing.
        older: address of the next page; `newest` of the first, on any other page.
        mistakes: parts of the address that mean nothing; they were left out.
        empty: whether there is no case at all, as opposed to none that fits.
    """

    template: ClassVar[str] = "cases.html"

    shell: Shell
    q: str
    tag: str
    entity: str
    min_price: str
    states: tuple[Option, ...]
    verdicts: tuple[Option, ...]
    sorts: tuple[Option, ...]
    chips: tuple[Chip, ...]
    known_tags: tuple[str, ...]
    known_entities: tuple[str, ...]
    lines: tuple[CaseLine, ...]
    older: str | None
    newest: str | None
    mistakes: tuple[Mistake, ...]
    empty: bool


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
class CaseContext:
    """One case: the answer first, then the picture, the criteria, the evidence and the history.

    Attributes:
        notice: what was just done, empty otherwise.
        waiting: whether the horizon still runs.
        older_trace: address of the trace's continuation.
    """

    template: ClassVar[str] = "case.html"

    shell: Shell
    slug: str
    title: str
    notice: str
    answer: Answer
    state: Mark
    verdict: Mark
    price: str
    uncertainty: Mark
    heat: Mark
    relevance: str
    tags: tuple[Label, ...]
    entities: tuple[Label, ...]
    opened: Moment
    recorded: Moment
    material: Moment
    due: Moment
    waiting: bool
    what: str
    why: str
    claim: ClaimPart
    grounding: GroundingPart | None
    imported: ImportedPart | None
    forest: Forest
    prices: PriceChart | None
    settling: Settling | None
    items: tuple[Item, ...]
    interpretations: tuple[InterpretationEntry, ...]
    trace: Trace
    older_trace: str | None
    commands: tuple[Command, ...]


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
class AlertsContext:
    """Alert-routing decisions. `since` is the text of the filter as it was given."""

    template: ClassVar[str] = "alerts.html"

    shell: Shell
    routes: tuple[Option, ...]
    since: str
    lines: tuple[AlertLine, ...]
    older: str | None
    newest: str | None
    mistakes: tuple[Mistake, ...]
    filtered: bool
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitContext:
    """The form for handing in a result.

    Attributes:
        fields: texts of the form, by control.
        levels, relations: the choices.
        slugs: cases offered while typing, with their titles.
        kept: for each arm, names of files already handed over, and the hidden text that carries them.
        mistakes: what cannot be taken; each is shown beside its control.
    """

    template: ClassVar[str] = "submit.html"

    shell: Shell
    csrf: str
    fields: dict[str, str]
    levels: tuple[Option, ...]
    relations: tuple[Option, ...]
    slugs: tuple[tuple[str, str], ...]
    kept: dict[str, KeptFiles]
    mistakes: tuple[Mistake, ...]
    by_control: dict[str, tuple[Mistake, ...]]
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """Files carried from one page to the next, because a browser cannot fill a file control."""

    names: tuple[str, ...]
    carried: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewArm:
    """One arm of a result before it is sent: its files with the format that was recognised, and what it declares."""

    role: str
    files: tuple[tuple[str, str], ...]
    config: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Something before and after."""

    name: str
    before: str
    after: str
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewContext:
    """What a result would change, before it is sent. `draft` carries the document; nothing is stored yet."""

    template: ClassVar[str] = "preview.html"

    shell: Shell
    csrf: str
    slug: str
    level: str
    draft: str
    duplicate: int | None
    qualifying: bool
    arms: tuple[PreviewArm, ...]
    contrasts: tuple[ContrastRow, ...]
    criteria: tuple[CriterionRow, ...]
    validity: tuple[ValidityRow, ...]
    moves: tuple[Move, ...]
    decisions: tuple[tuple[str, str], ...]
    alerts: tuple[tuple[Mark, str, str], ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorContext:
    """Something that did not work: what, why, and what to do."""

    template: ClassVar[str] = "error.html"

    shell: Shell
    status: int
    heading: str
    detail: str
    remedy: str


PageContext = CasesContext | CaseContext | AlertsContext | SubmitContext | PreviewContext | ErrorContext

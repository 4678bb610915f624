"""What each template is given: exactly one documented value, and nothing else.

`template` names the file that draws it. Everything in a context is text, numbers and values made for showing;
no record of the store reaches a template.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from app.web.answer import Answer
from app.web.forest import Forest
from app.web.history import InterpretationEntry, PriceChart, Trace
from app.web.items import Item, Settling
from app.web.parts import (
    AlertLine,
    CaseLine,
    Chip,
    ClaimPart,
    Command,
    GroundingPart,
    ImportedPart,
    KeptFiles,
    Label,
    Mistake,
    Move,
    Option,
    PreviewArm,
    Shell,
)
from app.web.rows import ConfigRow, ContrastTable, CriterionRow, ValidityRow
from app.web.times import Moment
from app.web.words import Mark


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
class CaseContext:
    """One case: the answer first, then the picture, the criteria, the evidence and the history.

    Attributes:
        notice: what was just done, empty otherwise.
        due_label: what `due` is: when the horizon ends, ended, or the case expired.
        due: `None` while a result qualifies, for then the case does not expire.
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
    due_label: str
    due: Moment | None
    what: str
    why: str
    claim: ClaimPart
    grounding: GroundingPart | None
    imported: ImportedPart | None
    forest: Forest
    prices: PriceChart | None
    settling: Settling
    items: tuple[Item, ...]
    interpretations: tuple[InterpretationEntry, ...]
    trace: Trace
    older_trace: str | None
    commands: tuple[Command, ...]


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
    factor: tuple[str, ...]
    differs: tuple[ConfigRow, ...]
    same: tuple[ConfigRow, ...]
    contrasts: ContrastTable
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

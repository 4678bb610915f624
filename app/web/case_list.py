"""The case list: its address read, its context made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlencode

from app.domain.case import State
from app.domain.verdict import Verdict
from app.store.records import CaseSummary, Page
from app.web.case_page import labels
from app.web.charts import sparkline
from app.web.contexts import CasesContext
from app.web.parts import CaseLine, Chip, Mistake, Option, Shell
from app.web.times import Dial
from app.web.words import HEATS, STATES, UNCERTAINTIES, VERDICTS

SORTS: Final = {"updated": "last change", "price": "price, highest first", "title": "title"}
CASES_ON_A_PAGE: Final = 50
LONGEST: Final = 300
"""Characters of a filter that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseWishes:
    """The case list's address, read. What means nothing is left out and named in `mistakes`."""

    state: str | None = None
    verdict: str | None = None
    tag: str | None = None
    entity: str | None = None
    q: str | None = None
    min_price: float | None = None
    min_price_text: str = ""
    sort: str = "updated"
    cursor: str | None = None
    mistakes: tuple[Mistake, ...] = ()

    def address(self, *leave_out: str, cursor: str | None = None) -> str:
        """An address of the list with the same filter, without those named."""
        wanted = {
            "q": self.q,
            "state": self.state,
            "verdict": self.verdict,
            "tag": self.tag,
            "entity": self.entity,
            "min_price": self.min_price_text if self.min_price is not None else None,
            "sort": self.sort if self.sort != "updated" else None,
            "cursor": cursor,
        }
        query = urlencode({name: value for name, value in wanted.items() if value and name not in leave_out})
        return f"/?{query}" if query else "/"


def read_case_wishes(query: Mapping[str, str]) -> CaseWishes:
    """The filter that an address asks for."""
    mistakes: list[Mistake] = []
    text = text_of(query, "min_price")
    return CaseWishes(
        state=choice_of(query, "state", State, mistakes),
        verdict=choice_of(query, "verdict", Verdict, mistakes),
        tag=text_of(query, "tag") or None,
        entity=text_of(query, "entity") or None,
        q=text_of(query, "q") or None,
        min_price=_price(text, mistakes),
        min_price_text=text,
        sort=_sort(query, mistakes),
        cursor=text_of(query, "cursor") or None,
        mistakes=tuple(mistakes),
    )


def text_of(query: Mapping[str, str], name: str) -> str:
    value = query.get(name, "").replace("\x00", "").strip()
    return value if name == "cursor" else value[:LONGEST]


def choice_of(
    query: Mapping[str, str], name: str, among: type[StrEnum], mistakes: list[Mistake]
) -> str | None:
    value = text_of(query, name)
    if not value:
        return None
    if value in list(among):
        return value
    mistakes.append(
        Mistake(
            control=name,
            field=name,
            detail=f"There is no {name} {value[:40]!r}; the list is not narrowed by it.",
            value=value[:40],
            remedy=f"Choose one of {', '.join(among)}.",
        )
    )
    return None


def _price(text: str, mistakes: list[Mistake]) -> float | None:
    if not text:
        return None
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = -1.0
    if 0 <= value <= 1:
        return value
    mistakes.append(
        Mistake(
            control="min_price",
            field="min_price",
            detail="A price is a probability; the list is not narrowed by this one.",
            value=text[:40],
            remedy="Give a number from 0 to 1, such as 0.5.",
        )
    )
    return None


def _sort(query: Mapping[str, str], mistakes: list[Mistake]) -> str:
    value = text_of(query, "sort") or "updated"
    if value in SORTS:
        return value
    mistakes.append(
        Mistake(
            control="sort",
            field="sort",
            detail=f"There is no order {value[:40]!r}; the list is ordered by last change.",
            value=value[:40],
            remedy=f"Choose one of {', '.join(SORTS)}.",
        )
    )
    return "updated"


def cases_context(page: Page[CaseSummary], wishes: CaseWishes, shell: Shell, dial: Dial) -> CasesContext:
    """The context of the case list."""
    chips = _chips(wishes)
    return CasesContext(
        shell=shell,
        q=wishes.q or "",
        tag=wishes.tag or "",
        entity=wishes.entity or "",
        min_price=wishes.min_price_text,
        states=options(State, wishes.state, "any state"),
        verdicts=options(Verdict, wishes.verdict, "any verdict"),
        sorts=tuple(
            Option(value=name, label=label, chosen=name == wishes.sort) for name, label in SORTS.items()
        ),
        chips=chips,
        known_tags=tuple(sorted({tag for case in page.items for tag in case.tags})),
        known_entities=tuple(sorted({name for case in page.items for name in case.entities})),
        lines=tuple(_line(case, dial) for case in page.items),
        older=wishes.address(cursor=page.next_cursor) if page.next_cursor else None,
        newest=wishes.address() if wishes.cursor else None,
        mistakes=wishes.mistakes,
        empty=not page.items and not chips and wishes.cursor is None,
    )


def options(among: Iterable[StrEnum], chosen: str | None, anything: str) -> tuple[Option, ...]:
    """Choices of a select, the first of which chooses nothing."""
    first = Option(value="", label=anything, chosen=chosen is None)
    return (first, *(Option(value=str(one), label=str(one), chosen=str(one) == chosen) for one in among))


def _chips(wishes: CaseWishes) -> tuple[Chip, ...]:
    given = (
        ("q", "search", wishes.q),
        ("state", "state", wishes.state),
        ("verdict", "verdict", wishes.verdict),
        ("tag", "tag", wishes.tag),
        ("entity", "entity", wishes.entity),
        ("min_price", "price at least", wishes.min_price_text if wishes.min_price is not None else None),
    )
    return tuple(
        Chip(name=label, value=value, without=wishes.address(name)) for name, label, value in given if value
    )


def _line(case: CaseSummary, dial: Dial) -> CaseLine:
    count = case.evidence_count
    return CaseLine(
        slug=case.slug,
        title=case.title,
        sentence=case.sentence,
        state=STATES[case.state],
        verdict=VERDICTS[case.verdict],
        price=f"{case.price:.2f}",
        uncertainty=UNCERTAINTIES[case.uncertainty],
        heat=HEATS[case.heat],
        spark=sparkline(case.prices),
        tags=labels("tag", case.tags),
        evidence="no evidence" if not count else f"{count} item{'s' if count > 1 else ''} of evidence",
        updated=dial.show(case.updated_at),
        due=dial.show(case.due_at),
        waiting=case.state is not State.EXPIRED and case.qualifying_count == 0,
    )

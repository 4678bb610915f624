"""Narrowing the case list, so that a page takes no longer among many cases than among few.

Each wish of a filter picks a set of cases. Where one picks few, those are fetched and sorted; where all pick
many, the list is walked in its own order, in which enough that fit come soon. The database alone cannot tell:
SQLite has no statistics here, and sorted every active case where a walk over a hundred would have done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, exists, false, func, select

from app.store.search import hits
from app.store.tables import cases, labels

FEW: Final = 1000
"""So many cases are sorted in a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFilter:
    """What the case list is narrowed to."""

    state: str | None = None
    verdict: str | None = None
    tag: str | None = None
    entity: str | None = None
    q: str | None = None
    min_price: float | None = None


@dataclass(frozen=True, slots=True)
class _Wish:
    """One wish: the ids that it picks, and the same as a condition on a case that is looked at anyway."""

    ids: Select[Any]
    fits: ColumnElement[bool]


def narrowed(connection: Connection, wanted: CaseFilter, sort: str) -> list[ColumnElement[bool]]:
    """Conditions on `cases` for a filter, put so that the better of both ways is taken."""
    # An index on state or verdict bears the last change as well: it is a walk in that order already.
    loose = connection.dialect.name == "sqlite"
    wishes = _wishes(connection, wanted, loose=loose and sort != "updated")
    if wishes is None:
        return [false()]
    for wish in wishes:
        ids = connection.execute(wish.ids.limit(FEW + 1)).scalars().all()
        if len(ids) <= FEW:
            others = _wishes(connection, wanted, loose=loose) or []
            return [cases.c.id.in_(ids), *(other.fits for other in others)]
    return [wish.fits for wish in wishes]


def _wishes(connection: Connection, wanted: CaseFilter, *, loose: bool) -> list[_Wish] | None:
    """Each wish, `None` when no case can fit. `loose` keeps SQLite from narrowing by a column's own index."""
    found = []
    for column, value in ((cases.c.state, wanted.state), (cases.c.verdict, wanted.verdict)):
        if value is not None:
            held = func.coalesce(column, "") if loose else column
            found.append(_Wish(select(cases.c.id).where(column == value), held == value))
    if wanted.min_price is not None:
        held = func.coalesce(cases.c.price, -1.0) if loose else cases.c.price
        dear = select(cases.c.id).where(cases.c.price >= wanted.min_price)
        found.append(_Wish(dear, held >= wanted.min_price))
    for kind, value in (("tag", wanted.tag), ("entity", wanted.entity)):
        if value:
            found.append(_labelled(kind, value))
    if wanted.q and wanted.q.strip():
        ids = hits(connection, wanted.q)
        if ids is None:
            return None
        # Always loose: else SQLite fetches and sorts every case with the word.
        held = func.coalesce(cases.c.id, 0) if connection.dialect.name == "sqlite" else cases.c.id
        found.append(_Wish(ids, held.in_(ids)))
    return found


def _labelled(kind: str, value: str) -> _Wish:
    where = (labels.c.kind == kind, labels.c.value == value)
    return _Wish(
        select(labels.c.case_id).where(*where), exists().where(*where, labels.c.case_id == cases.c.id)
    )

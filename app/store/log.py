"""The append-only log: rows of a case, each with a link in the case's hash chain.

link = SHA-256(prev ":" seq ":" part ":" row id ":" digest), digest = SHA-256 of the row's canonical JSON, and the first
`prev` is 64 zeros. `UNIQUE (case_id, prev)` in the database makes a fork impossible.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Table, insert, select

from app.domain.errors import NotFound
from app.store.codec import digest, plain
from app.store.tables import LOGGED, cases, log

GENESIS: Final = "0" * 64
APPEND: Final = {name: insert(table).returning(table.c.id) for name, table in LOGGED.items()}
"""Statements made once: putting them together for each row took longer than the database does."""


def row_digest(row: dict[str, Any]) -> str:
    """Digest of one row, its `id` left out (the link names it)."""
    return digest(plain({name: value for name, value in row.items() if name != "id"}))


def link_hash(prev: str, seq: int, part: str, row_id: int, digest_: str) -> str:
    """Hash of one link."""
    return hashlib.sha256(f"{prev}:{seq}:{part}:{row_id}:{digest_}".encode()).hexdigest()


@dataclass(slots=True)
class CaseLog:
    """Writes rows of one case within one transaction that holds the case's lock."""

    connection: Connection
    case_id: int
    length: int = 0
    head: str = GENESIS
    _links: list[dict[str, Any]] = field(default_factory=list)

    def add(self, table: Table, **values: Any) -> int:
        """Append one row and link it; returns its id."""
        row = {"case_id": self.case_id, **values}
        row_id: int = self.connection.execute(APPEND[table.name], row).scalar_one()
        self.length += 1
        hashed = row_digest({column.name: row.get(column.name) for column in table.columns})
        link = link_hash(self.head, self.length, table.name, row_id, hashed)
        self._links.append(
            {
                "case_id": self.case_id,
                "seq": self.length,
                "part": table.name,
                "row_id": row_id,
                "digest": hashed,
                "prev": self.head,
                "hash": link,
            }
        )
        self.head = link
        return row_id

    def flush(self) -> None:
        """Write the links. The caller then stores `length` and `head` with the case."""
        if self._links:
            self.connection.execute(insert(log), self._links)
            self._links.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One disagreement between the log and the rows."""

    slug: str
    seq: int
    part: str
    row_id: int | None
    what: str


def check_chain(connection: Connection, slug: str | None = None) -> Iterator[Damage]:
    """Every disagreement in the chains of one case or all: changed, removed, inserted or reordered rows.

    Raises:
        NotFound: there is no such case.
    """
    query = select(cases.c.id, cases.c.slug, cases.c.log_length, cases.c.log_head).order_by(cases.c.id)
    if slug is not None:
        query = query.where(cases.c.slug == slug)
    found = connection.execute(query).all()
    if slug is not None and not found:
        raise NotFound("case", slug)
    for case in found:
        yield from _check_case(connection, case.id, case.slug, case.log_length, case.log_head)
    if slug is None:
        orphans = select(log.c.case_id).where(log.c.case_id.not_in(select(cases.c.id))).distinct()
        for case_id in connection.execute(orphans.order_by(log.c.case_id)).scalars():
            yield Damage(slug=f"case {case_id}", seq=0, part="cases", row_id=case_id, what="the case is gone")


def _check_case(connection: Connection, case_id: int, slug: str, length: int, head: str) -> Iterator[Damage]:
    rows = {part: _rows(connection, table, case_id) for part, table in LOGGED.items()}
    prev, seq = GENESIS, 0
    links = connection.execute(select(log).where(log.c.case_id == case_id).order_by(log.c.seq)).all()
    for link in links:
        seq += 1
        where: dict[str, Any] = {"slug": slug, "seq": link.seq, "part": link.part, "row_id": link.row_id}
        if link.seq != seq:
            yield Damage(**where, what=f"link {seq} is missing")
            seq = link.seq
        if link.prev != prev or link.hash != link_hash(
            link.prev, link.seq, link.part, link.row_id, link.digest
        ):
            yield Damage(**where, what="the link does not follow the one before it")
        row = rows.get(link.part, {}).pop(link.row_id, GONE)
        if row is GONE:
            yield Damage(**where, what="the row is gone")
        elif not _as_written(row, link.digest):
            yield Damage(**where, what="the row was changed after it was written")
        prev = link.hash
    if (seq, prev) != (length, head):
        yield Damage(
            slug=slug, seq=seq, part="log", row_id=None, what=f"the log ends at {seq}, the case says {length}"
        )
    for part, left in rows.items():
        for row_id in left:
            yield Damage(slug=slug, seq=0, part=part, row_id=row_id, what="the row has no link in the log")


GONE: Final[dict[str, Any]] = {}
UNREADABLE: Final[dict[str, Any]] = {}
"""Stand for a row that is not there, and for one whose values cannot be read."""


def _as_written(row: dict[str, Any], expected: str) -> bool:
    try:
        return row is not UNREADABLE and row_digest(row) == expected
    except (TypeError, ValueError):
        # Something that we could not have written, such as NaN.
        return False


def _rows(connection: Connection, table: Table, case_id: int) -> dict[int, dict[str, Any]]:
    try:
        found = connection.execute(select(table).where(table.c.case_id == case_id).order_by(table.c.id)).all()
    except (TypeError, ValueError):
        ids = select(table.c.id).where(table.c.case_id == case_id).order_by(table.c.id)
        return {row_id: _row(connection, table, row_id) for row_id in connection.execute(ids).scalars().all()}
    return {row.id: dict(row._mapping) for row in found}


def _row(connection: Connection, table: Table, row_id: int) -> dict[str, Any]:
    try:
        return dict(connection.execute(select(table).where(table.c.id == row_id)).one()._mapping)
    except (TypeError, ValueError):
        return UNREADABLE

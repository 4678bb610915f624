"""Full-text search over cases: FTS5 on SQLite, a GIN-indexed tsvector on PostgreSQL."""

from __future__ import annotations

import re

from sqlalchemy import ColumnElement, Connection, text
from sqlalchemy.sql import column, literal_column, select, table

from app.store.tables import cases

WORD = re.compile(r"\w+", re.UNICODE)
MAX_WORDS = 12

_index = table("case_search", column("case_id"), column("document"))


def words_of(query: str) -> list[str]:
    """Words to look for, at most twelve: punctuation separates, case does not count."""
    return [word.casefold() for word in WORD.findall(query)][:MAX_WORDS]


def index_case(connection: Connection, case_id: int, document: str) -> None:
    """Put a case's text into the index. A case is indexed once, when it is created."""
    if connection.dialect.name == "sqlite":
        statement = "INSERT INTO case_search (rowid, document) VALUES (:id, :document)"
    else:
        statement = (
            "INSERT INTO case_search (case_id, document) VALUES (:id, to_tsvector('simple', :document))"
        )
    connection.execute(text(statement), {"id": case_id, "document": document.casefold()})


def matches(connection: Connection, query: str) -> ColumnElement[bool] | None:
    """Condition on `cases` for a search, every word a prefix; `None` when there is no word in it."""
    words = words_of(query)
    if not words:
        return None
    if connection.dialect.name == "sqlite":
        pattern = " ".join(f'"{word}"*' for word in words)
        hit = text("SELECT rowid FROM case_search WHERE case_search MATCH :pattern").bindparams(
            pattern=pattern
        )
        return cases.c.id.in_(hit.columns(column("rowid")).scalar_subquery())
    pattern = " & ".join(f"{word}:*" for word in words)
    document: ColumnElement[bool] = literal_column("document").op("@@")(
        literal_column("to_tsquery('simple', :pattern)").bindparams(pattern=pattern)
    )
    return cases.c.id.in_(select(_index.c.case_id).where(document))

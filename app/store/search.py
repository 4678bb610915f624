"""Full-text search over cases: FTS5 on SQLite, a GIN-indexed tsvector on PostgreSQL."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, text
from sqlalchemy.sql import column, literal_column, select, table

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


def hits(connection: Connection, query: str) -> Select[Any] | None:
    """Ids of the cases that a search finds, every word a prefix; `None` when there is no word in it."""
    words = words_of(query)
    if not words:
        return None
    if connection.dialect.name == "sqlite":
        pattern = " ".join(f'"{word}"*' for word in words)
        found: ColumnElement[bool] = literal_column("case_search").op("MATCH")(pattern)
        return select(literal_column("rowid")).select_from(_index).where(found)
    pattern = " & ".join(f"{word}:*" for word in words)
    found = literal_column("document").op("@@")(func.to_tsquery("simple", pattern))
    return select(_index.c.case_id).where(found)

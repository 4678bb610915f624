"""Builds a database of many cases: a mould of a few is judged by the service itself, then copied inside the
database.

Copies have names, tags, words, times, states and prices of their own; what hangs on them is as in the
mould. Links of the hash chain are not copied: nothing that is measured here reads them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Engine, Table, create_engine, insert, select, text

from app.domain.policy import Policy
from app.formats.case_file import CaseIn
from app.formats.native import EvidenceIn, ResultIn
from app.formats.wire import read_document
from app.services.intake import record_result, record_source
from app.services.judge import Desk, Owner
from app.services.opening import open_case
from app.store.engine import make_engine, writing
from app.store.migrate import migrate
from app.store.search import index_case
from app.store.tables import (
    alerts,
    assessments,
    cases,
    decisions,
    events,
    evidence,
    interpretations,
    labels,
    readings,
)
from benchmarks import payloads

MOULD: Final = 20
EVIDENCE: Final = 10
FEW: Final = 5
"""How many cases bear the tag, verdict and word that few bear, whatever the size."""
FEW_TAG: Final = "blackwell"
HALF_TAG: Final = "serving"
FEW_WORD: Final = "gadolinium"
EVERY_WORD: Final = "throughput"
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
NOW: Final = datetime(2026, 3, 1, tzinfo=UTC)
STATES: Final = ("active",) * 5 + ("repriced",) * 3 + ("expired",) * 2
WORDS: Final = tuple(
    [
        "batch",
        "cache",
        "decode",
        "draft",
        "expert",
        "graph",
        "head",
        "kernel",
        "latency",
        "layer",
        "memory",
        "node",
        "outlier",
        "page",
        "prefill",
        "prompt",
        "queue",
        "recipe",
        "router",
        "sampling",
        "scale",
        "schedule",
        "shard",
        "stage",
        "tensor",
        "tile",
        "token",
        "trace",
        "vector",
        "warp",
        "window",
        "worker",
    ]
)
HANGING: Final = (events, evidence, assessments, decisions, interpretations, readings, alerts)


def slug_of(number: int) -> str:
    """Slug of a case by number, from 0."""
    return f"bench-case-{number:06d}"


def middle_of(count: int) -> datetime:
    """A time of change that half of the cases are younger than."""
    return START + timedelta(minutes=count // 2)


def fill(url: str, count: int) -> None:
    """Fill a new database with `count` cases, a multiple of the mould's, those of the mould among them."""
    engine = make_engine(url)
    migrate(engine)
    _mould(engine)
    if engine.dialect.name == "sqlite":
        engine.dispose()
        engine = create_engine(url)
        with engine.connect() as connection:
            for pragma in (
                "journal_mode=DELETE",
                "journal_mode=OFF",
                "synchronous=OFF",
                "cache_size=-200000",
            ):
                connection.exec_driver_sql(f"PRAGMA {pragma}")
            _copy_all(connection, count)
            connection.commit()
    else:
        with engine.begin() as connection:
            _copy_all(connection, count)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
    engine.dispose()


def _mould(engine: Engine) -> None:
    desk = Desk(policy=Policy(), owner=Owner(name="owner", zone="UTC"), actor="benchmark", now=NOW)
    for number in range(MOULD):
        slug = f"mould-{number}"
        with writing(engine) as connection:
            open_case(connection, read_document(CaseIn, payloads.case(slug, number)), desk)
            for item in range(EVIDENCE):
                key = number * EVIDENCE + item
                if item % 2:
                    record_source(connection, slug, read_document(EvidenceIn, payloads.source(key)), desk)
                else:
                    document = read_document(ResultIn, payloads.result(slug, key, metrics=4))
                    record_result(connection, document, desk)


def _copy_all(connection: Connection, count: int) -> None:
    _copy_cases(connection, count - MOULD)
    most = {table.name: _greatest(connection, table) for table in HANGING}
    for table in HANGING:
        _copy(connection, table, most, count // MOULD - 1)
    if connection.dialect.name == "postgresql":
        for name in ("cases", *most):
            sequence = f"pg_get_serial_sequence('{name}', 'id')"
            connection.execute(text(f"SELECT setval({sequence}, (SELECT max(id) FROM {name}))"))


def _greatest(connection: Connection, table: Table) -> int:
    return int(connection.execute(text(f"SELECT max(id) FROM {table.name}")).scalar_one())


def _copy(connection: Connection, table: Table, most: dict[str, int], copies: int) -> None:
    """Copy the mould's rows, with the ids of rows, cases and events moved on by whole moulds."""
    moved = {"id": most[table.name], "case_id": MOULD, "event_id": most["events"]}
    names = [column.name for column in table.columns]
    taken = [f"t.{name} + n.k * {moved[name]}" if name in moved else f"t.{name}" for name in names]
    connection.execute(
        text(
            f"WITH RECURSIVE n (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < {copies}) "
            f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {', '.join(taken)} "
            f"FROM n CROSS JOIN {table.name} t WHERE t.id <= {most[table.name]} ORDER BY n.k, t.id"
        )
        if connection.dialect.name == "postgresql"
        else text(
            f"INSERT INTO {table.name} ({', '.join(names)}) "
            f"WITH RECURSIVE n (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < {copies}) "
            f"SELECT {', '.join(taken)} FROM n CROSS JOIN {table.name} t "
            f"WHERE t.id <= {most[table.name]} ORDER BY n.k, t.id"
        )
    )


def _copy_cases(connection: Connection, count: int) -> None:
    moulds = [dict(row) for row in connection.execute(select(cases).order_by(cases.c.id)).mappings()]
    for first in range(0, count, 1000):
        rows = list(_case_rows(moulds, first, min(first + 1000, count), count))
        connection.execute(insert(cases), rows)
        connection.execute(
            insert(labels),
            [{"kind": "tag", "value": tag, "case_id": row["id"]} for row in rows for tag in row["tags"]],
        )
        for row in rows:
            document = [row["slug"], row["title"], row["claim"]["sentence"], row["what"], *row["tags"]]
            index_case(connection, row["id"], "\n".join(document))


def _case_rows(moulds: list[dict[str, Any]], first: int, end: int, count: int) -> Iterator[dict[str, Any]]:
    for number in range(first, end):
        chance = random.Random(number)
        few = number < FEW
        words = [*chance.sample(WORDS, 6), EVERY_WORD, *([FEW_WORD] if few else [])]
        half = [HALF_TAG] if number % 2 else []
        yield moulds[number % MOULD] | {
            "id": number + MOULD + 1,
            "slug": slug_of(number),
            "title": f"Case {number}: {' '.join(words)}",
            "tags": [f"topic-{number % 97}", *half, *([FEW_TAG] if few else [])],
            "entities": [],
            "state": chance.choice(STATES),
            "verdict": "refuted" if few else "open",
            "price": chance.random(),
            "prices": [chance.random() for _ in range(EVIDENCE)],
            # Spread so that neighbours by number are far apart in time.
            "updated_at": START + timedelta(minutes=number * 7919 % count),
        }

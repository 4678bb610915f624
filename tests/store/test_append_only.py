"""History cannot be changed: the database itself refuses, and the hash chain shows what was done behind its
back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, func, insert, select, text
from sqlalchemy.exc import DBAPIError

from app.domain.errors import NotFound
from app.store.engine import reading, writing
from app.store.log import GENESIS, Damage, check_chain, link_hash, row_digest
from app.store.tables import APPEND_ONLY, LOGGED, cases, log, metadata
from tests.conftest import Api
from tests.services import documents


@pytest.fixture
def lived(api: Api) -> Api:
    """Two cases that have lived: evidence, a raw file, a withdrawal, and a pass."""
    assert api.post("/api/v1/cases", documents.case(title="Ünïcode 🧮 — 半精度")).status_code == 201
    assert api.post("/api/v1/cases/import", documents.imported()).status_code == 201
    assert api.post("/api/v1/results", documents.result(ratio=1.3)).status_code == 201
    assert api.post("/api/v1/results", documents.result(ratio=1.31, base=2000.0)).status_code == 201
    assert api.post("/api/v1/results", documents.qualifying()).status_code == 201
    gone = api.post("/api/v1/cases/a-case/evidence/1/withdraw", {"reason": "the clock was wrong"})
    assert gone.status_code == 200
    with writing(api.house.engine) as connection:
        row = {
            "name": "horizon",
            "hour": api.house.clock.now(),
            "finished_at": api.house.clock.now(),
            "counts": {},
        }
        connection.execute(insert(metadata.tables["passes"]).values(row))
    return api


def damage(engine: Engine, slug: str | None = None) -> list[Damage]:
    with reading(engine) as connection:
        return list(check_chain(connection, slug))


def test_every_append_only_table_refuses_update_delete_and_truncate(lived: Api) -> None:
    engine = lived.house.engine
    before = documents.counts(engine)
    for name in APPEND_ONLY:
        assert before[name] > 0, f"{name} is empty: nothing would be refused"
        column = "name" if name in ("blobs", "passes") else "version" if name == "policies" else None
        column = column or ("part" if name == "log" else "case_id")
        tried = [f"UPDATE {name} SET {column} = {column}", f"DELETE FROM {name}"]
        tried += [f"TRUNCATE {name} CASCADE"] if engine.dialect.name == "postgresql" else []
        for statement in tried:
            with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
                connection.execute(text(statement))
    assert documents.counts(engine) == before
    assert damage(engine) == []


def test_a_whole_database_cannot_be_truncated_through_its_cases(postgres_lived: Api) -> None:
    with pytest.raises(DBAPIError, match="append-only"), postgres_lived.house.engine.begin() as connection:
        connection.execute(text("TRUNCATE cases CASCADE"))


@pytest.fixture
def postgres_lived(lived: Api) -> Api:
    if lived.house.engine.dialect.name != "postgresql":
        pytest.skip("SQLite has no TRUNCATE")
    return lived


def test_sqlite_refuses_to_replace_rows_whoever_connects(sqlite_api: Api) -> None:
    """INSERT OR REPLACE deletes a row without firing a DELETE trigger, and a shell has no pragmas of ours."""
    sqlite_api.post("/api/v1/cases", documents.case())
    document = documents.qualifying("a-case")
    assert sqlite_api.post("/api/v1/results", document).status_code == 201
    engine = sqlite_api.house.engine
    before = documents.counts(engine)
    stranger = sqlite3.connect(str(engine.url.database), isolation_level=None)
    for name in APPEND_ONLY:
        if before[name] == 0:
            continue
        columns = [row[1] for row in stranger.execute(f"PRAGMA table_info({name})")]
        old = dict(zip(columns, stranger.execute(f"SELECT * FROM {name} LIMIT 1").fetchone(), strict=True))
        for changed in _changed(name, old):
            marks = ", ".join("?" * len(columns))
            statement = f"INSERT OR REPLACE INTO {name} ({', '.join(columns)}) VALUES ({marks})"
            if name in ("policies", "blobs", "passes"):
                stranger.execute(statement, list(changed.values()))
            else:
                with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                    stranger.execute(statement, list(changed.values()))
            kept = stranger.execute(f"SELECT * FROM {name} LIMIT 1").fetchone()
            assert dict(zip(columns, kept, strict=True)) == old
    stranger.close()
    assert documents.counts(engine) == before
    assert damage(engine) == []


def _changed(name: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    """The row with other content under each of its keys in turn."""
    keys = {
        "log": [("case_id", "seq"), ("case_id", "prev"), ("part", "row_id")],
        "evidence": [("id",), ("case_id", "number"), ("case_id", "ref")],
        "policies": [("digest",)],
        "blobs": [("sha256",)],
        "passes": [("name", "hour")],
    }.get(name, [("id",)])
    fresh = {
        "id": 9999,
        "number": 9999,
        "ref": "f" * 64,
        "seq": 9999,
        "prev": "e" * 64,
        "row_id": 9999,
        "hash": "d" * 64,
    }
    made = []
    for key in keys:
        other = {column: fresh.get(column, value) for column, value in row.items()}
        made.append(
            other | {column: row[column] for column in key} | ({"version": "x"} if name == "policies" else {})
        )
    return made


# Attacks on the rows, with the triggers out of the way


def without_triggers(connection: Connection) -> None:
    """What somebody with full rights to the database can do first."""
    if connection.dialect.name == "sqlite":
        names = (
            connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars().all()
        )
        for name in names:
            connection.execute(text(f"DROP TRIGGER {name}"))
    else:
        for name in APPEND_ONLY:
            connection.execute(text(f"ALTER TABLE {name} DISABLE TRIGGER USER"))


def first_id(connection: Connection, table: str, slug: str = "a-case") -> int:
    where = f"FROM {table} t JOIN cases c ON c.id = t.case_id WHERE c.slug = '{slug}'"
    return int(connection.execute(text(f"SELECT min(t.id) {where}")).scalar_one())


def change(table: str, column: str, value: str) -> Callable[[Connection], None]:
    def attack(connection: Connection) -> None:
        statement = text(f"UPDATE {table} SET {column} = :value WHERE id = :id")
        done = connection.execute(statement, {"value": value, "id": first_id(connection, table)})
        assert done.rowcount == 1

    return attack


def raise_value(table: str, column: str) -> Callable[[Connection], None]:
    def attack(connection: Connection) -> None:
        connection.execute(text(f"UPDATE {table} SET {column} = {column} + 0.000001"))

    return attack


def edit_evidence(connection: Connection) -> None:
    row = first_id(connection, "evidence")
    body = connection.execute(text("SELECT body FROM evidence WHERE id = :id"), {"id": row}).scalar_one()
    assert "1300.0" in body
    changed = {"id": row, "body": body.replace("1300.0", "1300.1")}
    connection.execute(text("UPDATE evidence SET body = :body WHERE id = :id"), changed)


def delete_row(connection: Connection) -> None:
    connection.execute(text("DELETE FROM readings WHERE id = :id"), {"id": first_id(connection, "readings")})


def delete_row_and_link(connection: Connection) -> None:
    row = first_id(connection, "interpretations")
    connection.execute(text("DELETE FROM log WHERE part = 'interpretations' AND row_id = :id"), {"id": row})
    connection.execute(text("DELETE FROM interpretations WHERE id = :id"), {"id": row})


def insert_row(connection: Connection) -> None:
    old = connection.execute(text("SELECT case_id, event_id, at, imported FROM interpretations")).first()
    assert old is not None
    statement = "INSERT INTO interpretations (case_id, event_id, at, text, imported) VALUES (:c, :e, :a, 'planted', :i)"
    connection.execute(text(statement), {"c": old[0], "e": old[1], "a": old[2], "i": old[3]})


def insert_row_with_link(connection: Connection) -> None:
    """Planted at the end with a link that fits: the case's own record of the end gives it away."""
    insert_row(connection)
    row_id = connection.execute(text("SELECT max(id) FROM interpretations")).scalar_one()
    row = (
        connection.execute(select(LOGGED["interpretations"]).where(LOGGED["interpretations"].c.id == row_id))
        .mappings()
        .one()
    )
    last = connection.execute(
        select(log).where(log.c.case_id == row["case_id"]).order_by(log.c.seq.desc()).limit(1)
    ).one()
    digest = row_digest(dict(row))
    made = link_hash(last.hash, last.seq + 1, "interpretations", row_id, digest)
    link = {"case_id": row["case_id"], "seq": last.seq + 1, "part": "interpretations", "row_id": row_id}
    connection.execute(insert(log).values(**link, digest=digest, prev=last.hash, hash=made))


def reorder(connection: Connection) -> None:
    """Two links change places."""
    case_id = connection.execute(text("SELECT id FROM cases WHERE slug = 'a-case'")).scalar_one()
    for old, new in ((3, 1003), (2, 3), (1003, 2)):
        statement = "UPDATE log SET seq = :new WHERE case_id = :case AND seq = :old"
        connection.execute(text(statement), {"new": new, "old": old, "case": case_id})


def swap_rows(connection: Connection) -> None:
    """Two decisions change their text, each still there."""
    rows = connection.execute(text("SELECT id, reason FROM decisions ORDER BY id LIMIT 2")).all()
    for row, other in ((rows[0], rows[1]), (rows[1], rows[0])):
        connection.execute(
            text("UPDATE decisions SET reason = :r WHERE id = :i"), {"r": other[1], "i": row[0]}
        )


def cut_links(connection: Connection) -> None:
    """The newest link goes; its row stays."""
    connection.execute(
        text("DELETE FROM log WHERE seq = (SELECT max(seq) FROM log l WHERE l.case_id = log.case_id)")
    )


def cut_tail(connection: Connection) -> None:
    """The newest link goes together with its row."""
    case_id = connection.execute(text("SELECT id FROM cases WHERE slug = 'a-case'")).scalar_one()
    last = connection.execute(select(log).where(log.c.case_id == case_id).order_by(log.c.seq.desc())).first()
    assert last is not None
    connection.execute(log.delete().where(log.c.case_id == case_id, log.c.seq == last.seq))
    table = LOGGED[last.part]
    connection.execute(table.delete().where(table.c.id == last.row_id))


def empty_log(connection: Connection) -> None:
    connection.execute(text("DELETE FROM log"))


def rehash_one_link(connection: Connection) -> None:
    """A row and its own link are made to agree; the next link does not."""
    edit_evidence(connection)
    row_id = first_id(connection, "evidence")
    table = LOGGED["evidence"]
    row = connection.execute(select(table).where(table.c.id == row_id)).mappings().one()
    link = connection.execute(select(log).where(log.c.part == "evidence", log.c.row_id == row_id)).one()
    digest = row_digest(dict(row))
    made = link_hash(link.prev, link.seq, link.part, link.row_id, digest)
    where = (log.c.case_id == link.case_id, log.c.seq == link.seq)
    connection.execute(log.update().where(*where).values(digest=digest, hash=made))


def other_case(connection: Connection) -> None:
    """An entry is moved to another case."""
    ids = connection.execute(select(cases.c.id).order_by(cases.c.id)).scalars().all()
    alert = first_id(connection, "alerts")
    connection.execute(
        text("UPDATE alerts SET case_id = :case WHERE id = :id"), {"case": ids[1], "id": alert}
    )


def forget_the_end(connection: Connection) -> None:
    connection.execute(cases.update().where(cases.c.slug == "a-case").values(log_head=GENESIS, log_length=0))


ATTACKS: dict[str, Callable[[Connection], None]] = {
    "a decision's reason": change("decisions", "reason", "It was always so."),
    "a decision's facts": change("decisions", "facts", '{"price":{"before":0.1,"after":0.9}}'),
    "a decision's time": change("decisions", "at", "2026-08-09T00:00:00.000000Z"),
    "who handed it in": change("evidence", "actor", "somebody else"),
    "a figure in evidence": edit_evidence,
    "an interpretation": change("interpretations", "text", "All is well."),
    "a judgement": change("assessments", "body", "{}"),
    "a price by a millionth": raise_value("readings", "value"),
    "an alert's route": change("alerts", "route", "interrupt"),
    "an event's body": change("events", "body", '{"number":7,"again":[]}'),
    "text that is no JSON": change("events", "body", "{broken"),
    "JSON with NaN": change("decisions", "facts", '{"price":NaN}'),
    "a row deleted": delete_row,
    "a row deleted with its link": delete_row_and_link,
    "a row inserted": insert_row,
    "a row inserted with a link that fits": insert_row_with_link,
    "links reordered": reorder,
    "rows swapped": swap_rows,
    "the last link cut off": cut_links,
    "the last entry cut off": cut_tail,
    "the whole log deleted": empty_log,
    "a row and its link made to agree": rehash_one_link,
    "an entry moved to another case": other_case,
    "the case's own record of the end": forget_the_end,
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_the_chain_shows_a_planted_edit(lived: Api, attack: Callable[[Connection], None]) -> None:
    engine = lived.house.engine
    assert damage(engine) == []
    with writing(engine) as connection:
        without_triggers(connection)
        attack(connection)
    found = damage(engine)
    assert found, "the edit went unseen"
    assert all(item.what and item.slug for item in found)


def test_a_value_that_cannot_be_read_is_damage_and_no_crash(sqlite_api: Api) -> None:
    sqlite_api.post("/api/v1/cases", documents.case())
    with writing(sqlite_api.house.engine) as connection:
        without_triggers(connection)
        connection.execute(text("UPDATE decisions SET at = 'yesterday' WHERE id = 1"))
        connection.execute(text("PRAGMA ignore_check_constraints = ON"))
        connection.execute(text("UPDATE readings SET value = 9e999"))
    found = {(item.part, item.what) for item in damage(sqlite_api.house.engine)}
    changed = "the row was changed after it was written"
    assert found == {("decisions", changed), ("readings", changed)}


def test_a_case_removed_under_its_log_is_seen(sqlite_api: Api) -> None:
    sqlite_api.post("/api/v1/cases", documents.case())
    sqlite_api.post("/api/v1/cases", documents.case("another-case"))
    stranger = sqlite3.connect(str(sqlite_api.house.engine.url.database), isolation_level=None)
    stranger.execute("DELETE FROM cases WHERE slug = 'a-case'")
    stranger.close()
    assert [item.what for item in damage(sqlite_api.house.engine)] == ["the case is gone"]


def test_one_case_is_checked_alone_and_an_unknown_one_is_said_to_be_unknown(sqlite_api: Api) -> None:
    sqlite_api.post("/api/v1/cases", documents.case())
    sqlite_api.post("/api/v1/cases", documents.case("another-case"))
    with writing(sqlite_api.house.engine) as connection:
        without_triggers(connection)
        change("decisions", "reason", "x")(connection)
    assert damage(sqlite_api.house.engine, "another-case") == []
    assert len(damage(sqlite_api.house.engine, "a-case")) == 1
    with pytest.raises(NotFound):
        damage(sqlite_api.house.engine, "no-such-case")


def test_every_entry_has_exactly_one_link(lived: Api) -> None:
    with reading(lived.house.engine) as connection:
        links = connection.execute(select(func.count()).select_from(log)).scalar_one()
        rows = sum(
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in LOGGED.values()
        )
        kept = connection.execute(select(func.sum(cases.c.log_length))).scalar_one()
    assert links == rows == kept


def test_a_fork_of_the_chain_is_refused_by_the_database(lived: Api, tmp_path: Path) -> None:
    with reading(lived.house.engine) as connection:
        link = dict(
            connection.execute(select(log).order_by(log.c.case_id, log.c.seq)).mappings().first() or {}
        )
    fork = link | {"seq": 5000, "row_id": 5000, "hash": "a" * 64}
    with pytest.raises(DBAPIError), writing(lived.house.engine) as connection:
        connection.execute(insert(log).values(fork))

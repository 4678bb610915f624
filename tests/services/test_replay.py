"""Replay computes every decision again, and finds what somebody changed who could rewrite the chain as well."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, select, text, update

from app.domain.errors import NotFound
from app.services.judge import input_hash
from app.services.passes import horizon_pass
from app.services.replay import Difference, agree, replay
from app.store.engine import reading, writing
from app.store.log import GENESIS, check_chain, link_hash, row_digest
from app.store.tables import LOGGED, cases, decisions, events, evidence, log
from tests.conftest import Api, MovingClock
from tests.services import documents
from tests.store.test_append_only import without_triggers

SLUG = "a-case"


@pytest.fixture
def lived(api: Api, clock: MovingClock) -> Api:
    """A case with a source, two results, an audit, a withdrawal and an expiry."""
    assert api.post("/api/v1/cases", documents.case(evidence=[documents.source()])).status_code == 201
    assert api.post("/api/v1/results", documents.result(ratio=1.3)).status_code == 201
    assert api.post("/api/v1/results", documents.result(ratio=1.31, base=2000.0)).status_code == 201
    audit = {"kind": "audit", "title": "Read the harness", "audits": 2}
    finding = {"criterion": "measured_soundly", "status": "met", "reason": "clocks were pinned"}
    assert api.post(f"/api/v1/cases/{SLUG}/evidence", audit | {"findings": [finding]}).status_code == 201
    assert api.post(f"/api/v1/cases/{SLUG}/evidence/3/withdraw", {"reason": "wrong file"}).status_code == 200
    for _ in range(51):
        horizon_pass(api.house.engine, clock.forward(hours=1), api.house.desk("schedule"))
    assert api.get(f"/api/v1/cases/{SLUG}").json()["state"] == "expired"
    return api


def first(api: Api, slug: str | None = None) -> Difference | None:
    with reading(api.house.engine) as connection:
        return next((found for _, found in replay(connection, slug) if found is not None), None)


def make_chain_fit(connection: Connection) -> None:
    """What a clever attacker does last: every digest, link and end of the chain computed anew."""
    for case in connection.execute(select(cases.c.id)).scalars().all():
        prev = GENESIS
        links = connection.execute(select(log).where(log.c.case_id == case).order_by(log.c.seq)).all()
        connection.execute(log.delete().where(log.c.case_id == case))
        for seq, link in enumerate(links, start=1):
            table = LOGGED[link.part]
            row = connection.execute(select(table).where(table.c.id == link.row_id)).mappings().one()
            digest = row_digest(dict(row))
            made = link_hash(prev, seq, link.part, link.row_id, digest)
            values = {"seq": seq, "part": link.part, "row_id": link.row_id, "digest": digest}
            connection.execute(log.insert().values(case_id=case, prev=prev, hash=made, **values))
            prev = made
        connection.execute(
            update(cases).where(cases.c.id == case).values(log_head=prev, log_length=len(links))
        )


def edit(table: Any, column: str, old: str, new: str) -> Callable[[Connection], None]:
    """Replace a piece of text in the last row that has it."""

    def attack(connection: Connection) -> None:
        query = text(f"SELECT id, {column} FROM {table.name} WHERE {column} LIKE :old ORDER BY id DESC")
        row = connection.execute(query, {"old": f"%{old}%"}).first()
        assert row is not None, f"nothing to change in {table.name}"
        statement = text(f"UPDATE {table.name} SET {column} = :new WHERE id = :id")
        connection.execute(statement, {"new": row[1].replace(old, new), "id": row[0]})

    return attack


def input_hashes_fit(connection: Connection) -> None:
    """The input hashes too: then only the judgement itself gives the change away."""
    make_chain_fit(connection)
    links = connection.execute(select(log).order_by(log.c.case_id, log.c.seq)).all()
    heads: dict[int, tuple[str, str]] = {}
    current = 0
    for link in links:
        if link.part == "events":
            current = link.row_id
            heads[current] = (link.prev, link.hash)
        elif link.part == "evidence" and current:
            heads[current] = (heads[current][0], link.hash)
        else:
            current = 0
    for row in connection.execute(select(decisions).where(decisions.c.event_id.is_not(None))).all():
        fitting = input_hash(*heads[row.event_id], row.policy_digest)
        connection.execute(update(decisions).where(decisions.c.id == row.id).values(input_hash=fitting))


def figure(connection: Connection) -> None:
    """A measured figure and everything computed from it within the evidence."""
    row = connection.execute(select(evidence.c.id, evidence.c.body).where(evidence.c.number == 2)).one()
    body = json.loads(json.dumps(row.body).replace("1300.0", "1500.0"))
    for contrast in body["contrasts"]:
        contrast |= {"ratio": 1.5, "log_ratio": 0.4054651081081644}
    connection.execute(update(evidence).where(evidence.c.id == row.id).values(body=body))


FACTS: dict[str, Callable[[Connection], None]] = {
    "a measured figure": figure,
    "whether the hours were slept through": edit(events, "body", '"deaf_s":0.0', '"deaf_s":36000.0'),
    "a decision's reason": edit(decisions, "reason", "changes nothing", "changes all"),
    "a decision's facts": edit(decisions, "facts", '"before":', '"befor":'),
    "a decision's verb": edit(decisions, "verb", "expire", "observe"),
    "an alert's words": edit(LOGGED["alerts"], "reason", "the", "no"),
    "an interpretation": edit(LOGGED["interpretations"], "text", "No independent", "An independent"),
    "the reason of a withdrawal": edit(events, "body", "wrong file", "right file"),
    "a judgement": edit(LOGGED["assessments"], "body", '"qualifying":false', '"qualifying":true'),
    "an audit's finding": edit(evidence, "body", '"status":"met"', '"status":"unmet"'),
    "facts that cannot be read": edit(decisions, "facts", '"ears":{', '"ears":7,"x":{'),
    "evidence that cannot be read": edit(evidence, "body", '"root"', '"loot"'),
}


@pytest.mark.parametrize("attack", FACTS.values(), ids=FACTS.keys())
def test_replay_finds_a_changed_fact_behind_a_chain_that_fits(
    lived: Api, attack: Callable[[Connection], None]
) -> None:
    assert first(lived) is None
    with writing(lived.house.engine) as connection:
        without_triggers(connection)
        attack(connection)
        make_chain_fit(connection)
    with reading(lived.house.engine) as connection:
        assert list(check_chain(connection)) == [], "the chain was meant to fit"
    found = first(lived)
    assert found is not None, "the change went unseen"
    assert found.slug == SLUG
    assert found.what


def test_replay_finds_a_changed_figure_though_every_hash_fits(lived: Api) -> None:
    with writing(lived.house.engine) as connection:
        without_triggers(connection)
        figure(connection)
        input_hashes_fit(connection)
        make_chain_fit(connection)
    found = first(lived)
    assert found is not None
    assert found.what != "input hash"


def test_an_input_hash_gives_away_a_quotation_that_no_judgement_rests_on(lived: Api) -> None:
    with writing(lived.house.engine) as connection:
        without_triggers(connection)
        edit(evidence, "body", '"title":"Read the harness"', '"title":"Read another one"')(connection)
        make_chain_fit(connection)
    found = first(lived)
    assert found is not None


STANDING = {
    "state": "'active'",
    "verdict": "'supported'",
    "uncertainty": "'low'",
    "price": "0.123",
    "prices": "'[0.5]'",
    "evidence_count": "9",
    "qualifying_count": "1",
    "opened_at": "'2026-08-01T00:00:00.000000Z'",
    "last_material_at": "'2026-08-01T00:00:00.000000Z'",
    "due_at": "'2030-01-01T00:00:00.000000Z'",
    "slug": "'another-slug'",
    "material_price": "0.9",
}


@pytest.mark.parametrize("column", STANDING)
def test_replay_finds_a_change_of_where_a_case_stands(lived: Api, column: str) -> None:
    with writing(lived.house.engine) as connection:
        connection.execute(text(f"UPDATE cases SET {column} = {STANDING[column]}"))
    found = first(lived)
    assert found is not None
    # Every alert's key begins with the slug, so that is where it is seen first.
    assert found.what == ("alerts" if column == "slug" else f"{column} of the case")


@pytest.mark.parametrize("column", ["claim", "grounding"])
def test_replay_finds_a_change_of_the_claim(lived: Api, column: str) -> None:
    with writing(lived.house.engine) as connection:
        claim = connection.execute(select(cases.c.claim)).scalar_one() | {"delta": 0.2}
        grounding = {"stance": "converges", "strength": "high", "summary": "", "concepts": [], "queries": []}
        connection.execute(update(cases).values({column: claim if column == "claim" else grounding}))
    found = first(lived)
    assert found is not None
    assert found.what == f"{column} of the case"


@pytest.mark.parametrize("statement", ["DELETE FROM evidence WHERE number = 2", "DELETE FROM policies"])
def test_replay_says_so_when_something_it_needs_is_gone(lived: Api, statement: str) -> None:
    with writing(lived.house.engine) as connection:
        without_triggers(connection)
        connection.execute(text(statement))
    assert first(lived) is not None


def test_an_untouched_database_replays_clean(lived: Api) -> None:
    with reading(lived.house.engine) as connection:
        assert list(replay(connection)) == [(SLUG, None)]
        assert list(check_chain(connection)) == []
    with pytest.raises(NotFound):
        first(lived, "no-such-case")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1.0, 1.0 + 1e-9, True),
        (1.0, 1.001, False),
        ({"a": [1.0]}, {"a": [1.0 + 1e-12]}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ([1.0], [1.0, 2.0], False),
        ("x", "x", True),
        (None, 0.0, False),
        (0.5, True, False),
    ],
)
def test_last_digits_of_a_float_do_not_count(one: Any, other: Any, same: bool) -> None:
    assert agree(one, other) is same

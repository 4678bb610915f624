"""A reading transaction sees one moment, and lists walk without repeats or gaps."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import Any

import pytest
from sqlalchemy import Engine, select, text, update
from sqlalchemy.exc import DBAPIError

from app.domain.errors import Busy, Refused
from app.store.engine import make_engine, reading, writing
from app.store.log import check_chain
from app.store.narrow import CaseFilter
from app.store.reads import alert_list, case_list, read_cursor
from app.store.tables import cases
from tests.conftest import Api
from tests.services import documents


def test_a_reading_transaction_sees_one_moment(api: Api) -> None:
    api.post("/api/v1/cases", documents.case())
    with reading(api.house.engine) as connection:
        before = connection.execute(select(cases.c.log_length)).scalar_one()
        assert api.post("/api/v1/results", documents.result()).status_code == 201
        assert connection.execute(select(cases.c.log_length)).scalar_one() == before
        assert list(check_chain(connection)) == []
    with reading(api.house.engine) as connection:
        assert connection.execute(select(cases.c.log_length)).scalar_one() > before


def test_the_chain_can_be_checked_while_others_write(api: Api) -> None:
    """No false alarm: the case's record of the end, the rows and the links are of one moment."""
    api.post("/api/v1/cases", documents.case())
    stop = Event()

    def write() -> None:
        for number in range(40):
            if stop.is_set():
                break
            api.post("/api/v1/results", documents.result(base=1000.0 + number))

    writer = Thread(target=write)
    writer.start()
    try:
        for _ in range(15):
            with reading(api.house.engine) as connection:
                assert list(check_chain(connection)) == []
    finally:
        stop.set()
        writer.join()


def test_a_reading_transaction_cannot_write_on_postgresql(engine: Engine) -> None:
    if engine.dialect.name != "postgresql":
        pytest.skip("SQLite's is begun without the write lock instead")
    with pytest.raises(DBAPIError, match="read-only"), reading(engine) as connection:
        connection.execute(text("DELETE FROM idempotency"))


@pytest.mark.parametrize("url", ["nonsense", "mysql://x/y", "", "file.db"])
def test_a_database_that_cannot_be_used_is_refused_by_name(url: str) -> None:
    with pytest.raises(Refused, match="no database"):
        make_engine(url)


def test_a_database_that_does_not_answer_is_busy() -> None:
    engine = make_engine("postgresql://nobody@127.0.0.1:9/none")
    with pytest.raises(Busy), reading(engine):
        pass


@pytest.fixture
def many(api: Api) -> Api:
    """Forty-one cases, with ties on every sort: equal times, prices and titles."""
    api.post("/api/v1/cases", documents.case())
    with writing(api.house.engine) as connection:
        row = dict(connection.execute(select(cases)).mappings().one())
        del row["id"]
        rows = [
            row | {"slug": f"case-{index:02}", "title": f"Title {index % 3}", "price": (index % 4) / 4}
            for index in range(40)
        ]
        connection.execute(cases.insert(), rows)
    return api


def walk(engine: Engine, sort: str, limit: int, wanted: CaseFilter) -> Iterator[str]:
    cursor: str | None = None
    while True:
        with reading(engine) as connection:
            page = case_list(connection, wanted, sort, cursor, limit)
        assert len(page.items) <= limit
        yield from (item.slug for item in page.items)
        if page.next_cursor is None:
            return
        assert page.items, "an empty page that has a next one"
        cursor = page.next_cursor


@pytest.mark.parametrize("sort", ["updated", "price", "title"])
def test_pages_neither_repeat_nor_skip_under_ties(many: Api, sort: str) -> None:
    whole = list(walk(many.house.engine, sort, 500, CaseFilter()))
    assert len(whole) == len(set(whole)) == 41
    for limit in (1, 3, 7, 40, 41):
        assert list(walk(many.house.engine, sort, limit, CaseFilter())) == whole


def test_filtered_pages_neither_repeat_nor_skip(many: Api) -> None:
    wanted = CaseFilter(min_price=0.5, state="active", q="quantizing weights")
    assert list(walk(many.house.engine, "price", 3, CaseFilter(min_price=0.5, state="active"))) != []
    for sort in ("updated", "price", "title"):
        assert list(walk(many.house.engine, sort, 2, wanted)) == list(
            walk(many.house.engine, sort, 99, wanted)
        )


def test_a_case_added_while_walking_shifts_nothing(many: Api) -> None:
    engine = many.house.engine
    steps = walk(engine, "title", 5, CaseFilter())
    first = [next(steps) for _ in range(5)]
    many.post("/api/v1/cases", documents.case("case-new", title="A title before all others"))
    with writing(engine) as connection:
        connection.execute(update(cases).where(cases.c.slug == first[0]).values(title="Title 9"))
    rest = list(steps)
    assert len(set(first) & set(rest)) <= 1, "only the one whose own title moved may come again"
    assert {f"case-{index:02}" for index in range(40)} <= set(first) | set(rest)


BAD: list[Any] = [
    [10**400, 1],
    ["0001-01-01T00:00:00+23:59", 1],
    ["9999-12-31T23:59:59-23:59", 1],
    ["\ud800", 1],
    ["a\x00b", 1],
    ["a", 2**53 + 1],
    ["a", -(2**63)],
    [True, 1],
    ["2026-08-10T00:00:00", 1],
    [None, None],
    [],
    [[[]], {}],
    {"a": 1, "b": 2},
    "ab",
    5,
    None,
]
RAW = ["NaN", "[NaN,1]", "[1e999,1]", "[-Infinity,2]", "[1", "\xff", "", "[" * 2000, "[" * 500 + "]" * 500]


def encoded(text_: str) -> str:
    return base64.urlsafe_b64encode(text_.encode()).decode().rstrip("=")


def test_a_cursor_that_was_not_given_out_is_refused(many: Api, subtests: pytest.Subtests) -> None:
    for sort in ("updated", "price", "title"):
        for raw in (*map(json.dumps, BAD), *RAW):
            with subtests.test(raw[:40], sort=sort), reading(many.house.engine) as connection:
                if (sort, raw) in TAKEN:
                    case_list(connection, CaseFilter(), sort, encoded(raw), 5)
                else:
                    with pytest.raises(Refused, match="not a cursor"):
                        case_list(connection, CaseFilter(), sort, encoded(raw), 5)


TAKEN = (
    {(sort, "") for sort in ("updated", "price", "title")}
    | {("title", json.dumps(["2026-08-10T00:00:00", 1]))}
    | {
        ("title", json.dumps(["9999-12-31T23:59:59-23:59", 1])),
        ("title", json.dumps(["0001-01-01T00:00:00+23:59", 1])),
    }
)
"""An empty cursor is the first page, and a title may read like a time."""


def test_cursors_of_the_histories(api: Api) -> None:
    for cursor in (
        "a",
        "!!!",
        encoded("[1.5]"),
        encoded('["1"]'),
        encoded("[true]"),
        encoded("[9007199254740993]"),
    ):
        with pytest.raises(Refused):
            read_cursor(cursor, (int,))
    api.post("/api/v1/cases", documents.case())
    for name in ("evidence", "interpretations", "decisions", "prices", "alerts"):
        for number in (2**31 - 1, 2**31, 2**53, -(2**53), -1, 0):
            answer = api.get(f"/api/v1/cases/a-case/{name}", params={"cursor": encoded(f"[{number}]")})
            assert answer.status_code == 200, f"{name} {number}: {answer.text}"
    assert read_cursor(encoded("[7]"), (int,)) == [7]
    assert read_cursor(encoded("[7]"), (float,)) == [7.0]


def test_alerts_are_filtered_by_their_own_time(api: Api) -> None:
    api.post("/api/v1/cases", documents.case())
    with reading(api.house.engine) as connection:
        for moment, wanted in (
            (datetime(1990, 1, 1, tzinfo=UTC), 1),
            (api.house.clock.now() + timedelta(1), 0),
        ):
            found = alert_list(connection, route=None, since=moment, cursor=None, limit=5)
            assert len(found.items) == wanted

"""What is stored comes back as it was, on both databases; what cannot be stored is refused."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, select
from sqlalchemy.exc import DBAPIError, StatementError

from app.store.codec import canonical, digest
from app.store.engine import reading, writing
from app.store.tables import idempotency, policies, readings
from tests.conftest import Api
from tests.services import documents

AT = datetime(2026, 8, 10, tzinfo=UTC)

VALUES = [
    "Ünïcode 🧮 半精度 \u202e\u2028 'quotes' \"more\" \\ %s :name {} \t\n",
    [0.1, 1e308, 5e-324, -1.7976931348623157e308, 2**53, -(2**53), 0, -0.0, 1e16, 123456789.123456789],
    {"nested": {"": None, "true": True, "list": [[], {}]}},
    "x" * 100_000,
]


@pytest.mark.parametrize("value", VALUES, ids=["unicode", "numbers", "nested", "long"])
def test_json_comes_back_as_it_was(engine: Engine, value: object) -> None:
    row = {"digest": "d" * 64, "version": "1", "body": value, "recorded_at": AT}
    with writing(engine) as connection:
        connection.execute(policies.insert().values(row))
    with reading(engine) as connection:
        kept = connection.execute(select(policies.c.body)).scalar_one()
    assert kept == value
    assert repr(kept) == repr(value)
    assert digest(kept) == digest(value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("aé\U0001f9ee", max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_comes_back_as_it_was(engine: Engine, value: object) -> None:
    with engine.connect() as connection:
        connection.execute(
            idempotency.insert().values(
                actor="a",
                key="k",
                request_digest="d" * 64,
                status=200,
                answer={"value": value},
                recorded_at=AT,
            )
        )
        kept = connection.execute(select(idempotency.c.answer)).scalar_one()
        connection.rollback()
    assert canonical(kept["value"]) == canonical(value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_value_that_is_not_finite_gets_in(engine: Engine, bad: float) -> None:
    row = {"digest": "d" * 64, "version": "1", "body": {"deep": [bad]}, "recorded_at": AT}
    with pytest.raises(StatementError, match="JSON compliant"), writing(engine) as connection:
        connection.execute(policies.insert().values(row))
    with reading(engine) as connection:
        assert connection.execute(select(policies)).all() == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_reading_that_is_not_finite_gets_in(api: Api, bad: float) -> None:
    api.post("/api/v1/cases", documents.case())
    row = {"case_id": 1, "event_id": 1, "kind": "heat", "at": AT, "value": bad, "body": {}}
    with pytest.raises((DBAPIError, StatementError)), writing(api.house.engine) as connection:
        connection.execute(readings.insert().values(row))


def test_a_time_without_a_zone_is_refused(engine: Engine) -> None:
    row = {"digest": "d" * 64, "version": "1", "body": {}, "recorded_at": datetime(2026, 1, 1)}  # noqa: DTZ001 naive is meant
    with pytest.raises(StatementError, match="without a zone"), writing(engine) as connection:
        connection.execute(policies.insert().values(row))


MOMENTS = [
    datetime(2026, 3, 29, 1, 59, 59, 999999, tzinfo=UTC),
    datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=2))),
    datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=1))),
    datetime(1990, 1, 1, tzinfo=timezone(timedelta(hours=-12))),
    datetime(2200, 12, 31, 23, 59, 59, 1, tzinfo=timezone(timedelta(hours=14))),
    datetime(2026, 8, 10, 5, 28, 12, tzinfo=timezone(timedelta(hours=10))),
]


def test_times_come_back_in_utc_and_sort_by_moment(engine: Engine) -> None:
    with writing(engine) as connection:
        for index, moment in enumerate(MOMENTS):
            row = {"digest": f"{index:064}", "version": "1", "body": {}, "recorded_at": moment}
            connection.execute(policies.insert().values(row))
    with reading(engine) as connection:
        query = select(policies.c.recorded_at).order_by(policies.c.recorded_at)
        kept = list(connection.execute(query).scalars())
        after = select(policies.c.digest).where(policies.c.recorded_at > MOMENTS[2])
        later = set(connection.execute(after).scalars())
    assert kept == sorted(MOMENTS)
    assert all(moment.tzinfo is UTC or moment.utcoffset() == timedelta(0) for moment in kept)
    assert later == {f"{index:064}" for index, moment in enumerate(MOMENTS) if moment > MOMENTS[2]}


def test_unicode_and_large_figures_survive_the_whole_walk(api: Api) -> None:
    title = "Ünïcode 🧮 — 半精度 rtl"
    words = "Zeile 1\nZeile 2 \u2028 '; DROP TABLE cases; -- \\u0000 %00"
    assert (
        api.post(
            "/api/v1/cases", documents.case(title=title, summary=words, tags=["größe", "半"])
        ).status_code
        == 201
    )
    document = documents.result(ratio=1.0000000000000002, base=9.999999e14)
    document["note"] = words
    assert api.post("/api/v1/results", document).status_code == 201, document
    case = api.get("/api/v1/cases/a-case").json()
    item = api.get("/api/v1/cases/a-case/evidence").json()["items"][0]["evidence"]
    assert (case["title"], case["summary"], case["tags"]) == (title, words, ["größe", "半"])
    assert item["summary"] == words
    assert item["arms"][0]["metrics"][0]["values"] == [9.999999e14]
    assert [found["slug"] for found in api.get("/api/v1/cases", params={"tag": "größe"}).json()["items"]] == [
        "a-case"
    ]
    assert [found["slug"] for found in api.get("/api/v1/cases", params={"q": "ÜNÏCODE"}).json()["items"]] == [
        "a-case"
    ]

"""State over time: a case goes active, repriced, expired, revived; each step interpreted, traced and routed
once."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from app.formats.case_file import CaseFile
from app.formats.strict_json import strict_json
from app.formats.wire import read_document
from app.seed import seed_files
from app.services.judge import Desk
from app.services.opening import open_case
from app.services.passes import PassReport, deaf_time, horizon_pass, hour_of
from app.services.replay import replay
from app.store.engine import reading, writing
from app.store.log import check_chain
from app.store.tables import passes
from tests.conftest import START, Api, MovingClock
from tests.services import documents

SLUG = "a-case"


def make_passes(api: Api, clock: MovingClock, until: datetime) -> list[PassReport]:
    """The hourly passes up to a moment, as a server that never slept would make them."""
    done = []
    while hour_of(clock.now()) < hour_of(until):
        clock.moment = hour_of(clock.now()) + timedelta(hours=1)
        done.append(horizon_pass(api.house.engine, clock.now(), api.house.desk("schedule")))
    clock.moment = until
    return done


class Told:
    """What a case's histories say, oldest first."""

    def __init__(self, api: Api, slug: str = SLUG) -> None:
        self.case = api.get(f"/api/v1/cases/{slug}").json()
        for name in ("interpretations", "decisions", "alerts", "prices"):
            items = api.get(f"/api/v1/cases/{slug}/{name}", params={"limit": 500}).json()["items"]
            setattr(self, name, items[::-1])

    interpretations: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    alerts: list[dict[str, Any]]
    prices: list[dict[str, Any]]

    @property
    def verbs(self) -> list[str]:
        return [item["verb"] for item in self.decisions if not item["imported"]]


def sound(api: Api) -> None:
    with reading(api.house.engine) as connection:
        assert list(check_chain(connection)) == []
        assert [difference for _, difference in replay(connection) if difference] == []


def test_a_case_lives_as_evidence_comes_and_does_not(api: Api, clock: MovingClock) -> None:
    """active → repriced → expired → revived and repriced, with one alert routed at each step."""
    assert api.post("/api/v1/cases/import", documents.imported(SLUG)).status_code == 201
    steps = [Told(api)]
    clock.forward(hours=5)
    make_passes(api, clock, clock.now())
    repriced = api.post("/api/v1/results", near_result()).json()
    assert (repriced["state"], repriced["qualifying"]) == ({"before": "active", "after": "repriced"}, False)
    steps.append(Told(api))

    due = datetime.fromisoformat(steps[-1].case["due_at"])
    assert due == clock.now() + timedelta(hours=48)
    made = make_passes(api, clock, due + timedelta(hours=2))
    assert [report.expired for report in made].count(1) == 1
    assert next(report.hour for report in made if report.expired) == hour_of(due) + timedelta(hours=1)
    steps.append(Told(api))

    clock.forward(days=30)
    revived = api.post("/api/v1/results", documents.qualifying(SLUG)).json()
    assert revived["state"] == {"before": "expired", "after": "repriced"}
    assert (revived["qualifying"], [item["verb"] for item in revived["decisions"]]) == (
        True,
        ["revive", "reprice"],
    )
    steps.append(Told(api))

    assert [step.case["state"] for step in steps] == ["active", "repriced", "expired", "repriced"]
    verbs = steps[-1].verbs
    assert [verb for verb in verbs if not verb.startswith("alert")] == [
        "create",
        "reprice",
        "expire",
        "revive",
        "reprice",
    ]
    assert verbs.count("alert_route") == len(steps[-1].alerts) == 4
    assert len(steps[-1].interpretations) == 4
    texts = [item["text"] for item in steps[-1].interpretations]
    assert all(texts), "an interpretation says nothing"
    assert len(set(texts)) == 4
    assert "48 h" in texts[2]
    assert [step.case["verdict"] for step in steps][:3] == ["open"] * 3
    assert [alert["rule"] for alert in steps[-1].alerts][1:] == [
        "state-change",
        "state-change",
        "first-qualifying",
    ]
    assert all(alert["reason"] for alert in steps[-1].alerts)
    for before, after in itertools.pairwise(steps):
        for name in ("interpretations", "decisions", "alerts", "prices"):
            old, new = getattr(before, name), getattr(after, name)
            assert new[: len(old)] == old, f"{name}: what was told earlier was changed"
            assert len(new) > len(old), name
    sound(api)


def near_result() -> dict[str, Any]:
    """Like the qualifying example but for quality, which it does not report: pooled, and not qualifying."""
    document = documents.qualifying(SLUG)
    for arm in document["arms"]:
        arm["metrics"] = [item for item in arm["metrics"] if item["name"] != "accuracy"]
        arm["config"].pop("quality.task", None)
    return document


def test_a_case_with_a_qualifying_result_does_not_expire(api: Api, clock: MovingClock) -> None:
    api.post("/api/v1/cases/import", documents.imported(SLUG))
    api.post("/api/v1/results", documents.qualifying(SLUG))
    make_passes(api, clock, clock.now() + timedelta(hours=60))
    assert Told(api).case["state"] == "repriced"
    withdrawn = api.post(f"/api/v1/cases/{SLUG}/evidence/2/withdraw", {"reason": "retracted"})
    assert withdrawn.status_code == 200
    make_passes(api, clock, clock.now() + timedelta(hours=60))
    told = Told(api)
    assert told.case["state"] == "expired", "without its qualifying result the case is due"
    sound(api)


def test_the_seeds_own_dates_expire_in_the_hour_in_which_the_seed_expired(
    api: Api, clock: MovingClock
) -> None:
    """Created 2026-08-10 19:28:12 UTC with a horizon of 48 h: the first hourly pass after is that of 20:00
    UTC."""
    document = json.loads(seed_files()[0].read_bytes())
    del document["history"]
    document["evidence"] = [item for item in document["evidence"] if item.get("kind") != "audit"]
    with writing(api.house.engine) as connection:
        open_case(
            connection,
            read_document(CaseFile, strict_json(json.dumps(document).encode())),
            api.house.desk("seed"),
        )
    assert clock.now() == START
    made = make_passes(api, clock, datetime(2026, 8, 13, 0, 30, tzinfo=UTC))
    assert [report.hour for report in made if report.expired] == [datetime(2026, 8, 12, 20, tzinfo=UTC)]
    expiry = next(item for item in Told(api, documents.SEED).decisions if item["verb"] == "expire")
    assert datetime.fromisoformat(expiry["at"]) == datetime(2026, 8, 12, 20, tzinfo=UTC)
    sound(api)


def test_passes_of_an_hour_made_again_do_nothing(api: Api, clock: MovingClock) -> None:
    api.post("/api/v1/cases", documents.case(claim={"horizon_hours": 2}))
    make_passes(api, clock, START + timedelta(hours=3))
    before = documents.counts(api.house.engine)
    for minutes in (0, 1, 30):
        again = horizon_pass(
            api.house.engine, clock.now() + timedelta(minutes=minutes), api.house.desk("other")
        )
        assert not again.made
    assert documents.counts(api.house.engine) == before
    assert Told(api).verbs.count("expire") == 1


def test_a_repetitive_item_puts_no_expiry_off(api: Api, clock: MovingClock) -> None:
    api.post("/api/v1/cases", documents.case(claim={"horizon_hours": 4}))
    due = Told(api).case["due_at"]
    make_passes(api, clock, START + timedelta(hours=2))
    observed = api.post(
        f"/api/v1/cases/{SLUG}/evidence", documents.source("A copy", reported=[], level=None)
    ).json()
    assert [item["verb"] for item in observed["decisions"]] == ["observe"]
    assert Told(api).case["due_at"] == due
    make_passes(api, clock, START + timedelta(hours=5))
    assert Told(api).case["state"] == "expired"


class Killed(BaseException):
    """Stands for a process that is killed."""


def test_a_killed_pass_is_made_again_and_finds_the_rest(api: Api, clock: MovingClock) -> None:
    for number in range(3):
        api.post("/api/v1/cases", documents.case(f"case-{number}", claim={"horizon_hours": 2}))
    make_passes(api, clock, START + timedelta(hours=2))
    clock.moment = hour_of(clock.now()) + timedelta(hours=1)
    desk: Any = KilledAt(2, api.house.desk("schedule"))
    with pytest.raises(Killed):
        horizon_pass(api.house.engine, clock.now(), desk)
    with reading(api.house.engine) as connection:
        hours = list(connection.execute(select(passes.c.hour)).scalars())
    assert hour_of(clock.now()) not in hours, "a pass that was killed stands in the ledger as made"
    states = [Told(api, f"case-{number}").case["state"] for number in range(3)]
    assert states.count("expired") == 1
    again = horizon_pass(api.house.engine, clock.now(), api.house.desk("schedule"))
    assert (again.made, again.expired) == (True, 2)
    for number in range(3):
        told = Told(api, f"case-{number}")
        assert (told.case["state"], told.verbs.count("expire")) == ("expired", 1)
    sound(api)


class KilledAt:
    """A desk whose process ends when the n-th case is about to be routed: half-way through a pass, its event and
    decision written and not yet committed."""

    def __init__(self, number: int, desk: Desk) -> None:
        self.left = number
        self.desk = desk

    def __getattr__(self, name: str) -> Any:
        if name == "owner":
            self.left -= 1
            if self.left == 0:
                raise Killed
        return getattr(self.desk, name)


def test_hours_that_nobody_listened_in_withhold_an_expiry(api: Api, clock: MovingClock) -> None:
    """The service was down for 3 of the 6 hours: the horizon is longer by them, once."""
    api.post("/api/v1/cases", documents.case(claim={"horizon_hours": 6}))
    make_passes(api, clock, START + timedelta(hours=1))
    clock.forward(hours=3)
    make_passes(api, clock, START + timedelta(hours=7))
    told = Told(api)
    assert told.case["state"] == "active"
    withheld = [item for item in told.decisions if item["verb"] == "observe"]
    assert len(withheld) == 1
    assert "3 h" in withheld[0]["reason"]
    assert withheld[0]["facts"]["deaf_h"] == 3.0
    assert datetime.fromisoformat(told.case["due_at"]) == START + timedelta(hours=9)
    make_passes(api, clock, START + timedelta(hours=10))
    told = Told(api)
    assert (told.case["state"], told.verbs.count("observe"), told.verbs.count("expire")) == ("expired", 1, 1)
    assert len(told.alerts) == 3
    sound(api)


def test_hours_asleep_are_counted_from_the_ledger(engine: Engine, clock: MovingClock, house: Any) -> None:
    clock.forward(hours=8)
    for hour in (1, 2, 5):
        horizon_pass(engine, START + timedelta(hours=hour), house.desk("schedule"))
    with reading(engine) as connection:
        found = [deaf_time(connection, START, START + timedelta(hours=hour)) for hour in range(8)]
    assert [gap // timedelta(hours=1) for gap in found] == [0, 0, 0, 0, 1, 2, 2, 3]


def test_a_late_result_measured_inside_the_horizon_takes_the_expiry_back(
    api: Api, clock: MovingClock
) -> None:
    api.post("/api/v1/cases", documents.case(claim={"horizon_hours": 4}))
    make_passes(api, clock, START + timedelta(hours=6))
    assert Told(api).case["state"] == "expired"
    measured = (START + timedelta(hours=2)).isoformat().replace("+00:00", "Z")
    elsewhere = datetime.fromisoformat(measured).astimezone(timezone(timedelta(hours=10))).isoformat()
    late = api.post("/api/v1/results", documents.result(ratio=1.4, measured_at=elsewhere)).json()
    assert [item["verb"] for item in late["decisions"]] == ["correct", "reprice"]
    assert "2026-08-10 21:28 UTC" in late["decisions"][0]["reason"], "another zone's time was told as UTC"
    told = Told(api)
    assert told.verbs.count("expire") == 1, "the log keeps the expiry"
    sound(api)


def test_a_case_opened_in_the_past_is_judged_from_when_it_was_recorded(api: Api, clock: MovingClock) -> None:
    opened = "2026-08-01T00:00:00+10:00"
    assert api.post("/api/v1/cases", documents.case(opened_at=opened)).status_code == 201
    made = make_passes(api, clock, START + timedelta(hours=1))
    assert [report.expired for report in made] == [1]
    sound(api)


def test_the_same_moments_give_the_same_answers_on_both_databases(
    api: Api, clock: MovingClock, tmp_path: Path
) -> None:
    """A recorded life: what the seed came to, word for word, whichever database keeps it."""
    api.post("/api/v1/cases/import", documents.imported(SLUG))
    make_passes(api, clock, START + timedelta(hours=50))
    api.post("/api/v1/results", documents.qualifying(SLUG))
    told = Told(api)
    lines = [f"{item['at']} {item['verb']}: {item['reason']}" for item in told.decisions]
    golden = documents.ROOT / "tests" / "golden" / "a-life.txt"
    (tmp_path / "a-life.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert (tmp_path / "a-life.txt").read_text(encoding="utf-8") == golden.read_text(encoding="utf-8")

"""Writers at once, on both databases: nothing lost, nothing decided twice, the chain unbroken."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import func, select

from app.services.passes import horizon_pass
from app.services.replay import replay
from app.store.engine import reading
from app.store.log import check_chain
from app.store.tables import alerts, cases, decisions, events, evidence
from tests.conftest import Api, MovingClock
from tests.services import documents

WRITERS = 8
EACH = 4


def at_once(acts: list[Callable[[], Any]]) -> list[Any]:
    """Do all of them from threads of their own, let go at one moment."""
    barrier = threading.Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        barrier.wait()
        return act()

    with ThreadPoolExecutor(len(acts)) as pool:
        return [done.result() for done in [pool.submit(run, act) for act in acts]]


def whole(api: Api) -> None:
    """The chain is unbroken, every decision computes again, and each event was decided and routed once."""
    with reading(api.house.engine) as connection:
        assert list(check_chain(connection)) == []
        assert [difference for _, difference in replay(connection) if difference] == []
        per_event = Counter(connection.execute(select(alerts.c.event_id)).scalars())
        assert set(per_event) == set(connection.execute(select(events.c.id)).scalars())
        assert set(per_event.values()) == {1}


def test_writers_on_one_case_lose_nothing_and_decide_each_once(api: Api) -> None:
    api.post("/api/v1/cases", documents.case())

    def write(writer: int) -> Callable[[], list[int]]:
        def act() -> list[int]:
            bodies = [
                documents.result(ratio=1 + writer / 100, base=1000.0 + number) for number in range(EACH)
            ]
            return [api.post("/api/v1/results", body).status_code for body in bodies]

        return act

    done = at_once([write(writer) for writer in range(WRITERS)])
    assert done == [[201] * EACH] * WRITERS
    with reading(api.house.engine) as connection:
        numbers = list(connection.execute(select(evidence.c.number).order_by(evidence.c.number)).scalars())
        verbs = Counter(connection.execute(select(decisions.c.verb)).scalars())
        kept = connection.execute(select(cases.c.evidence_count)).scalar_one()
    assert numbers == list(range(1, WRITERS * EACH + 1))
    assert kept == WRITERS * EACH
    assert verbs["observe"] + verbs["reprice"] == WRITERS * EACH
    whole(api)


def test_one_result_from_many_at_once_is_recorded_and_decided_once(api: Api) -> None:
    api.post("/api/v1/cases", documents.case())
    answers = at_once([lambda: api.post("/api/v1/results", documents.result())] * WRITERS)
    assert sorted(answer.status_code for answer in answers) == [200] * (WRITERS - 1) + [201]
    bodies = [answer.json() | {"duplicate": None} for answer in answers]
    assert all(body == bodies[0] for body in bodies), "not everybody was told the first answer"
    assert [answer.json()["duplicate"] for answer in answers].count(False) == 1
    with reading(api.house.engine) as connection:
        assert connection.execute(select(func.count()).select_from(evidence)).scalar_one() == 1
    whole(api)


def test_one_key_from_many_at_once_gives_everybody_the_first_answer(api: Api) -> None:
    api.post("/api/v1/cases", documents.case())
    headers = {"Idempotency-Key": "one"}
    answers = at_once([lambda: api.post("/api/v1/results", documents.result(), headers=headers)] * WRITERS)
    assert sorted(answer.status_code for answer in answers) == [200] * (WRITERS - 1) + [201]
    assert len({answer.text for answer in answers}) == 1
    whole(api)


def test_one_key_with_many_bodies_at_once_takes_one(api: Api) -> None:
    api.post("/api/v1/cases", documents.case())
    headers = {"Idempotency-Key": "one"}

    def act(number: int) -> Callable[[], Any]:
        return lambda: api.post("/api/v1/results", documents.result(base=1000.0 + number), headers=headers)

    answers = at_once([act(number) for number in range(WRITERS)])
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * (WRITERS - 1)
    assert {a.json()["type"] for a in answers if a.status_code == 409} == {"/problems/key-reused"}
    with reading(api.house.engine) as connection:
        assert connection.execute(select(func.count()).select_from(evidence)).scalar_one() == 1
    whole(api)


def test_one_slug_from_many_at_once_opens_one_case(api: Api) -> None:
    answers = at_once([lambda: api.post("/api/v1/cases", documents.case())] * WRITERS)
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * (WRITERS - 1)
    whole(api)


def test_the_same_files_on_two_cases_in_opposite_order_never_wait_in_a_circle(api: Api) -> None:
    for slug in ("case-one", "case-two"):
        api.post("/api/v1/cases/import", documents.imported(slug))

    def act(number: int) -> Callable[[], Any]:
        document = documents.qualifying(f"case-{('one', 'two')[number % 2]}", mark=f" {number // 2}")
        for file in document["arms"][0]["files"]:
            run = documents.decoded(file)
            run["benchmark_time_seconds"] += number // 2
            file["content_base64"] = documents.encoded(run)
        for arm in document["arms"]:
            arm["files"] = arm["files"][:: 1 if number % 2 else -1]
        return lambda: api.post("/api/v1/results", document)

    answers = at_once([act(number) for number in range(WRITERS)])
    assert [answer.status_code for answer in answers] == [201] * WRITERS, [
        answer.text[:300] for answer in answers
    ]
    whole(api)


def test_a_withdrawal_and_results_at_once(api: Api) -> None:
    api.post("/api/v1/cases", documents.case())
    api.post("/api/v1/results", documents.result())
    path = "/api/v1/cases/a-case/evidence/1/withdraw"
    acts = [lambda: api.post(path, {"reason": "wrong"})] * 4
    acts += [lambda n=n: api.post("/api/v1/results", documents.result(base=2000.0 + n)) for n in range(4)]
    answers = at_once(acts)
    assert sorted(answer.status_code for answer in answers[:4]) == [200, 409, 409, 409]
    assert [answer.status_code for answer in answers[4:]] == [201] * 4
    whole(api)


def listen(api: Api, clock: MovingClock, hours: int) -> None:
    """Make the passes of the next hours, so that none was slept through."""
    for _ in range(hours):
        horizon_pass(api.house.engine, clock.forward(hours=1), api.house.desk("schedule"))


def test_passes_of_one_hour_from_many_servers_expire_once(api: Api, clock: MovingClock) -> None:
    for number in range(3):
        api.post("/api/v1/cases", documents.case(f"case-{number}", claim={"horizon_hours": 1}))
    listen(api, clock, hours=1)
    clock.forward(hours=1)
    desk = api.house.desk("schedule")
    reports = at_once([lambda: horizon_pass(api.house.engine, clock.now(), desk)] * WRITERS)
    assert [report.made for report in reports].count(True) == 1
    with reading(api.house.engine) as connection:
        verbs = Counter(connection.execute(select(decisions.c.verb)).scalars())
    assert verbs["expire"] == 3
    whole(api)


def test_a_late_result_and_the_pass_at_once_leave_one_history(api: Api, clock: MovingClock) -> None:
    api.post("/api/v1/cases", documents.case(claim={"horizon_hours": 1}))
    listen(api, clock, hours=1)
    clock.forward(hours=1)
    desk = api.house.desk("schedule")
    answers = at_once(
        [
            lambda: horizon_pass(api.house.engine, clock.now(), desk),
            lambda: api.post("/api/v1/results", documents.result(ratio=1.4)),
        ]
    )
    assert answers[1].status_code == 201
    whole(api)

"""Scheduled passes. Each is made once an hour whoever else is awake, for `now` floored to the hour."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, Engine

from app.domain.case import HorizonPassed
from app.domain.decide import decide
from app.services.judge import Desk, settle
from app.store import cases, ledger
from app.store.engine import reading, writing

HORIZON: Final = "horizon"

log = logging.getLogger("assay.passes")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassReport:
    """What a pass did. `made` is false when that hour's pass had been made before."""

    name: str
    hour: datetime
    made: bool
    looked_at: int
    expired: int
    withheld: int
    failed: int


def hour_of(moment: datetime) -> datetime:
    """The hour that a moment falls in."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def horizon_pass(engine: Engine, at: datetime, desk: Desk) -> PassReport:
    """Expire the cases whose horizon has passed.

    Args:
        at: moment of the pass; floored to the hour, so that a late or repeated pass gives the same answer.
        desk: its `now` is the present: hours that are still to come cannot have been slept through.

    The ledger is written last: a pass that is killed half-way is made again, and finds the rest.
    """
    hour = hour_of(at)
    with reading(engine) as connection:
        if ledger.pass_done(connection, HORIZON, hour):
            return PassReport(
                name=HORIZON, hour=hour, made=False, looked_at=0, expired=0, withheld=0, failed=0
            )
        due = cases.due_slugs(connection, hour)
    verbs = [verb for slug in due for verb in _looked(engine, slug, hour, desk)]
    counts = {
        "looked_at": len(due),
        "expired": verbs.count("expire"),
        "withheld": verbs.count("observe"),
        "failed": verbs.count(FAILED),
    }
    if hour > hour_of(desk.now):
        # An hour still to come is looked at and not entered: its own pass must be made when it comes.
        return PassReport(name=HORIZON, hour=hour, made=True, **counts)
    with writing(engine) as connection:
        made = ledger.add_pass(connection, HORIZON, hour, desk.now, counts)
    return PassReport(name=HORIZON, hour=hour, made=made, **counts)


def _looked(engine: Engine, slug: str, hour: datetime, desk: Desk) -> list[str]:
    """One case; a fault in it is logged and holds no other case up. The next hour looks at it again."""
    try:
        return _look(engine, slug, hour, desk)
    except Exception:
        log.exception("the horizon pass failed on %s", slug)
        return [FAILED]


FAILED: Final = "failed"


def _look(engine: Engine, slug: str, hour: datetime, desk: Desk) -> list[str]:
    """One case in a transaction of its own: a long pass never holds others up."""
    with writing(engine) as connection:
        held = cases.lock(connection, slug, desk.policy)
        since = max(held.case.last_material_at, held.recorded_at)
        deaf = deaf_time(connection, since, min(hour, desk.now))
        event = HorizonPassed(at=hour, deaf=deaf)
        outcome = decide(held.case, event, desk.policy)
        if not outcome.decisions:
            return []
        log, head = held.log, held.log.head
        body = {"deaf_s": deaf.total_seconds()}
        event_id = cases.add_event(log, "horizon", hour, desk.now, desk.actor, body)
        settle(connection, log, outcome, hour, event_id, head, desk)
        cases.save(log, outcome.case, held.evidence_count, (*held.prices, outcome.case.price), desk.now)
        return [str(item.verb) for item in outcome.decisions]


def deaf_time(connection: Connection, since: datetime, until: datetime) -> timedelta:
    """Whole hours in (since, until) for which no pass was made: nobody could have handed evidence in.

    The hour of `until` itself is the pass in hand, so it does not count; nor does the hour in which `since`
    lies.
    """
    first, last = hour_of(since) + timedelta(hours=1), hour_of(until) - timedelta(hours=1)
    if last < first:
        return timedelta(0)
    wanted = (last - first) // timedelta(hours=1) + 1
    return timedelta(hours=wanted - len(ledger.pass_hours(connection, HORIZON, first, last)))

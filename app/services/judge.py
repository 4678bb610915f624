"""The shell around the core: what was decided on an event is routed and appended, in the caller's
transaction."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from app.domain.case import Case, Outcome, Strength
from app.domain.policy import Policy
from app.domain.route import Ears, Routing, decisions_of, route
from app.store import cases, ledger
from app.store.codec import dump
from app.store.log import CaseLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whom alerts are routed to, and the zone in which times are shown."""

    name: str
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Who judges by what: the policy in force, the owner, the caller and the present."""

    policy: Policy
    owner: Owner
    actor: str
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one event came to."""

    outcome: Outcome
    routing: Routing | None


def settle(
    connection: Connection,
    log: CaseLog,
    outcome: Outcome,
    at: datetime,
    event_id: int,
    before: str,
    desk: Desk,
) -> Judgement:
    """Append what an event led to, and route it.

    `before` is the chain's head before the event: with the event itself it fixes everything that the
    decision could know, so it is what the input hash is taken over.
    """
    if not outcome.decisions:
        return Judgement(outcome=outcome, routing=None)
    policy_digest = ledger.keep_policy(connection, desk.policy, desk.now)
    inputs = input_hash(before, log.head, policy_digest)
    ears = ears_of(connection, log.case_id, outcome.case, at, desk)
    routing = route(outcome.case.slug, outcome.change, at, ears, desk.policy)
    cases.add_outcome(log, event_id, outcome)
    for decision in (*outcome.decisions, *decisions_of(routing, at, ears)):
        cases.add_decision(
            log, decision, desk.now, event_id=event_id, input_hash=inputs, policy_digest=policy_digest
        )
    ledger.add_alert(log, event_id, routing, at)
    return Judgement(outcome=outcome, routing=routing)


def input_hash(before: str, with_event: str, policy_digest: str) -> str:
    """Hash of everything that a decision could know: the log before, the event, the policy."""
    return hashlib.sha256(f"{before}:{with_event}:{policy_digest}".encode()).hexdigest()


def ears_of(connection: Connection, case_id: int, case: Case, at: datetime, desk: Desk) -> Ears:
    """What routing needs to know of the owner at a moment."""
    owner = desk.owner
    midnight = at.astimezone(ZoneInfo(owner.zone)).replace(hour=0, minute=0, second=0, microsecond=0)
    return Ears(
        owner=owner.name,
        zone=owner.zone,
        relevance=case.grounding.strength if case.grounding else Strength.NONE,
        interrupts_today=ledger.interrupts_since(connection, owner.name, midnight, at),
        recent=ledger.recent_keys(connection, case_id, owner.name, at - desk.policy.duplicate_window, at),
    )


def answer_parts(judgement: Judgement) -> dict[str, Any]:
    """The parts of an answer that every write shares: price, state, verdict, decisions and alerts."""
    change = judgement.outcome.change
    routing = judgement.routing
    return {
        "price": {"before": change.price_before, "after": change.price_after},
        "state": {"before": change.state_before, "after": change.state_after},
        "verdict": {"before": change.verdict_before, "after": change.verdict_after},
        "decisions": [
            {"verb": item.verb, "at": item.at, "reason": item.reason, "facts": dict(item.facts)}
            for item in judgement.outcome.decisions
        ],
        "alerts": [] if routing is None else [dump(routing)],
    }

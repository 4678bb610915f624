"""Replay: every decision computed again from the stored events, and compared with what is recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import NoResultFound

from app.domain.case import (
    Case,
    CaseOpened,
    Event,
    EvidenceRecorded,
    EvidenceWithdrawn,
    HorizonPassed,
    Outcome,
)
from app.domain.decide import decide
from app.domain.evidence import Evidence
from app.domain.route import Ears, Routing, decisions_of, route
from app.services.judge import input_hash
from app.store import history, ledger
from app.store.cases import SPARKLINE
from app.store.codec import dump, load
from app.store.history import CaseHistory, StoredEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where the recomputed history leaves the recorded one."""

    slug: str
    event: int
    at: datetime | None
    what: str
    recorded: Any
    computed: Any


def replay(connection: Connection, slug: str | None = None) -> Iterator[tuple[str, Difference | None]]:
    """Each case with its first difference, or `None`.

    Raises:
        NotFound: there is no such case.
    """
    for name in history.slugs(connection, slug):
        yield name, _first_difference(connection, name)


def _first_difference(connection: Connection, slug: str) -> Difference | None:
    try:
        return next(_differences(connection, history.load_history(connection, slug)), None)
    except (LookupError, TypeError, ValueError, NoResultFound) as error:
        words = f"{type(error).__name__}: {error}"
        return Difference(
            slug=slug, event=0, at=None, what="what is stored", recorded=words, computed="readable"
        )


def _differences(connection: Connection, past: CaseHistory) -> Iterator[Difference]:
    case: Case | None = None
    prices: list[float] = []
    for stored in past.events:
        policy = ledger.policy_of(connection, stored.policy_digest) if stored.policy_digest else past.policy
        event = _event(past, stored)
        outcome = decide(case, event, policy)
        where: dict[str, Any] = {"slug": past.slug, "event": stored.id, "at": stored.at}
        if outcome.decisions:
            ears = _ears(stored)
            if ears is None:
                yield Difference(**where, what="routing", recorded=None, computed="a routing decision")
                return
            routing = route(past.slug, outcome.change, stored.at, ears, policy)
            expected = [*outcome.decisions, *decisions_of(routing, stored.at, ears)]
            yield from _compare_told(where, stored, outcome, routing)
            inputs = input_hash(stored.before, stored.head, stored.policy_digest or "")
        else:
            expected, inputs = [], ""
        yield from _compare(where, stored, [_told(item) for item in expected], inputs)
        assessed = {item.number: dump(item) for item in outcome.assessments}
        if not agree(assessed, stored.assessments):
            yield Difference(**where, what="assessments", recorded=stored.assessments, computed=assessed)
        case = outcome.case
        prices.append(case.price)
    if case is not None:
        yield from _compare_standing(past, case, prices)


def agree(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of a float: another processor's exponential may differ in them."""
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(agree(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(agree(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def _told(decision: Any) -> dict[str, Any]:
    plain: dict[str, Any] = dump(decision)
    return plain | {"at": decision.at}


def _compare(
    where: dict[str, Any], stored: StoredEvent, expected: list[dict[str, Any]], inputs: str
) -> Iterator[Difference]:
    recorded = [entry.told() for entry in stored.decisions]
    if len(recorded) != len(expected):
        verbs = ([item["verb"] for item in recorded], [item["verb"] for item in expected])
        yield Difference(**where, what="decisions", recorded=verbs[0], computed=verbs[1])
    for old, new in zip(recorded, expected, strict=False):
        for name in ("verb", "at", "reason", "facts"):
            if not agree(old[name], new[name]):
                yield Difference(
                    **where, what=f"{name} of {new['verb']}", recorded=old[name], computed=new[name]
                )
    for entry in stored.decisions:
        if entry.input_hash != inputs:
            yield Difference(**where, what="input hash", recorded=entry.input_hash, computed=inputs)


def _compare_told(
    where: dict[str, Any], stored: StoredEvent, outcome: Outcome, routing: Routing
) -> Iterator[Difference]:
    price = {"at": outcome.decisions[-1].at, "value": outcome.case.price}
    computed = {
        "interpretations": [{"at": item.at, "text": item.text} for item in outcome.interpretations],
        "prices": [price | {"body": {"verb": str(outcome.decisions[-1].verb)}}],
        "alerts": [dump(routing) | {"at": stored.at}],
    }
    for name, value in computed.items():
        if not agree(stored.told[name], value):
            yield Difference(**where, what=name, recorded=stored.told[name], computed=value)


def _compare_standing(past: CaseHistory, case: Case, prices: list[float]) -> Iterator[Difference]:
    computed = {
        "slug": case.slug,
        "opened_at": case.opened_at,
        "evidence_count": len(past.evidence),
        "qualifying_count": sum(item.qualifying for item in case.assessments),
        "prices": prices[-SPARKLINE:],
        "grounding": dump(case.grounding) if case.grounding else None,
        "state": str(case.state),
        "verdict": str(case.verdict),
        "price": case.price,
        "uncertainty": str(case.uncertainty),
        "last_material_at": case.last_material_at,
        "due_at": case.due_at,
        "material_price": case.material_price,
        "claim": dump(case.claim),
    }
    for name, value in computed.items():
        if not agree(past.standing[name], value):
            yield Difference(
                slug=past.slug,
                event=0,
                at=None,
                what=f"{name} of the case",
                recorded=past.standing[name],
                computed=value,
            )


def _event(past: CaseHistory, stored: StoredEvent) -> Event:
    body = stored.body
    match stored.kind:
        case "opened":
            items = tuple(past.evidence[number] for number in range(1, body["evidence"] + 1))
            opened: CaseOpened = load(CaseOpened, body | {"evidence": []})
            return CaseOpened(
                at=opened.at,
                opened_at=opened.opened_at,
                slug=opened.slug,
                claim=opened.claim,
                evidence=items,
                grounding=opened.grounding,
                imported_state=opened.imported_state,
                imported_entries=opened.imported_entries,
            )
        case "evidence":
            return EvidenceRecorded(
                at=stored.at,
                number=body["number"],
                evidence=past.evidence[body["number"]],
                again=_again(past, body),
            )
        case "withdrawn":
            return EvidenceWithdrawn(
                at=stored.at,
                number=body["number"],
                evidence=past.evidence[body["number"]],
                reason=body["reason"],
                again=_again(past, body),
            )
        case _:
            return HorizonPassed(at=stored.at, deaf=timedelta(seconds=body["deaf_s"]))


def _again(past: CaseHistory, body: dict[str, Any]) -> tuple[tuple[int, Evidence], ...]:
    return tuple((number, past.evidence[number]) for number in body["again"])


def _ears(stored: StoredEvent) -> Ears | None:
    for entry in stored.decisions:
        if "ears" in entry.facts:
            return load(Ears, entry.facts["ears"] | {"owner": entry.facts["owner"]})
    return None

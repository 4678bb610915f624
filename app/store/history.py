"""A case's whole recorded past, for replay."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Table, select

from app.domain.assess import Assessment
from app.domain.errors import NotFound
from app.domain.evidence import Evidence
from app.domain.policy import Policy
from app.domain.route import Held, Route, Routing
from app.store.codec import load
from app.store.tables import (
    alerts,
    assessments,
    cases,
    decisions,
    events,
    evidence,
    interpretations,
    log,
    readings,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """One recorded decision."""

    verb: str
    at: datetime
    reason: str
    facts: dict[str, Any]
    input_hash: str | None
    policy_digest: str | None

    def told(self) -> dict[str, Any]:
        """What a recomputed decision is compared with."""
        return {"verb": self.verb, "at": self.at, "reason": self.reason, "facts": self.facts}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """One recorded event with what followed. `before` and `head` are the chain's heads before and after it
    (its evidence included); `told` holds the interpretations, prices and alerts that it led to."""

    id: int
    kind: str
    at: datetime
    body: dict[str, Any]
    before: str
    head: str
    policy_digest: str | None
    decisions: tuple[StoredDecision, ...]
    assessments: dict[int, Any]
    told: dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHistory:
    """Everything recorded of one case."""

    slug: str
    policy: Policy
    events: tuple[StoredEvent, ...]
    evidence: dict[int, Evidence]
    standing: dict[str, Any]


def slugs(connection: Connection, slug: str | None) -> list[str]:
    """One slug, or all of them in the order of creation.

    Raises:
        NotFound: there is no such case.
    """
    query = select(cases.c.slug).order_by(cases.c.id)
    found = list(connection.execute(query if slug is None else query.where(cases.c.slug == slug)).scalars())
    if slug is not None and not found:
        raise NotFound("case", slug)
    return found


def load_history(connection: Connection, slug: str) -> CaseHistory:
    """The recorded past of a case."""
    case = dict(connection.execute(select(cases).where(cases.c.slug == slug)).mappings().one())
    decided = _decisions(connection, case["id"])
    judged = _assessments(connection, case["id"])
    heads = _heads(connection, case["id"])
    told = {name: _told(connection, case["id"], table, columns) for name, (table, columns) in TOLD.items()}
    query = select(events).where(events.c.case_id == case["id"]).order_by(events.c.id)
    stored = tuple(
        StoredEvent(
            id=row.id,
            kind=row.kind,
            at=row.at,
            body=row.body,
            before=heads.get(row.id, ("", ""))[0],
            head=heads.get(row.id, ("", ""))[1],
            policy_digest=decided[row.id][0].policy_digest if decided[row.id] else None,
            decisions=tuple(decided[row.id]),
            assessments=judged[row.id],
            told={name: found[row.id] for name, found in told.items()},
        )
        for row in connection.execute(query)
    )
    items = select(evidence.c.number, evidence.c.body).where(evidence.c.case_id == case["id"])
    return CaseHistory(
        slug=slug,
        policy=Policy(),
        events=stored,
        evidence={
            row.number: load(Evidence, row.body)
            for row in connection.execute(items.order_by(evidence.c.number))
        },
        standing=case,
    )


def _decisions(
    connection: Connection, case_id: int, event_id: int | None = None
) -> dict[int, list[StoredDecision]]:
    found: dict[int, list[StoredDecision]] = defaultdict(list)
    query = (
        select(decisions)
        .where(decisions.c.case_id == case_id, decisions.c.event_id.is_not(None))
        .order_by(decisions.c.id)
    )
    if event_id is not None:
        query = query.where(decisions.c.event_id == event_id)
    for row in connection.execute(query):
        found[row.event_id].append(
            StoredDecision(
                verb=row.verb,
                at=row.at,
                reason=row.reason,
                facts=row.facts,
                input_hash=row.input_hash,
                policy_digest=row.policy_digest,
            )
        )
    return found


def _assessments(connection: Connection, case_id: int) -> dict[int, dict[int, Any]]:
    found: dict[int, dict[int, Any]] = defaultdict(dict)
    query = select(assessments).where(assessments.c.case_id == case_id).order_by(assessments.c.id)
    for row in connection.execute(query):
        found[row.event_id][row.number] = row.body
    return found


TOLD: Final = {
    "interpretations": (interpretations, ("at", "text")),
    "prices": (readings, ("at", "value", "body")),
    "alerts": (alerts, ("at", "owner", "route", "rule", "reason", "key", "held_back", "would_raise")),
}


def _told(
    connection: Connection, case_id: int, table: Table, columns: tuple[str, ...]
) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    query = (
        select(table).where(table.c.case_id == case_id, table.c.event_id.is_not(None)).order_by(table.c.id)
    )
    for row in connection.execute(query).mappings():
        found[row["event_id"]].append({name: row[name] for name in columns})
    return found


def _heads(connection: Connection, case_id: int) -> dict[int, tuple[str, str]]:
    """For each event, the chain's head before it and after it with its evidence."""
    query = select(log).where(log.c.case_id == case_id).order_by(log.c.seq)
    found: dict[int, tuple[str, str]] = {}
    current: int | None = None
    for link in connection.execute(query):
        if link.part == "events":
            current = link.row_id
            found[link.row_id] = (link.prev, link.hash)
        elif link.part == "evidence" and current is not None:
            found[current] = (found[current][0], link.hash)
        else:
            current = None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAnswer:
    """What followed when an item of evidence came in."""

    assessment: Assessment
    decisions: tuple[StoredDecision, ...]
    routings: tuple[Routing, ...]


def first_answer(connection: Connection, case_id: int, number: int) -> FirstAnswer:
    """What followed when item `number` came in: its first judgement, the decisions, the routing."""
    where = (evidence.c.case_id == case_id, evidence.c.number == number)
    event_id = connection.execute(select(evidence.c.event_id).where(*where)).scalar_one()
    body = connection.execute(
        select(assessments.c.body)
        .where(assessments.c.case_id == case_id, assessments.c.number == number)
        .order_by(assessments.c.id)
        .limit(1)
    ).scalar_one()
    decided = _decisions(connection, case_id, event_id)[event_id]
    query = select(alerts).where(alerts.c.event_id == event_id).order_by(alerts.c.id)
    return FirstAnswer(
        assessment=load(Assessment, body),
        decisions=tuple(item for item in decided if not item.verb.startswith("alert_")),
        routings=tuple(
            Routing(
                owner=row.owner,
                route=Route(row.route),
                rule=row.rule,
                reason=row.reason,
                key=row.key,
                held_back=tuple(Held(**entry) for entry in row.held_back),
                would_raise=row.would_raise,
            )
            for row in connection.execute(query)
        ),
    )

"""Items of evidence of one case: how each is judged now, which were withdrawn, what they share."""

from __future__ import annotations

import json
from functools import lru_cache

from sqlalchemy import Connection, Text, or_, select, type_coerce

from app.domain.assess import Assessment
from app.domain.case import AuditEntry, Barred
from app.domain.claim import Claim
from app.domain.evidence import Evidence
from app.domain.judging import audits_of, barred_by, identities
from app.domain.policy import Policy
from app.store.codec import load
from app.store.tables import assessments, events, evidence


def latest_assessments(connection: Connection, case_id: int) -> dict[int, Assessment]:
    """The last judgement of each item of evidence, by number."""
    query = (
        select(assessments.c.number, type_coerce(assessments.c.body, Text).label("body"))
        .where(assessments.c.case_id == case_id)
        .order_by(assessments.c.number, assessments.c.id)
    )
    latest = {row.number: row.body for row in connection.execute(query)}
    return {number: _assessment(body) for number, body in latest.items()}


@lru_cache(maxsize=4096)
def _assessment(text: str) -> Assessment:
    """Read once, kept by its very text: each result on a case is judged with all assessments before it."""
    return load(Assessment, json.loads(text))


def withdrawn(connection: Connection, case_id: int) -> dict[int, str]:
    """Numbers of withdrawn items, with the reason given."""
    query = (
        select(events.c.body)
        .where(events.c.case_id == case_id, events.c.kind == "withdrawn")
        .order_by(events.c.id)
    )
    return {body["number"]: body["reason"] for body in connection.execute(query).scalars()}


def audits(
    connection: Connection, case_id: int, claim: Claim, policy: Policy, gone: dict[int, str]
) -> tuple[AuditEntry, ...]:
    query = (
        select(evidence.c.number, evidence.c.body)
        .where(evidence.c.case_id == case_id, evidence.c.kind == "audit")
        .order_by(evidence.c.number)
    )
    """What audits found, withdrawn ones left out."""
    items = ((row.number, load(Evidence, row.body)) for row in connection.execute(query))
    return tuple(
        entry
        for number, item in items
        if number not in gone
        for entry in audits_of(number, item, claim, policy)
    )


def find_evidence(connection: Connection, case_id: int, ref: str) -> int | None:
    """Number of the item with this content, if the case has it."""
    query = select(evidence.c.number).where(evidence.c.case_id == case_id, evidence.c.ref == ref)
    return connection.execute(query).scalar_one_or_none()


def related(connection: Connection, case_id: int, item: Evidence) -> tuple[tuple[int, Evidence], ...]:
    """Items of the same root, address or measurement as one, or that it audits; audits themselves left out."""
    names = identities(item) | ({item.audits} if item.audits else set())
    table = evidence.c
    query = (
        select(table.number, table.body)
        .where(
            table.case_id == case_id,
            or_(table.root.in_(names), table.address.in_(names), table.twin.in_(names)),
            table.kind != "audit",
        )
        .order_by(table.number)
    )
    return tuple((row.number, load(Evidence, row.body)) for row in connection.execute(query))


def barred(connection: Connection, case_id: int, gone: dict[int, str]) -> tuple[Barred, ...]:
    """Sources and measurements that stay out because they were withdrawn."""
    if not gone:
        return ()
    query = (
        select(evidence.c.number, evidence.c.body)
        .where(evidence.c.case_id == case_id, evidence.c.number.in_(gone))
        .order_by(evidence.c.number)
    )
    found = {row.number: load(Evidence, row.body) for row in connection.execute(query)}
    return tuple(entry for number, reason in gone.items() for entry in barred_by(found[number], reason))


def evidence_number(connection: Connection, case_id: int, number: int) -> Evidence | None:
    """One item by its number."""
    query = select(evidence.c.body).where(evidence.c.case_id == case_id, evidence.c.number == number)
    body = connection.execute(query).scalar_one_or_none()
    return None if body is None else load(Evidence, body)

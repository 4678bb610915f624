"""Writing cases: create, lock, load as a domain value, append what an outcome says, and set where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, insert, select, update
from sqlalchemy.exc import IntegrityError

from app.domain.case import Case, Decision, Grounding, Outcome, State
from app.domain.claim import Claim
from app.domain.errors import Conflict, NotFound
from app.domain.evidence import Evidence
from app.domain.policy import Policy
from app.domain.verdict import Uncertainty, Verdict
from app.store.codec import dump, load
from app.store.items import audits, barred, latest_assessments, withdrawn
from app.store.log import GENESIS, CaseLog
from app.store.search import index_case
from app.store.tables import (
    assessments,
    cases,
    decisions,
    events,
    evidence,
    interpretations,
    labels,
    readings,
)

SPARKLINE = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCase:
    """What a case is called and said to be; the rest follows from its opening."""

    slug: str
    title: str
    what: str
    why: str
    tags: tuple[str, ...]
    entities: tuple[str, ...]
    imported: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A case under lock: its value, its log, and what the next item of evidence is numbered."""

    case: Case
    log: CaseLog
    evidence_count: int
    prices: tuple[float, ...]
    recorded_at: datetime


def create(connection: Connection, new: NewCase, case: Case, at: datetime) -> CaseLog:
    """Insert a case and take its lock.

    Raises:
        Conflict: the slug is taken.
    """
    row = {
        "slug": new.slug,
        "title": new.title,
        "what": new.what,
        "why": new.why,
        "claim": dump(case.claim),
        "grounding": dump(case.grounding) if case.grounding else None,
        "imported": new.imported,
        "tags": list(new.tags),
        "entities": list(new.entities),
        "prices": [],
        "heat": None,
        "evidence_count": 0,
        "opened_at": case.opened_at,
        "recorded_at": at,
        "log_length": 0,
        "log_head": GENESIS,
        **_standing(case, at),
    }
    taken = Conflict(
        f"There is a case {new.slug!r} already.", remedy="Choose another slug.", code="slug-taken"
    )
    if connection.execute(select(cases.c.id).where(cases.c.slug == new.slug)).first() is not None:
        raise taken
    try:
        case_id: int = connection.execute(insert(cases).values(row).returning(cases.c.id)).scalar_one()
    except IntegrityError as error:
        raise taken from error
    named = {("tag", value) for value in new.tags} | {("entity", value) for value in new.entities}
    if named:
        connection.execute(
            insert(labels),
            [{"kind": kind, "value": value, "case_id": case_id} for kind, value in sorted(named)],
        )
    document = [new.slug, new.title, case.claim.sentence, new.what, *new.tags, *new.entities]
    index_case(connection, case_id, "\n".join(document))
    return CaseLog(connection=connection, case_id=case_id)


def lock(connection: Connection, slug: str, policy: Policy) -> Locked:
    """Take a case's lock and load it.

    Raises:
        NotFound: there is no such case.
    """
    return _load(connection, select(cases).where(cases.c.slug == slug).with_for_update(), slug, policy)


def peek(connection: Connection, slug: str, policy: Policy) -> Locked:
    """The same without the lock, for looking only.

    Raises:
        NotFound: there is no such case.
    """
    return _load(connection, select(cases).where(cases.c.slug == slug), slug, policy)


def _load(connection: Connection, query: Select[Any], slug: str, policy: Policy) -> Locked:
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound("case", slug)
    return Locked(
        case=_case(connection, dict(row), policy),
        log=CaseLog(connection=connection, case_id=row["id"], length=row["log_length"], head=row["log_head"]),
        evidence_count=row["evidence_count"],
        prices=tuple(row["prices"]),
        recorded_at=row["recorded_at"],
    )


def _case(connection: Connection, row: dict[str, Any], policy: Policy) -> Case:
    gone = withdrawn(connection, row["id"])
    claim = load(Claim, row["claim"])
    return Case(
        slug=row["slug"],
        claim=claim,
        state=State(row["state"]),
        verdict=Verdict(row["verdict"]),
        price=row["price"],
        uncertainty=Uncertainty(row["uncertainty"]),
        opened_at=row["opened_at"],
        last_material_at=row["last_material_at"],
        due_at=row["due_at"],
        material_price=row["material_price"],
        assessments=tuple(
            item for item in latest_assessments(connection, row["id"]).values() if item.number not in gone
        ),
        audits=audits(connection, row["id"], claim, policy, gone),
        barred=barred(connection, row["id"], gone),
        grounding=load(Grounding, row["grounding"]) if row["grounding"] else None,
    )


def add_event(log: CaseLog, kind: str, at: datetime, recorded_at: datetime, actor: str, body: Any) -> int:
    """Append what happened."""
    return log.add(events, kind=kind, at=at, recorded_at=recorded_at, actor=actor, body=body)


def add_evidence(
    log: CaseLog, event_id: int | None, number: int, item: Evidence, at: datetime, actor: str
) -> None:
    """Append one item of evidence."""
    log.add(
        evidence,
        event_id=event_id,
        number=number,
        ref=item.ref,
        root=item.root,
        address=item.address,
        twin=item.twin,
        kind=item.kind,
        occurred_at=item.occurred_at,
        recorded_at=at,
        actor=actor,
        body=dump(item),
    )


def add_decision(
    log: CaseLog,
    decision: Decision,
    recorded_at: datetime,
    *,
    event_id: int | None = None,
    input_hash: str | None = None,
    policy_digest: str | None = None,
    imported: bool = False,
) -> int:
    """Append one decision."""
    return log.add(
        decisions,
        event_id=event_id,
        verb=decision.verb,
        at=decision.at,
        recorded_at=recorded_at,
        reason=decision.reason,
        facts=dict(decision.facts),
        input_hash=input_hash,
        policy_digest=policy_digest,
        imported=imported,
    )


def add_interpretation(
    log: CaseLog, at: datetime, text: str, *, event_id: int | None = None, imported: bool = False
) -> None:
    """Append one interpretation."""
    log.add(interpretations, event_id=event_id, at=at, text=text, imported=imported)


def add_outcome(log: CaseLog, event_id: int, outcome: Outcome) -> None:
    """Append assessments, interpretations and the price reading of an outcome (decisions are added by the
    caller)."""
    for item in outcome.assessments:
        log.add(assessments, event_id=event_id, number=item.number, body=dump(item))
    for entry in outcome.interpretations:
        add_interpretation(log, entry.at, entry.text, event_id=event_id)
    if outcome.decisions:
        first = outcome.decisions[-1]
        log.add(
            readings,
            event_id=event_id,
            kind="price",
            at=first.at,
            value=outcome.case.price,
            body={"verb": str(first.verb)},
        )


def save(log: CaseLog, case: Case, evidence_count: int, prices: tuple[float, ...], at: datetime) -> None:
    """Write the links and where the case stands now."""
    log.flush()
    log.connection.execute(
        update(cases)
        .where(cases.c.id == log.case_id)
        .values(
            evidence_count=evidence_count,
            prices=list(prices[-SPARKLINE:]),
            log_length=log.length,
            log_head=log.head,
            **_standing(case, at),
        )
    )


def _standing(case: Case, at: datetime) -> dict[str, Any]:
    return {
        "state": case.state,
        "verdict": case.verdict,
        "uncertainty": case.uncertainty,
        "price": case.price,
        "qualifying_count": sum(item.qualifying for item in case.assessments),
        "last_material_at": case.last_material_at,
        "due_at": case.due_at,
        "material_price": case.material_price,
        "updated_at": at,
    }


def due_slugs(connection: Connection, at: datetime) -> list[str]:
    """Slugs of living cases without a qualifying result whose horizon has passed."""
    query = (
        select(cases.c.slug)
        .where(cases.c.qualifying_count == 0, cases.c.state.in_(("active", "repriced")), cases.c.due_at <= at)
        .order_by(cases.c.id)
    )
    return list(connection.execute(query).scalars())

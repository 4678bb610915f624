"""Reading: the case list, a case, its histories, alerts and files. Every list has a stable total order."""

from __future__ import annotations

import base64
import binascii
import json
import math
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, literal, select, tuple_

from app.domain.case import Grounding, State, Strength, Verb
from app.domain.claim import Claim
from app.domain.errors import NotFound, Refused
from app.domain.evidence import Evidence
from app.domain.route import Held, Route
from app.domain.verdict import Uncertainty, Verdict
from app.store.codec import load
from app.store.items import latest_assessments, withdrawn
from app.store.narrow import CaseFilter, narrowed
from app.store.records import (
    AlertRecord,
    CaseRecord,
    CaseSummary,
    DecisionRecord,
    EvidenceRecord,
    ImportedStanding,
    InterpretationRecord,
    Page,
    PricePoint,
)
from app.store.tables import (
    alerts,
    blobs,
    cases,
    decisions,
    evidence,
    interpretations,
    policies,
    readings,
)

SORTS: Final = {
    "updated": (cases.c.updated_at, True),
    "price": (cases.c.price, True),
    "title": (cases.c.title, False),
}
"""Sort name to column and whether it descends."""


def write_cursor(*parts: Any) -> str:
    """An opaque place in a list."""
    texts = [part.isoformat() if isinstance(part, datetime) else part for part in parts]
    return base64.urlsafe_b64encode(json.dumps(texts).encode()).decode().rstrip("=")


def read_cursor(cursor: str, kinds: tuple[type, ...]) -> list[Any]:
    """The parts of a cursor.

    Raises:
        Refused: it is not one that this list gave out.
    """
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if len(parts) != len(kinds):
            raise ValueError(cursor)
        return [_read_part(part, kind) for part, kind in zip(parts, kinds, strict=True)]
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error) as error:
        raise Refused(
            "This is not a cursor of this list.",
            field="cursor",
            value=cursor,
            remedy="Take next_cursor from the page before, with the same sort.",
            code="bad-cursor",
        ) from error


def _read_part(part: Any, kind: type[Any]) -> Any:
    if kind is datetime:
        moment = datetime.fromisoformat(part)
        if moment.tzinfo is None:
            raise ValueError(part)
        return moment.astimezone(UTC)
    if kind is float and isinstance(part, int | float) and not isinstance(part, bool):
        if not math.isfinite(part):
            raise ValueError(part)
        return float(part)
    if isinstance(part, bool) or not isinstance(part, kind):
        raise ValueError(part)
    if isinstance(part, int) and abs(part) > 2**53:
        raise ValueError(part)
    if isinstance(part, str) and "\x00" in part.encode().decode():
        raise ValueError(part)
    return part


def case_list(
    connection: Connection, wanted: CaseFilter, sort: str, cursor: str | None, limit: int
) -> Page[CaseSummary]:
    """One page of cases, by keyset."""
    column, descending = SORTS[sort]
    query = select(cases).where(*narrowed(connection, wanted, sort))
    if cursor:
        kind = {"updated": datetime, "price": float, "title": str}[sort]
        value, last_id = read_cursor(cursor, (kind, int))
        place, last = tuple_(column, cases.c.id), tuple_(literal(value, column.type), last_id)
        query = query.where(place < last if descending else place > last)
    order = (column.desc(), cases.c.id.desc()) if descending else (column, cases.c.id)
    rows = connection.execute(query.order_by(*order).limit(limit + 1)).mappings().all()
    more = write_cursor(rows[limit - 1][column.name], rows[limit - 1]["id"]) if len(rows) > limit else None
    return Page(items=tuple(_summary(dict(row)) for row in rows[:limit]), next_cursor=more)


def _summary(row: dict[str, Any]) -> CaseSummary:
    return CaseSummary(
        slug=row["slug"],
        title=row["title"],
        sentence=row["claim"]["sentence"],
        state=State(row["state"]),
        verdict=Verdict(row["verdict"]),
        price=row["price"],
        uncertainty=Uncertainty(row["uncertainty"]),
        heat=row["heat"],
        tags=tuple(row["tags"]),
        entities=tuple(row["entities"]),
        evidence_count=row["evidence_count"],
        qualifying_count=row["qualifying_count"],
        opened_at=row["opened_at"],
        last_material_at=row["last_material_at"],
        due_at=row["due_at"],
        updated_at=row["updated_at"],
        prices=tuple(row["prices"]),
    )


def case_id_of(connection: Connection, slug: str) -> int:
    """The row of a case.

    Raises:
        NotFound: there is no such case.
    """
    found = connection.execute(select(cases.c.id).where(cases.c.slug == slug)).scalar_one_or_none()
    if found is None:
        raise NotFound("case", slug)
    return int(found)


def whole_case(connection: Connection, slug: str) -> CaseRecord:
    """A case but for its histories.

    Raises:
        NotFound: there is no such case.
    """
    row = connection.execute(select(cases).where(cases.c.slug == slug)).mappings().first()
    if row is None:
        raise NotFound("case", slug)
    grounding = load(Grounding, row["grounding"]) if row["grounding"] else None
    return CaseRecord(
        summary=_summary(dict(row)),
        what=row["what"],
        why=row["why"],
        claim=load(Claim, row["claim"]),
        grounding=grounding,
        relevance=grounding.strength if grounding else Strength.NONE,
        imported=load(ImportedStanding, row["imported"]) if row["imported"] else None,
        recorded_at=row["recorded_at"],
    )


LARGEST_NUMBER: Final = 2**31 - 1
"""What PostgreSQL's INTEGER holds."""


def evidence_list(connection: Connection, slug: str) -> tuple[EvidenceRecord, ...]:
    """All evidence of a case, by number."""
    return evidence_page(connection, slug, None, LARGEST_NUMBER - 1).items


def evidence_page(connection: Connection, slug: str, cursor: str | None, limit: int) -> Page[EvidenceRecord]:
    """Evidence of a case, by number."""
    case_id = case_id_of(connection, slug)
    gone = withdrawn(connection, case_id)
    judged = latest_assessments(connection, case_id)
    query = select(evidence).where(evidence.c.case_id == case_id).order_by(evidence.c.number).limit(limit + 1)
    if cursor:
        last = read_cursor(cursor, (int,))[0]
        query = query.where(evidence.c.number > min(max(last, 0), LARGEST_NUMBER))
    rows = connection.execute(query).all()
    items = tuple(
        EvidenceRecord(
            number=row.number,
            evidence=load(Evidence, row.body),
            assessment=judged.get(row.number),
            recorded_at=row.recorded_at,
            actor=row.actor,
            withdrawn=gone.get(row.number),
        )
        for row in rows[:limit]
    )
    return Page(items=items, next_cursor=write_cursor(rows[limit - 1].number) if len(rows) > limit else None)


def decision_list(connection: Connection, slug: str, cursor: str | None, limit: int) -> Page[DecisionRecord]:
    """The decision trace, newest entry first."""
    query = (
        select(decisions, policies.c.version)
        .outerjoin(policies, policies.c.digest == decisions.c.policy_digest)
        .where(decisions.c.case_id == case_id_of(connection, slug))
    )
    rows, more = _newest(connection, query, decisions.c.id, cursor, limit)
    items = tuple(
        DecisionRecord(
            number=row["id"],
            verb=Verb(row["verb"]),
            at=row["at"],
            recorded_at=row["recorded_at"],
            reason=row["reason"],
            facts=row["facts"],
            input_hash=row["input_hash"],
            policy_version=row["version"] and f"{row['version']}:{row['policy_digest'][:12]}",
            imported=row["imported"],
        )
        for row in rows
    )
    return Page(items=items, next_cursor=more)


def _newest(
    connection: Connection, query: Select[Any], key: ColumnElement[Any], cursor: str | None, limit: int
) -> tuple[list[Any], str | None]:
    if cursor:
        query = query.where(key < read_cursor(cursor, (int,))[0])
    rows = list(connection.execute(query.order_by(key.desc()).limit(limit + 1)).mappings())
    return rows[:limit], write_cursor(rows[limit - 1]["id"]) if len(rows) > limit else None


def interpretation_list(
    connection: Connection, slug: str, cursor: str | None, limit: int
) -> Page[InterpretationRecord]:
    """The interpretation history, newest entry first."""
    query = select(interpretations).where(interpretations.c.case_id == case_id_of(connection, slug))
    rows, more = _newest(connection, query, interpretations.c.id, cursor, limit)
    items = tuple(
        InterpretationRecord(number=row["id"], at=row["at"], text=row["text"], imported=row["imported"])
        for row in rows
    )
    return Page(items=items, next_cursor=more)


def price_list(connection: Connection, slug: str, cursor: str | None, limit: int) -> Page[PricePoint]:
    """Price readings, newest first."""
    query = select(readings).where(
        readings.c.case_id == case_id_of(connection, slug), readings.c.kind == "price"
    )
    rows, more = _newest(connection, query, readings.c.id, cursor, limit)
    items = tuple(
        PricePoint(number=row["id"], at=row["at"], price=row["value"], verb=Verb(row["body"]["verb"]))
        for row in rows
    )
    return Page(items=items, next_cursor=more)


def alert_list(
    connection: Connection,
    *,
    slug: str | None = None,
    route: str | None,
    since: datetime | None,
    cursor: str | None,
    limit: int,
) -> Page[AlertRecord]:
    """Routing decisions, newest first."""
    query = select(alerts, cases.c.slug, cases.c.title).join(cases, cases.c.id == alerts.c.case_id)
    if slug is not None:
        query = query.where(alerts.c.case_id == case_id_of(connection, slug))
    if route is not None:
        query = query.where(alerts.c.route == route)
    if since is not None:
        query = query.where(alerts.c.at >= since)
    rows, more = _newest(connection, query, alerts.c.id, cursor, limit)
    items = tuple(
        AlertRecord(
            id=row["id"],
            slug=row["slug"],
            title=row["title"],
            at=row["at"],
            owner=row["owner"],
            route=Route(row["route"]),
            rule=row["rule"],
            reason=row["reason"],
            key=row["key"],
            held_back=tuple(Held(**entry) for entry in row["held_back"]),
            would_raise=row["would_raise"],
        )
        for row in rows
    )
    return Page(items=items, next_cursor=more)


def blob(connection: Connection, sha256: str) -> tuple[str, bytes]:
    """Name and bytes of a raw file.

    Raises:
        NotFound: no such file is kept.
    """
    row = connection.execute(select(blobs).where(blobs.c.sha256 == sha256)).first()
    if row is None:
        raise NotFound("file", sha256)
    return row.name, row.data

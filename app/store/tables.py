"""The tables. Those in `APPEND_ONLY` refuse UPDATE and DELETE in the database itself (see migrations)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from app.domain.case import State, Verb
from app.domain.evidence import EvidenceKind
from app.domain.route import Route
from app.domain.verdict import Uncertainty, Verdict
from app.store.types import JsonText, UtcTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Id: Final = BigInteger().with_variant(Integer(), "sqlite")


def _one_of(column: str, values: Iterable[StrEnum]) -> CheckConstraint:
    allowed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({allowed})", name=column)


def _finite(column: str) -> CheckConstraint:
    """Neither infinite nor, on PostgreSQL, NaN (SQLite keeps none)."""
    return CheckConstraint(
        f"{column} BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308", name=column
    )


def _key() -> Column[Any]:
    return Column("id", Id, primary_key=True, autoincrement=True)


def _case() -> Column[Any]:
    return Column("case_id", Id, ForeignKey("cases.id"), nullable=False)


def _event() -> Column[Any]:
    return Column("event_id", Id, ForeignKey("events.id"), nullable=True)


cases = Table(
    "cases",
    metadata,
    _key(),
    Column("slug", String(120), nullable=False, unique=True),
    Column("title", String(300), nullable=False),
    Column("what", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("claim", JsonText, nullable=False),
    Column("grounding", JsonText),
    Column("imported", JsonText),
    Column("tags", JsonText, nullable=False),
    Column("entities", JsonText, nullable=False),
    # Where the case stands now: derived from the log, checked by replay.
    Column("state", String(20), nullable=False),
    Column("verdict", String(20), nullable=False),
    Column("uncertainty", String(20), nullable=False),
    Column("price", Float, nullable=False),
    Column("prices", JsonText, nullable=False),
    Column("heat", String(20)),
    Column("evidence_count", Integer, nullable=False),
    Column("qualifying_count", Integer, nullable=False),
    Column("opened_at", UtcTime, nullable=False),
    Column("last_material_at", UtcTime, nullable=False),
    Column("due_at", UtcTime, nullable=False),
    Column("material_price", Float, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("recorded_at", UtcTime, nullable=False),
    Column("log_length", Integer, nullable=False),
    Column("log_head", String(64), nullable=False),
    _one_of("state", State),
    _one_of("verdict", Verdict),
    _one_of("uncertainty", Uncertainty),
    CheckConstraint("price >= 0 AND price <= 1", name="price"),
    Index("ix_cases_updated", "updated_at", "id"),
    Index("ix_cases_price", "price", "id"),
    Index("ix_cases_title", "title", "id"),
    Index("ix_cases_state_updated", "state", "updated_at", "id"),
    Index("ix_cases_verdict_updated", "verdict", "updated_at", "id"),
    Index("ix_cases_due", "qualifying_count", "state", "due_at"),
)

labels = Table(
    "labels",
    metadata,
    Column("kind", String(10), primary_key=True),
    Column("value", String(300), primary_key=True),
    Column("case_id", Id, ForeignKey("cases.id"), primary_key=True),
    CheckConstraint("kind IN ('tag', 'entity')", name="kind"),
    Index("ix_labels_case", "case_id"),
)

events = Table(
    "events",
    metadata,
    _key(),
    _case(),
    Column("kind", String(20), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("recorded_at", UtcTime, nullable=False),
    Column("actor", String(120), nullable=False),
    Column("body", JsonText, nullable=False),
    CheckConstraint("kind IN ('opened', 'evidence', 'withdrawn', 'horizon')", name="kind"),
    Index("ix_events_case", "case_id", "id"),
)

evidence = Table(
    "evidence",
    metadata,
    _key(),
    _case(),
    _event(),
    Column("number", Integer, nullable=False),
    Column("ref", String(64), nullable=False),
    Column("root", String(300), nullable=False),
    Column("address", String(200)),
    Column("twin", String(64)),
    Column("kind", String(20), nullable=False),
    Column("occurred_at", UtcTime, nullable=False),
    Column("recorded_at", UtcTime, nullable=False),
    Column("actor", String(120), nullable=False),
    Column("body", JsonText, nullable=False),
    _one_of("kind", EvidenceKind),
    UniqueConstraint("case_id", "number"),
    UniqueConstraint("case_id", "ref"),
    Index("ix_evidence_case_root", "case_id", "root"),
    Index("ix_evidence_case_address", "case_id", "address"),
    Index("ix_evidence_case_twin", "case_id", "twin"),
    Index("ix_evidence_event", "event_id"),
)

assessments = Table(
    "assessments",
    metadata,
    _key(),
    _case(),
    _event(),
    Column("number", Integer, nullable=False),
    Column("body", JsonText, nullable=False),
    Index("ix_assessments_case", "case_id", "number", "id"),
)

decisions = Table(
    "decisions",
    metadata,
    _key(),
    _case(),
    _event(),
    Column("verb", String(20), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("recorded_at", UtcTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("facts", JsonText, nullable=False),
    Column("input_hash", String(64)),
    Column("policy_digest", String(64)),
    Column("imported", Boolean, nullable=False),
    _one_of("verb", Verb),
    Index("ix_decisions_case", "case_id", "id"),
    Index("ix_decisions_event", "event_id"),
)

interpretations = Table(
    "interpretations",
    metadata,
    _key(),
    _case(),
    _event(),
    Column("at", UtcTime, nullable=False),
    Column("text", Text, nullable=False),
    Column("imported", Boolean, nullable=False),
    Index("ix_interpretations_case", "case_id", "id"),
)

readings = Table(
    "readings",
    metadata,
    _key(),
    _case(),
    _event(),
    Column("kind", String(20), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("value", Float, nullable=False),
    Column("body", JsonText, nullable=False),
    CheckConstraint("kind IN ('price', 'heat')", name="kind"),
    _finite("value"),
    Index("ix_readings_case", "case_id", "kind", "id"),
)

alerts = Table(
    "alerts",
    metadata,
    _key(),
    _case(),
    _event(),
    Column("at", UtcTime, nullable=False),
    Column("owner", String(120), nullable=False),
    Column("route", String(20), nullable=False),
    Column("rule", String(60), nullable=False),
    Column("reason", Text, nullable=False),
    Column("key", String(300), nullable=False),
    Column("held_back", JsonText, nullable=False),
    Column("would_raise", Text),
    _one_of("route", Route),
    Index("ix_alerts_route", "route", "id"),
    Index("ix_alerts_case", "case_id", "id"),
    Index("ix_alerts_key", "owner", "key", "id"),
    Index("ix_alerts_owner_route_at", "owner", "route", "at"),
    Index("ix_alerts_at", "at", "id"),
)

log = Table(
    "log",
    metadata,
    Column("case_id", Id, ForeignKey("cases.id"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("part", String(20), nullable=False),
    Column("row_id", Id, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("prev", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    UniqueConstraint("case_id", "prev"),
    UniqueConstraint("part", "row_id"),
)

policies = Table(
    "policies",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("version", String(60), nullable=False),
    Column("body", JsonText, nullable=False),
    Column("recorded_at", UtcTime, nullable=False),
)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("name", String(300), nullable=False),
    Column("data", LargeBinary, nullable=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("actor", String(120), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("request_digest", String(64), nullable=False),
    Column("status", Integer, nullable=False),
    Column("answer", JsonText, nullable=False),
    Column("recorded_at", UtcTime, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    _key(),
    Column("name", String(120), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("scopes", JsonText, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime),
    Column("revoked_at", UtcTime),
)

passes = Table(
    "passes",
    metadata,
    Column("name", String(20), primary_key=True),
    Column("hour", UtcTime, primary_key=True),
    Column("finished_at", UtcTime, nullable=False),
    Column("counts", JsonText, nullable=False),
)

LOGGED: Final = {
    table.name: table
    for table in (events, evidence, assessments, decisions, interpretations, readings, alerts)
}
"""Parts of the log: each row has one link in its case's hash chain."""

APPEND_ONLY: Final = (*LOGGED, "log", "policies", "blobs", "passes")

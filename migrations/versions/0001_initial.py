"""First schema: cases, their append-only log with its hash chain, search, tokens, passes."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

from app.store.types import JsonText, UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY: Final = (
    "events",
    "evidence",
    "assessments",
    "decisions",
    "interpretations",
    "readings",
    "alerts",
    "log",
    "policies",
    "blobs",
    "passes",
)

KEYS: Final = {
    "evidence": (("id",), ("case_id", "number"), ("case_id", "ref")),
    "log": (("case_id", "seq"), ("case_id", "prev"), ("part", "row_id")),
    "policies": (("digest",),),
    "blobs": (("sha256",),),
    "passes": (("name", "hour"),),
}
"""What is unique in a table, where that is more than its id."""


def upgrade() -> None:
    _tables()
    if op.get_bind().dialect.name == "sqlite":
        _sqlite()
    else:
        _postgresql()


def downgrade() -> None:
    raise NotImplementedError("History is never taken back; restore a backup instead.")


def _sqlite() -> None:
    op.execute("CREATE VIRTUAL TABLE case_search USING fts5(document, content='', tokenize='unicode61')")
    for table in APPEND_ONLY:
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
        # INSERT OR REPLACE deletes without firing a DELETE trigger, so a row that is there already is not
        # written
        # again. Where rows are kept by content, the first one stays and nothing is said: ON CONFLICT DO
        # NOTHING.
        keys = KEYS.get(table, (("id",),))
        there = " OR ".join(f"({' AND '.join(f'{name} = NEW.{name}' for name in key)})" for key in keys)
        answer = "IGNORE" if table in ("policies", "blobs", "passes") else f"ABORT, '{table} is append-only'"
        op.execute(
            f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "
            f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {there}) BEGIN SELECT RAISE({answer}); END"
        )


def _postgresql() -> None:
    op.execute(
        "CREATE TABLE case_search (case_id BIGINT PRIMARY KEY REFERENCES cases (id), document TSVECTOR NOT NULL)"
    )
    op.execute("CREATE INDEX ix_case_search_document ON case_search USING gin (document)")
    op.execute(
        "CREATE FUNCTION assay_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation'; END $$"
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION assay_append_only()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION assay_append_only()"
        )


def _tables() -> None:
    op.create_table(
        "blobs",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(length=300), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_blobs")),
    )
    op.create_table(
        "cases",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("slug", sa.String(length=120), nullable=False),
        sa.Column("title", sa.String(length=300), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("claim", JsonText(), nullable=False),
        sa.Column("grounding", JsonText(), nullable=True),
        sa.Column("imported", JsonText(), nullable=True),
        sa.Column("tags", JsonText(), nullable=False),
        sa.Column("entities", JsonText(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("verdict", sa.String(length=20), nullable=False),
        sa.Column("uncertainty", sa.String(length=20), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("prices", JsonText(), nullable=False),
        sa.Column("heat", sa.String(length=20), nullable=True),
        sa.Column("evidence_count", sa.Integer(), nullable=False),
        sa.Column("qualifying_count", sa.Integer(), nullable=False),
        sa.Column("opened_at", UtcTime(), nullable=False),
        sa.Column("last_material_at", UtcTime(), nullable=False),
        sa.Column("due_at", UtcTime(), nullable=False),
        sa.Column("material_price", sa.Float(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.Column("recorded_at", UtcTime(), nullable=False),
        sa.Column("log_length", sa.Integer(), nullable=False),
        sa.Column("log_head", sa.String(length=64), nullable=False),
        sa.CheckConstraint("state IN ('active', 'repriced', 'expired')", name=op.f("ck_cases_state")),
        sa.CheckConstraint("uncertainty IN ('high', 'medium', 'low')", name=op.f("ck_cases_uncertainty")),
        sa.CheckConstraint(
            "verdict IN ('open', 'supported', 'refuted', 'mixed')", name=op.f("ck_cases_verdict")
        ),
        sa.CheckConstraint("price >= 0 AND price <= 1", name=op.f("ck_cases_price")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cases")),
        sa.UniqueConstraint("slug", name=op.f("uq_cases_slug")),
    )
    op.create_index("ix_cases_due", "cases", ["qualifying_count", "state", "due_at"], unique=False)
    op.create_index("ix_cases_price", "cases", ["price", "id"], unique=False)
    op.create_index("ix_cases_state_updated", "cases", ["state", "updated_at", "id"], unique=False)
    op.create_index("ix_cases_title", "cases", ["title", "id"], unique=False)
    op.create_index("ix_cases_updated", "cases", ["updated_at", "id"], unique=False)
    op.create_index("ix_cases_verdict_updated", "cases", ["verdict", "updated_at", "id"], unique=False)
    op.create_table(
        "idempotency",
        sa.Column("actor", sa.String(length=120), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("answer", JsonText(), nullable=False),
        sa.Column("recorded_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("actor", "key", name=op.f("pk_idempotency")),
    )
    op.create_table(
        "passes",
        sa.Column("name", sa.String(length=20), nullable=False),
        sa.Column("hour", UtcTime(), nullable=False),
        sa.Column("finished_at", UtcTime(), nullable=False),
        sa.Column("counts", JsonText(), nullable=False),
        sa.PrimaryKeyConstraint("name", "hour", name=op.f("pk_passes")),
    )
    op.create_table(
        "policies",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=60), nullable=False),
        sa.Column("body", JsonText(), nullable=False),
        sa.Column("recorded_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_policies")),
    )
    op.create_table(
        "tokens",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("scopes", JsonText(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=True),
        sa.Column("revoked_at", UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    op.create_table(
        "events",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("case_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("recorded_at", UtcTime(), nullable=False),
        sa.Column("actor", sa.String(length=120), nullable=False),
        sa.Column("body", JsonText(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('opened', 'evidence', 'withdrawn', 'horizon')", name=op.f("ck_events_kind")
        ),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_events_case_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index("ix_events_case", "events", ["case_id", "id"], unique=False)
    op.create_table(
        "labels",
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("value", sa.String(length=300), nullable=False),
        sa.Column("case_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.CheckConstraint("kind IN ('tag', 'entity')", name=op.f("ck_labels_kind")),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_labels_case_id")),
        sa.PrimaryKeyConstraint("kind", "value", "case_id", name=op.f("pk_labels")),
    )
    op.create_index("ix_labels_case", "labels", ["case_id"], unique=False)
    op.create_table(
        "log",
        sa.Column("case_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("part", sa.String(length=20), nullable=False),
        sa.Column("row_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("prev", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_log_case_id")),
        sa.PrimaryKeyConstraint("case_id", "seq", name=op.f("pk_log")),
        sa.UniqueConstraint("case_id", "prev", name=op.f("uq_log_case_id_prev")),
        sa.UniqueConstraint("part", "row_id", name=op.f("uq_log_part_row_id")),
    )
    op.create_table(
        "alerts",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("case_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("owner", sa.String(length=120), nullable=False),
        sa.Column("route", sa.String(length=20), nullable=False),
        sa.Column("rule", sa.String(length=60), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("key", sa.String(length=300), nullable=False),
        sa.Column("held_back", JsonText(), nullable=False),
        sa.Column("would_raise", sa.Text(), nullable=True),
        sa.CheckConstraint("route IN ('silent', 'digest', 'interrupt')", name=op.f("ck_alerts_route")),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_alerts_case_id")),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_alerts_event_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
    )
    op.create_index("ix_alerts_at", "alerts", ["at", "id"], unique=False)
    op.create_index("ix_alerts_case", "alerts", ["case_id", "id"], unique=False)
    op.create_index("ix_alerts_key", "alerts", ["owner", "key", "id"], unique=False)
    op.create_index("ix_alerts_owner_route_at", "alerts", ["owner", "route", "at"], unique=False)
    op.create_index("ix_alerts_route", "alerts", ["route", "id"], unique=False)
    op.create_table(
        "assessments",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("case_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("body", JsonText(), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_assessments_case_id")),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_assessments_event_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assessments")),
    )
    op.create_index("ix_assessments_case", "assessments", ["case_id", "number", "id"], unique=False)
    op.create_table(
        "decisions",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("case_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("verb", sa.String(length=20), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("recorded_at", UtcTime(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("facts", JsonText(), nullable=False),
        sa.Column("input_hash", sa.String(length=64), nullable=True),
        sa.Column("policy_digest", sa.String(length=64), nullable=True),
        sa.Column("imported", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "verb IN ('create', 'promote_anchor', 'ground', 'surface_candidate', 'observe', 'reprice', 'expire', "
            "'revive', 'alert_route', 'alert_interrupt', 'alert_digest', 'alert_silent', 'correct', 'merge')",
            name=op.f("ck_decisions_verb"),
        ),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_decisions_case_id")),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_decisions_event_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
    )
    op.create_index("ix_decisions_case", "decisions", ["case_id", "id"], unique=False)
    op.create_index("ix_decisions_event", "decisions", ["event_id"], unique=False)
    op.create_table(
        "evidence",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("case_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("ref", sa.String(length=64), nullable=False),
        sa.Column("root", sa.String(length=300), nullable=False),
        sa.Column("address", sa.String(length=200), nullable=True),
        sa.Column("twin", sa.String(length=64), nullable=True),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("occurred_at", UtcTime(), nullable=False),
        sa.Column("recorded_at", UtcTime(), nullable=False),
        sa.Column("actor", sa.String(length=120), nullable=False),
        sa.Column("body", JsonText(), nullable=False),
        sa.CheckConstraint("kind IN ('source', 'echo', 'result', 'audit')", name=op.f("ck_evidence_kind")),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_evidence_case_id")),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_evidence_event_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence")),
        sa.UniqueConstraint("case_id", "number", name=op.f("uq_evidence_case_id_number")),
        sa.UniqueConstraint("case_id", "ref", name=op.f("uq_evidence_case_id_ref")),
    )
    op.create_index("ix_evidence_case_address", "evidence", ["case_id", "address"], unique=False)
    op.create_index("ix_evidence_case_root", "evidence", ["case_id", "root"], unique=False)
    op.create_index("ix_evidence_case_twin", "evidence", ["case_id", "twin"], unique=False)
    op.create_index("ix_evidence_event", "evidence", ["event_id"], unique=False)
    op.create_table(
        "interpretations",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("case_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("imported", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_interpretations_case_id")),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_interpretations_event_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_interpretations")),
    )
    op.create_index("ix_interpretations_case", "interpretations", ["case_id", "id"], unique=False)
    op.create_table(
        "readings",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("case_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("body", JsonText(), nullable=False),
        sa.CheckConstraint("kind IN ('price', 'heat')", name=op.f("ck_readings_kind")),
        sa.CheckConstraint(
            "value BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308", name=op.f("ck_readings_value")
        ),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_readings_case_id")),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_readings_event_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_readings")),
    )
    op.create_index("ix_readings_case", "readings", ["case_id", "kind", "id"], unique=False)

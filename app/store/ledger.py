"""Small tables: policies, raw files, routing records, idempotency keys, tokens, passes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from app.domain.policy import Policy
from app.domain.route import Route, Routing
from app.store.codec import digest, dump, load
from app.store.log import CaseLog
from app.store.tables import alerts, blobs, idempotency, passes, policies, tokens


def _insert_new(connection: Connection, table: Any, row: dict[str, Any]) -> bool:
    """Insert unless the key is there; whether it was inserted."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    key = next(iter(table.primary_key))
    statement = dialect.insert(table).values(row).on_conflict_do_nothing().returning(key)
    return connection.execute(statement).first() is not None


def keep_policy(connection: Connection, policy: Policy, at: datetime) -> str:
    """Keep a policy by content; returns its digest."""
    body = dump(policy)
    key = digest(body)
    known = connection.execute(select(policies.c.digest).where(policies.c.digest == key)).first()
    if known is None:
        row = {"digest": key, "version": policy.version, "body": body, "recorded_at": at}
        _insert_new(connection, policies, row)
    return key


def policy_of(connection: Connection, key: str) -> Policy:
    """A policy by its digest."""
    body = connection.execute(select(policies.c.body).where(policies.c.digest == key)).scalar_one()
    return load(Policy, body)


def keep_blob(connection: Connection, sha256: str, name: str, data: bytes) -> None:
    """Keep a raw file by content."""
    _insert_new(connection, blobs, {"sha256": sha256, "size": len(data), "name": name, "data": data})


def add_alert(log: CaseLog, event_id: int, routing: Routing, at: datetime) -> int:
    """Append a routing record."""
    return log.add(
        alerts,
        event_id=event_id,
        at=at,
        owner=routing.owner,
        route=routing.route,
        rule=routing.rule,
        reason=routing.reason,
        key=routing.key,
        held_back=[dump(entry) for entry in routing.held_back],
        would_raise=routing.would_raise,
    )


def interrupts_since(connection: Connection, owner: str, since: datetime, until: datetime) -> int:
    """Interrupts routed to an owner in [since, until]."""
    query = (
        select(func.count())
        .select_from(alerts)
        .where(
            alerts.c.owner == owner,
            alerts.c.route == Route.INTERRUPT,
            alerts.c.at >= since,
            alerts.c.at <= until,
        )
    )
    return int(connection.execute(query).scalar_one())


def recent_keys(
    connection: Connection, case_id: int, owner: str, since: datetime, until: datetime
) -> dict[str, datetime]:
    """When alerts on a case last went out louder than silent in [since, until], by key."""
    query = (
        select(alerts.c.key, func.max(alerts.c.at).label("at"))
        .where(
            alerts.c.case_id == case_id,
            alerts.c.owner == owner,
            alerts.c.route != Route.SILENT,
            alerts.c.at >= since,
            alerts.c.at <= until,
        )
        .group_by(alerts.c.key)
        .order_by(alerts.c.key)
    )
    return {row.key: row.at for row in connection.execute(query)}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """The answer that a key was given before."""

    request_digest: str
    answer: Any


def kept_answer(connection: Connection, actor: str, key: str) -> KeptAnswer | None:
    """What was answered under an Idempotency-Key."""
    query = select(idempotency).where(idempotency.c.actor == actor, idempotency.c.key == key)
    row = connection.execute(query).first()
    if row is None:
        return None
    return KeptAnswer(request_digest=row.request_digest, answer=row.answer)


def keep_answer(
    connection: Connection, actor: str, key: str, request_digest: str, status: int, answer: Any, at: datetime
) -> bool:
    """Keep an answer under a key; `False` when somebody else has just done so."""
    return _insert_new(
        connection,
        idempotency,
        {
            "actor": actor,
            "key": key,
            "request_digest": request_digest,
            "status": status,
            "answer": answer,
            "recorded_at": at,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A token, its secret left out."""

    id: int
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


def add_token(
    connection: Connection,
    name: str,
    hash_: str,
    scopes: tuple[str, ...],
    at: datetime,
    expires_at: datetime | None,
) -> int:
    """Store a token's hash; returns its id."""
    row = {
        "name": name,
        "hash": hash_,
        "scopes": list(scopes),
        "created_at": at,
        "expires_at": expires_at,
        "revoked_at": None,
    }
    return int(connection.execute(insert(tokens).values(row).returning(tokens.c.id)).scalar_one())


def token_by_hash(connection: Connection, hash_: str) -> TokenRecord | None:
    """A token by the hash of its secret."""
    row = connection.execute(select(tokens).where(tokens.c.hash == hash_)).first()
    return None if row is None else _token(row)


def token_list(connection: Connection) -> tuple[TokenRecord, ...]:
    """All tokens, oldest first."""
    return tuple(_token(row) for row in connection.execute(select(tokens).order_by(tokens.c.id)))


def _token(row: Any) -> TokenRecord:
    return TokenRecord(
        id=row.id,
        name=row.name,
        scopes=tuple(row.scopes),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )


def revoke_token(connection: Connection, token_id: int, at: datetime) -> bool:
    """Revoke a token; `False` when there is none that lives."""
    statement = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
    return bool(connection.execute(statement.values(revoked_at=at)).rowcount)


def add_pass(
    connection: Connection, name: str, hour: datetime, finished_at: datetime, counts: dict[str, int]
) -> bool:
    """Enter a finished pass in the ledger; `False` when that hour's pass was made already."""
    row = {"name": name, "hour": hour, "finished_at": finished_at, "counts": counts}
    return _insert_new(connection, passes, row)


def pass_done(connection: Connection, name: str, hour: datetime) -> bool:
    """Whether a pass was made for an hour."""
    query = select(passes.c.hour).where(passes.c.name == name, passes.c.hour == hour)
    return connection.execute(query).first() is not None


def pass_hours(connection: Connection, name: str, since: datetime, until: datetime) -> list[datetime]:
    """Hours in [since, until] for which a pass was made."""
    query = (
        select(passes.c.hour)
        .where(passes.c.name == name, passes.c.hour >= since, passes.c.hour <= until)
        .order_by(passes.c.hour)
    )
    return list(connection.execute(query).scalars())

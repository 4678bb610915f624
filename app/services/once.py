"""Doing a thing once under an Idempotency-Key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.domain.errors import Conflict
from app.services.intake import Answer, plain
from app.store import ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An answer with its status: 201 new, 200 when it is the answer to something done before."""

    status: int
    body: dict[str, Any]


def once(
    connection: Connection,
    *,
    actor: str,
    key: str | None,
    digest_of_request: Callable[[], str],
    now: datetime,
    act: Callable[[], Answer],
) -> Given:
    """Act, unless this key was answered before: then that answer again.

    Raises:
        Conflict: the key was used for another body.
    """
    if key is None:
        return _given(act())
    asked = digest_of_request()
    kept = ledger.kept_answer(connection, actor, key)
    if kept is not None:
        if kept.request_digest != asked:
            raise _reused()
        return Given(status=200, body=kept.answer)
    answer = act()
    given = _given(answer)
    if not ledger.keep_answer(connection, actor, key, asked, given.status, given.body, now):
        return _answered_meanwhile(connection, actor, key, asked, answer)
    return given


def _given(answer: Answer) -> Given:
    return Given(status=201 if answer.new else 200, body=plain(answer))


def _answered_meanwhile(connection: Connection, actor: str, key: str, asked: str, answer: Answer) -> Given:
    """Another request under the key came first: its answer, unless this one has done something else."""
    kept = ledger.kept_answer(connection, actor, key)
    if kept is None or kept.request_digest != asked or answer.new:
        raise _reused()
    return Given(status=200, body=kept.answer)


def _reused() -> Conflict:
    return Conflict(
        "This Idempotency-Key was used for another body.",
        remedy="Use a new key for each new request, and the same key only to repeat one.",
        code="key-reused",
    )

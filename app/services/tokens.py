"""Tokens: made, shown once, stored hashed."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from app.domain.errors import NotFound, Refused
from app.store import ledger

MAX_NAME: Final = 80
"""A name stands in each entry's `actor`, together with the token's number."""


class Scope(StrEnum):
    """What a token allows. `admin` allows everything."""

    READ = "read"
    SUBMIT = "submit"
    RUN = "run"
    ADMIN = "admin"


def hash_token(secret: str) -> str:
    """What is stored of a token. A token has 256 random bits, so a plain hash cannot be guessed back."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create_token(
    connection: Connection,
    name: str,
    scopes: Sequence[str],
    now: datetime,
    expires_at: datetime | None = None,
) -> str:
    """Make a token; its secret is returned here and nowhere else.

    Raises:
        Refused: an unknown scope, or an expiry in the past.
    """
    unknown = sorted(set(scopes) - set(Scope))
    if unknown or not scopes:
        raise Refused(
            f"{', '.join(unknown) or 'nothing'} is no scope.",
            field="scope",
            value=", ".join(scopes),
            remedy=f"Use one or more of {', '.join(Scope)}.",
            code="unknown-scope",
        )
    if expires_at is not None and expires_at <= now:
        raise Refused(
            "The token would have expired already.",
            field="expires",
            value=expires_at.isoformat(),
            remedy="Give a time to come.",
            code="expired",
        )
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable() or not name.strip():
        raise Refused(
            f"A token's name is one line of 1 to {MAX_NAME} characters.",
            field="name",
            value=name,
            remedy="Say in a few words what the token is for.",
            code="bad-name",
        )
    secret = f"assay_{secrets.token_urlsafe(32)}"
    ledger.add_token(connection, name, hash_token(secret), tuple(dict.fromkeys(scopes)), now, expires_at)
    return secret


def revoke(connection: Connection, token_id: int, now: datetime) -> None:
    """Revoke a token.

    Raises:
        NotFound: there is no living token of that number.
    """
    if not ledger.revoke_token(connection, token_id, now):
        raise NotFound("living token", str(token_id))


def owner_token(connection: Connection, path: Path, now: datetime) -> str:
    """The owner's token from its file, made anew where the file is absent or no longer valid.

    The file is created readable by its owner only.
    """
    if path.exists():
        secret = path.read_text(encoding="utf-8").strip()
        known = ledger.token_by_hash(connection, hash_token(secret))
        if known is not None and known.revoked_at is None:
            return secret
    secret = create_token(connection, "owner", [Scope.ADMIN], now)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own each time: one that a killed start left behind must not stop the next.
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(f"{secret}\n")
    fresh.replace(path)
    return secret

"""What a request brings with it and may use: engine, clock, policy, settings, and who is calling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Engine
from starlette.exceptions import HTTPException

from app.clock import Clock
from app.domain.policy import Policy
from app.services.judge import Desk, Owner
from app.services.tokens import Scope, hash_token
from app.settings import Settings
from app.store import ledger
from app.store.engine import reading


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """Everything that lives as long as the process."""

    engine: Engine
    clock: Clock
    policy: Policy
    settings: Settings

    @property
    def owner(self) -> Owner:
        """Whom alerts are routed to."""
        return Owner(name=self.settings.owner, zone=self.settings.zone)

    def desk(self, actor: str) -> Desk:
        """A desk for one request."""
        return Desk(policy=self.policy, owner=self.owner, actor=actor, now=self.clock.now())


async def house(request: Request) -> House:
    """The process's own things, put there by `app.main`."""
    found: House = request.app.state.house
    return found


HouseDep = Annotated[House, Depends(house)]


def _actor(request: Request, here: House, scope: Scope) -> str:
    header = request.headers.get("authorization", "")
    kind, _, secret = header.partition(" ")
    if not header and scope is Scope.READ and here.settings.public_read:
        return "anyone"
    if kind.casefold() != "bearer" or not secret.strip():
        raise _unauthorized("This needs a token: send Authorization: Bearer TOKEN.")
    with reading(here.engine) as connection:
        token = ledger.token_by_hash(connection, hash_token(secret.strip()))
    now = here.clock.now()
    if token is None or token.revoked_at is not None:
        raise _unauthorized("The token is unknown or was revoked.")
    if token.expires_at is not None and token.expires_at <= now:
        raise _unauthorized("The token has expired.")
    # What anyone may do, the holder of any token may do.
    open_to_all = scope is Scope.READ and here.settings.public_read
    if not open_to_all and scope not in token.scopes and Scope.ADMIN not in token.scopes:
        raise HTTPException(403, f"The token has the scopes {', '.join(token.scopes)}; this needs {scope}.")
    return f"token:{token.id}:{token.name}"


def _unauthorized(detail: str) -> HTTPException:
    return HTTPException(401, detail, headers={"WWW-Authenticate": "Bearer"})


def reader(request: Request, here: HouseDep) -> str:
    """Who reads."""
    return _actor(request, here, Scope.READ)


def submitter(request: Request, here: HouseDep) -> str:
    """Who hands evidence in."""
    return _actor(request, here, Scope.SUBMIT)


def admin(request: Request, here: HouseDep) -> str:
    """Who runs the service."""
    return _actor(request, here, Scope.ADMIN)


ReaderDep = Annotated[str, Depends(reader)]
SubmitterDep = Annotated[str, Depends(submitter)]
AdminDep = Annotated[str, Depends(admin)]

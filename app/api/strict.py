"""Routes that read JSON strictly: our reader instead of the framework's, and no other media type."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from app.domain.errors import Refused
from app.formats.strict_json import strict_json


class UnreadableBody(HTTPException):
    """A refusal of the body, as the one kind of error that the framework lets through while it reads one."""

    def __init__(self, refusal: Refused) -> None:
        super().__init__(400, refusal.detail)
        self.refusal = refusal


class StrictRequest(Request):
    """A request whose JSON has no NaN, no duplicate keys and no depth without end."""

    async def json(self) -> Any:
        """The document in the body."""
        try:
            return await run_in_threadpool(strict_json, await self.body())
        except Refused as error:
            raise UnreadableBody(error) from error


class StrictRoute(APIRoute):
    """A route that takes its body as application/json only, read strictly, and no parameter that it does not know: a
    misspelt filter would else answer as if nothing had been asked."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's handler, given a strict request."""
        handle = super().get_route_handler()
        known = {parameter.alias for parameter in self.dependant.query_params}

        async def strictly(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
            if self.body_field is not None and "authorization" not in request.headers:
                # Before the body is read: nobody without a token makes us read megabytes.
                raise HTTPException(
                    401,
                    "This needs a token: send Authorization: Bearer TOKEN.",
                    headers={"WWW-Authenticate": "Bearer"},
                )
            if self.body_field is not None and kind != "application/json":
                raise HTTPException(415, "Send the body as application/json.")
            unknown = sorted(set(request.query_params) - known)
            if unknown:
                raise _unknown_parameters(unknown, sorted(known))
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly


def _unknown_parameters(unknown: list[str], known: list[str]) -> Refused:
    return Refused(
        f"There is no parameter {', '.join(unknown)[:200]}.",
        field=unknown[0],
        remedy=f"Use {', '.join(known)}." if known else "Leave it out: this takes no parameters.",
        code="unknown-parameter",
    )

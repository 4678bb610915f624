"""Routes that read JSON strictly: our reader instead of the framework's, and no other media type."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
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
            return strict_json(await self.body())
        except Refused as error:
            raise UnreadableBody(error) from error


class StrictRoute(APIRoute):
    """A route that takes its body as application/json only, read strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's handler, given a strict request."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
            if self.body_field is not None and kind != "application/json":
                raise HTTPException(415, "Send the body as application/json.")
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly

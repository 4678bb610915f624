"""The HTTP client of the command line: a server by address, or this machine's own database when none is
running."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from starlette.types import ASGIApp

TIMEOUT: Final = httpx2.Timeout(60.0, connect=5.0)


class Unreachable(Exception):
    """No server answers at the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server answered."""

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        """Whether it was done."""
        return 200 <= self.status < 300


def call(
    method: str,
    path: str,
    *,
    base_url: str,
    token: str | None,
    json: Any = None,
    params: dict[str, Any] | None = None,
    app: ASGIApp | None = None,
) -> Reply:
    """One request.

    Args:
        app: an application to ask instead of a server.

    Raises:
        Unreachable: nothing answers, or not in time.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app) if app is not None else None
        async with httpx2.AsyncClient(base_url=base_url, transport=transport, timeout=TIMEOUT) as client:
            return await client.request(method, path, json=json, params=params, headers=headers)

    try:
        response = asyncio.run(ask())
    except httpx2.TransportError as error:
        raise Unreachable(f"{base_url} does not answer: {error or type(error).__name__}") from error
    try:
        body = response.json()
    except ValueError:
        body = {"title": response.reason_phrase, "detail": response.text[:500]}
    return Reply(status=response.status_code, body=body)

"""Forms are taken from our own pages only.

Three independent checks: the browser's own word on where a request comes from (`Sec-Fetch-Site`, `Origin`),
a host name that we answer to (so that a name pointed at this machine cannot pose as us), and a token in the
form that equals the one in a `SameSite=Strict` cookie.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

COOKIE: Final = "assay_form"
FIELD: Final = "form_token"


def token_of(request: Request) -> str:
    """The token that this browser has, or a new one."""
    known = request.cookies.get(COOKIE, "")
    return known if len(known) == 43 else secrets.token_urlsafe(32)


def set_token(response: Response, request: Request, token: str) -> None:
    """Give the browser its token, unless it has it."""
    if request.cookies.get(COOKIE) == token:
        return
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, path="/")


def why_foreign(request: Request, token: str, hosts: Collection[str]) -> str | None:
    """Why a form cannot be taken, or `None` where it comes from our own page."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return "the browser says that it was sent from another site"
    host = request.headers.get("host", "")
    if hostname(host) not in hosts:
        return f"this server does not take forms under the name {hostname(host)[:80]!r}"
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.casefold() != host.casefold():
        return f"it comes from {origin[:80]!r}, not from here"
    known = request.cookies.get(COOKIE, "")
    if len(known) != 43 or not hmac.compare_digest(known.encode(), token.encode()):
        return "its token is not the one that this browser was given"
    return None


def hostname(host: str) -> str:
    """The name in a Host header, without port, in lower case; brackets of an IPv6 address stay."""
    name = host.casefold()
    if name.startswith("["):
        return name.split("]")[0] + "]"
    return name.split(":")[0]

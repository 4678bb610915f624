"""Forms are taken from our own pages only."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from app.web import csrf

TOKEN = "t" * 43
HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def request(**headers: str) -> Request:
    """A request with these headers; underscores stand for hyphens."""
    given = {"host": "127.0.0.1:8000", "cookie": f"{csrf.COOKIE}={TOKEN}"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    raw = [(name.encode(), value.encode()) for name, value in given.items() if value]
    return Request({"type": "http", "method": "POST", "path": "/submit", "headers": raw, "scheme": "http"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://127.0.0.1:8000"},
        {"origin": "http://127.0.0.1:8000", "sec_fetch_site": "same-origin"},
        {"host": "LOCALHOST:8000", "origin": "http://localhost:8000"},
        {"host": "[::1]:8000"},
    ],
)
def test_our_own_form_is_taken(headers: dict[str, str]) -> None:
    assert csrf.why_foreign(request(**headers), TOKEN, HOSTS) is None


@pytest.mark.parametrize(
    ("headers", "token", "why"),
    [
        ({"sec_fetch_site": "cross-site"}, TOKEN, "another site"),
        ({"sec_fetch_site": "same-site"}, TOKEN, "another site"),
        ({"origin": "http://evil.example"}, TOKEN, "not from here"),
        ({"origin": "http://127.0.0.1:9000"}, TOKEN, "not from here"),
        ({"origin": "null"}, TOKEN, "not from here"),
        ({"host": "evil.example:8000", "origin": "http://evil.example:8000"}, TOKEN, "under the name"),
        ({"host": ""}, TOKEN, "under the name"),
        ({}, "s" * 43, "its token"),
        ({}, "", "its token"),
        ({"cookie": ""}, TOKEN, "its token"),
        ({"cookie": f"{csrf.COOKIE}="}, "", "its token"),
        ({}, "ü" * 43, "its token"),
    ],
)
def test_a_foreign_form_is_not(headers: dict[str, str], token: str, why: str) -> None:
    found = csrf.why_foreign(request(**headers), token, HOSTS)
    assert found is not None
    assert why in found


def test_a_browser_keeps_its_token() -> None:
    assert csrf.token_of(request()) == TOKEN
    fresh = csrf.token_of(request(cookie=""))
    assert len(fresh) == 43
    assert fresh != csrf.token_of(request(cookie=""))

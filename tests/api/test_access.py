"""Who may do what: every route with the scope that it needs; one that is forgotten fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from starlette.testclient import TestClient

from app.domain.errors import NotFound, Refused
from app.main import create_app
from app.services.tokens import create_token, owner_token, revoke
from app.store.engine import reading, writing
from app.store.ledger import token_list
from tests.conftest import Api, MovingClock, api_over, house_over
from tests.services import documents

OPEN = None

SCOPES: dict[tuple[str, str], str | None] = {
    ("GET", "/api/v1/cases"): "read",
    ("POST", "/api/v1/cases"): "submit",
    ("POST", "/api/v1/cases/import"): "admin",
    ("GET", "/api/v1/cases/{slug}"): "read",
    ("GET", "/api/v1/cases/{slug}/evidence"): "read",
    ("POST", "/api/v1/cases/{slug}/evidence"): "submit",
    ("POST", "/api/v1/cases/{slug}/evidence/{number}/withdraw"): "admin",
    ("GET", "/api/v1/cases/{slug}/interpretations"): "read",
    ("GET", "/api/v1/cases/{slug}/decisions"): "read",
    ("GET", "/api/v1/cases/{slug}/prices"): "read",
    ("GET", "/api/v1/cases/{slug}/alerts"): "read",
    ("GET", "/api/v1/alerts"): "read",
    ("POST", "/api/v1/results"): "submit",
    ("POST", "/api/v1/results/validate"): "submit",
    ("GET", "/files/{sha256}"): "read",
    ("GET", "/api/v1/vocabulary"): OPEN,
    ("GET", "/schemas/result-1.json"): OPEN,
    ("GET", "/schemas/case-1.json"): OPEN,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
}
"""Every documented route. `None`: anyone."""

PAGES = {"/", "/cases/{slug}", "/alerts", "/submit", "/docs", "/openapi.json"}


@pytest.fixture
def closed(sqlite_engine: Engine, clock: MovingClock, tmp_path: Path) -> Api:
    """A house whose reading needs a token, with one case."""
    made = api_over(house_over(sqlite_engine, clock, tmp_path / "data", public_read=False))
    assert made.post("/api/v1/cases", documents.case()).status_code == 201
    assert made.post("/api/v1/results", documents.qualifying("a-case")).status_code == 201
    return made


def documented(api: Api) -> Iterator[tuple[str, str]]:
    for path, methods in api.client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            yield method.upper(), path


def filled(path: str) -> str:
    return path.format(slug="a-case", number=1, sha256="0" * 64)


def test_every_route_stands_in_the_table(closed: Api) -> None:
    assert set(documented(closed)) == set(SCOPES)


def test_pages_are_the_only_routes_outside_the_document(closed: Api) -> None:
    app: Any = closed.client.app
    found = {getattr(route, "path", "") for route in walk(app.routes)}
    assert found - {path for _, path in SCOPES} - {"/static"} <= PAGES | {""}


def walk(routes: Any) -> Iterator[Any]:
    for route in routes:
        inner = getattr(route, "routes", None)
        if inner and not hasattr(route, "path"):
            yield from walk(inner)
        else:
            yield route


def test_a_route_takes_the_scope_that_it_needs_and_no_other(closed: Api, subtests: pytest.Subtests) -> None:
    for (method, path), needed in SCOPES.items():
        for scope in ("read", "submit", "run", "admin", None):
            with subtests.test(f"{method} {path}", scope=scope):
                body = {"json": {}} if method == "POST" else {}
                check_scope(closed.call(method, filled(path), scope, **body), scope, needed)


def check_scope(answer: Any, scope: str | None, needed: str | None) -> None:
    if needed is None or scope in (needed, "admin"):
        assert answer.status_code not in (401, 403), answer.text
        return
    assert answer.status_code == (401 if scope is None else 403), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    if scope is None:
        assert answer.headers["www-authenticate"] == "Bearer"
    else:
        assert needed in answer.json()["detail"]
        assert scope in answer.json()["detail"]


@pytest.mark.parametrize("scope", ["read", "submit", "run", "admin", None])
def test_where_anyone_may_read_the_holder_of_any_token_may(sqlite_api: Api, scope: str | None) -> None:
    for (method, path), needed in SCOPES.items():
        if needed == "read":
            assert sqlite_api.call(method, filled(path), scope).status_code in (200, 404), path


def headers(value: str) -> dict[str, str]:
    return {"Authorization": value}


@pytest.mark.parametrize(
    "wrong",
    [
        "Basic dXNlcjpwYXNz",
        "Bearer",
        "Bearer ",
        "Bearer  ",
        "Token {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer assay_wrong",
        "Bearer \u00e9",
        "bearer{token}",
    ],
)
def test_a_token_that_is_not_known_is_refused_even_where_anyone_may_read(sqlite_api: Api, wrong: str) -> None:
    said = wrong.format(token=sqlite_api.tokens["admin"])
    before = documents.counts(sqlite_api.house.engine)
    for method, path in (("GET", "/api/v1/cases"), ("POST", "/api/v1/cases")):
        body = {"json": documents.case()} if method == "POST" else {}
        raw = {"Authorization": said.encode("latin-1").decode("latin-1")}
        answer = sqlite_api.client.request(
            method, path, headers=[(k, v.encode("latin-1")) for k, v in raw.items()], **body
        )
        assert answer.status_code == 401, answer.text
        assert answer.headers["www-authenticate"] == "Bearer"
    assert documents.counts(sqlite_api.house.engine) == before


def test_the_schemes_case_does_not_matter(sqlite_api: Api) -> None:
    for scheme in ("bearer", "BEARER", "Bearer"):
        said = headers(f"{scheme} {sqlite_api.tokens['admin']}")
        assert sqlite_api.client.get("/api/v1/cases", headers=said).status_code == 200


def test_tokens_expire_and_are_revoked(api: Api, clock: MovingClock) -> None:
    with writing(api.house.engine) as connection:
        soon = create_token(connection, "soon", ["submit"], clock.now(), clock.now() + timedelta(hours=1))
        other = create_token(connection, "other", ["submit", "submit", "read"], clock.now())
        number = token_list(connection)[-1].id

    def status(token: str) -> tuple[int, str]:
        answer = api.client.post("/api/v1/cases", json={}, headers=headers(f"Bearer {token}"))
        return answer.status_code, answer.json()["detail"]

    assert status(soon)[0] == status(other)[0] == 422
    clock.forward(minutes=59, seconds=59)
    assert status(soon)[0] == 422
    clock.forward(seconds=1)
    assert status(soon) == (401, "The token has expired.")
    with writing(api.house.engine) as connection:
        revoke(connection, number, clock.now())
    assert status(other)[0] == 401
    with pytest.raises(NotFound), writing(api.house.engine) as connection:
        revoke(connection, number, clock.now())


def test_only_a_hash_of_a_token_is_stored(api: Api) -> None:
    with reading(api.house.engine) as connection:
        kept = repr([*connection.exec_driver_sql("SELECT * FROM tokens"), *token_list(connection)])
    assert all(secret not in kept for secret in api.tokens.values())
    assert all(secret.removeprefix("assay_")[:20] not in kept for secret in api.tokens.values())


@pytest.mark.parametrize(
    ("name", "scopes", "days", "code"),
    [
        ("x", [], None, "unknown-scope"),
        ("x", ["read", "root"], None, "unknown-scope"),
        ("x", ["READ"], None, "unknown-scope"),
        ("x", ["read"], -1, "expired"),
        ("x", ["read"], 0, "expired"),
        ("", ["read"], None, "bad-name"),
        (" ", ["read"], None, "bad-name"),
        ("two\nlines", ["read"], None, "bad-name"),
        ("nul\x00", ["read"], None, "bad-name"),
        ("x" * 81, ["read"], None, "bad-name"),
    ],
)
def test_a_token_that_makes_no_sense_is_not_made(
    api: Api, clock: MovingClock, name: str, scopes: list[str], days: float | None, code: str
) -> None:
    expires = None if days is None else clock.now() + timedelta(days=days)
    before = documents.counts(api.house.engine)
    with pytest.raises(Refused) as refused, writing(api.house.engine) as connection:
        create_token(connection, name, scopes, clock.now(), expires)
    assert refused.value.code == code
    assert documents.counts(api.house.engine) == before


def test_the_longest_name_of_a_token_can_still_hand_evidence_in(api: Api, clock: MovingClock) -> None:
    """The actor of an entry is the token's number and name: on PostgreSQL a longer one was an error of the service."""
    with writing(api.house.engine) as connection:
        token = create_token(connection, "ü" * 80, ["submit"], clock.now())
    said = headers(f"Bearer {token}") | {"Idempotency-Key": "k" * 200}
    assert api.client.post("/api/v1/cases", json=documents.case(), headers=said).status_code == 201
    assert api.client.post("/api/v1/results", json=documents.result(), headers=said).status_code == 201


def test_the_owners_token_is_kept_as_long_as_it_is_valid(sqlite_api: Api, tmp_path: Path) -> None:
    path = tmp_path / "sub" / "token"
    now = sqlite_api.house.clock.now()
    with writing(sqlite_api.house.engine) as connection:
        first = owner_token(connection, path, now)
        assert owner_token(connection, path, now) == first
        revoke(connection, token_list(connection)[-1].id, now)
        second = owner_token(connection, path, now)
    assert second != first
    assert path.read_text().strip() == second
    assert path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in path.parent.iterdir()] == ["token"], "a temporary file was left behind"


def test_pages_of_a_house_that_is_closed_are_shown_on_its_own_machine_only(closed: Api) -> None:
    far = TestClient(create_app(closed.house), client=("203.0.113.9", 50000))
    for path in ("/", "/cases/a-case", "/alerts", "/submit"):
        assert closed.client.get(path, headers={"host": "localhost"}).status_code == 200, path
        rebound = closed.client.get(path, headers={"host": "evil.example:8000", "accept": "text/html"})
        assert rebound.status_code == 403, path
        hidden = far.get(path, headers={"accept": "text/html"})
        assert hidden.status_code == 403, path
        assert "Title of a-case" not in hidden.text
        assert "ASSAY_PUBLIC_READ" in hidden.text


def test_pages_of_an_open_house_are_shown_to_anyone(sqlite_api: Api) -> None:
    sqlite_api.post("/api/v1/cases", documents.case())
    far = TestClient(create_app(sqlite_api.house), client=("203.0.113.9", 50000))
    for path in ("/", "/cases/a-case", "/alerts", "/submit"):
        assert far.get(path).status_code == 200, path


def test_raw_files_are_downloads_and_never_pages(closed: Api) -> None:
    item = closed.get("/api/v1/cases/a-case/evidence").json()["items"][0]["evidence"]
    attachment = item["arms"][0]["attachments"][0]
    answer = closed.get(f"/files/{attachment['sha256']}")
    assert (answer.status_code, len(answer.content)) == (200, attachment["size"])
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert closed.get(f"/files/{'0' * 64}").status_code == 404
    assert closed.get("/files/..%2f..%2fetc%2fpasswd").status_code in (404, 422)

"""RFC 9457 problem details for every error, and the strict reading of JSON bodies."""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.strict import UnreadableBody
from app.domain.errors import Busy, Conflict, NotFound, Refused
from app.formats.native import ResultIn
from app.formats.wire import refused_by

MEDIA_TYPE: Final = "application/problem+json"


class FieldProblem(BaseModel):
    """One field that cannot be taken."""

    field: str
    detail: str
    value: str | None = None
    remedy: str
    code: str


class Problem(BaseModel):
    """RFC 9457 problem details. `remedy` says what to do; `errors` lists every field that is wrong."""

    type: str = Field(description="Relative reference that names the kind of problem.")
    title: str
    status: int
    detail: str
    remedy: str | None = None
    errors: list[FieldProblem] = []


TITLES: Final = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "The token does not allow this",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict with what is recorded",
    413: "The body is too large",
    415: "Unsupported media type",
    422: "The request cannot be taken",
    500: "An error of the service",
    503: "The service is busy",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for these statuses."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": TITLES[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    remedy: str | None = None,
    errors: tuple[Refused, ...] = (),
    headers: dict[str, str] | None = None,
) -> Response:
    """A problem document as a response."""
    body = Problem(
        type=f"/problems/{code}",
        title=TITLES.get(status, "The request failed"),
        status=status,
        detail=detail,
        remedy=remedy,
        errors=[
            FieldProblem(
                field=error.field,
                detail=error.detail,
                value=error.value,
                remedy=error.remedy,
                code=error.code,
            )
            for error in errors
        ],
    )
    content = json.dumps(body.model_dump(exclude_none=True), ensure_ascii=True)
    return Response(content, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def told(error: Exception) -> tuple[int, str, str, str | None]:
    """Status, title, detail and remedy of an error, for a page."""
    body = json.loads(bytes(from_error(error).body))
    return body["status"], body["title"], body["detail"], body.get("remedy")


def from_error(error: Exception) -> Response:
    """The problem that an error of ours is told as."""
    match error:
        case Refused():
            status = 400 if error.code in UNREADABLE else 422
            return problem(
                status, error.code, error.detail, remedy=error.remedy, errors=(error, *error.others)
            )
        case NotFound():
            return problem(
                404, "not-found", str(error), remedy="Check the name; GET /api/v1/cases lists cases."
            )
        case Conflict():
            return problem(409, error.code, error.detail, remedy=error.remedy)
        case RequestValidationError():
            refusal = refused_by(error.errors(), skip=1)
            return from_error(refusal)
        case UnreadableBody():
            return from_error(error.refusal)
        case HTTPException():
            headers = dict(error.headers) if error.headers else None
            return problem(error.status_code, f"http-{error.status_code}", str(error.detail), headers=headers)
        case Busy():
            return problem(
                503,
                "busy",
                "The database did not answer in time.",
                remedy="Try again.",
                headers={"Retry-After": "2"},
            )
        case _:
            return problem(
                500, "internal", "The service failed; nothing was stored.", remedy="Try again later."
            )


UNREADABLE: Final = frozenset(
    {"not-json", "not-finite", "duplicate-key", "too-deep", "number-too-large", "bad-text", "not-multipart"}
)
"""Refusals of a body that cannot be read at all: 400 rather than 422."""

HANDLED: Final = (Refused, NotFound, Conflict, RequestValidationError, HTTPException, Busy)


def add_openapi_problem(app: FastAPI) -> None:
    """Register the schemas that routes name by hand, and drop FastAPI's own of validation errors, which is never
    answered."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        document = build()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        if "Problem" not in schemas:
            for model in (Problem, ResultIn):
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= schema.pop("$defs", {})
                schemas[model.__name__] = schema
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            _name_the_token(document)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _name_the_token(document: dict[str, Any]) -> None:
    """Say which operations take a token: those that can answer 401. Reading may be open to all."""
    scheme = {"type": "http", "scheme": "bearer", "description": "A token from `assay token create`."}
    document["components"]["securitySchemes"] = {"token": scheme}
    for path in document["paths"].values():
        for method, operation in path.items():
            if "401" in operation.get("responses", {}):
                operation["security"] = [{}, {"token": []}] if method == "get" else [{"token": []}]


class BodyLimit:
    """Refuses bodies over a limit, whether or not they announce their length."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self.max_bytes:
            await self._refuse(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise self._too_large()
            return message

        await self.app(scope, counted, send)

    def _too_large(self) -> HTTPException:
        words = f"The body is larger than {self.max_bytes / 1e6:g} MB. Send fewer files at once, or ask the operator"
        return HTTPException(413, f"{words} to raise ASSAY_MAX_BODY_MB.", headers={"Connection": "close"})

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        await from_error(self._too_large())(scope, receive, send)

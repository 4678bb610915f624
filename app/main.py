"""Builds the ASGI application: the one place where everything is put together."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from sqlalchemy import select, text

from app.api.extras import router as extras
from app.api.problems import HANDLED, BodyLimit, add_openapi_problem, from_error, told
from app.api.routes import router as api
from app.clock import Clock
from app.deps import House
from app.formats.case_file import CaseFile
from app.formats.strict_json import strict_json
from app.formats.wire import read_document
from app.seed import seed_files
from app.services.opening import open_case
from app.services.policy_file import load_policy
from app.services.tokens import owner_token
from app.settings import Settings
from app.store.engine import alone, make_engine, reading, writing
from app.store.migrate import migrate, newest_revision
from app.store.tables import cases
from app.web import pages
from app.web.render import HEADERS as PAGE_HEADERS
from workers import schedule

log = logging.getLogger("assay")


def build_house(
    settings: Settings, clock: Clock | None = None, tell: Callable[[str], None] = log.info
) -> House:
    """Open the database and bring it to the newest schema, load the seed case into an empty one, and see to
    the owner's token. `tell` hears what was done.

    Raises:
        Refused: the policy file cannot be taken.
    """
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    here = House(
        engine=make_engine(settings.database),
        clock=clock or Clock(),
        policy=load_policy(settings.policy_file),
        settings=settings,
    )
    if migrate(here.engine):
        tell(f"The database was brought to revision {newest_revision()}.")
    desk = here.desk("assay")
    with writing(here.engine) as connection:
        alone(connection)
        owner_token(connection, settings.token_file, desk.now)
        if connection.execute(select(cases.c.id).limit(1)).first() is None:
            for file in seed_files():
                opened = open_case(connection, read_document(CaseFile, strict_json(file.read_bytes())), desk)
                tell(f"Loaded the case {opened['case']}.")
    return here


def create_app(here: House, *, scheduled: bool = False) -> FastAPI:
    """The application over a house that stands."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        scheduler = schedule.start(here.engine, lambda: here.desk("schedule")) if scheduled else None
        yield
        if scheduler is not None:
            scheduler.shutdown(wait=True)

    app = FastAPI(
        title="Assay",
        version=version("assay"),
        summary="Follows published inference-performance claims and says whether they hold end to end.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.house = here
    app.add_middleware(BodyLimit, max_bytes=here.settings.max_body_mb * 1_000_000)
    app.include_router(api)
    app.include_router(extras)
    app.include_router(health)
    _add_pages(app)
    for kind in HANDLED:
        app.add_exception_handler(kind, _answer_error)
    app.add_exception_handler(Exception, _answer_error)
    add_openapi_problem(app)
    return app


def _add_pages(app: FastAPI) -> None:
    app.include_router(pages.router)
    app.add_api_route("/docs", _docs_page, include_in_schema=False)
    app.mount("/static", StaticFiles(packages=[("app.web", "static")]), name="static")


def _docs_page() -> Response:
    """The API's description, drawn by a vendored Swagger UI: no request leaves for elsewhere."""
    page = files("app.web") / "templates" / "docs.html"
    policy = (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
    )
    return HTMLResponse(
        page.read_text(encoding="utf-8"), headers={**PAGE_HEADERS, "Content-Security-Policy": policy}
    )


def _answer_error(request: Request, error: Exception) -> Response:
    """Problem details for programs, a page for people."""
    if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
        return from_error(error)
    here: House = request.app.state.house
    status, title, detail, remedy = told(error)
    return pages.error_page(status, title, detail, remedy or "", now=here.clock.now(), whom=here.owner)


health = APIRouter(tags=["operators"])


@health.get("/healthz", response_class=PlainTextResponse)
async def healthz() -> str:
    """Whether the process answers at all."""
    return "ok\n"


@health.get(
    "/readyz",
    response_class=PlainTextResponse,
    responses={503: {"description": "The database does not answer."}},
)
def readyz(request: Request) -> Response:
    """Whether the database answers too."""
    here: House = request.app.state.house
    try:
        with reading(here.engine) as connection:
            connection.execute(text("SELECT 1"))
    except Exception:
        log.exception("not ready")
        return PlainTextResponse("the database does not answer\n", status_code=503)
    return PlainTextResponse("ready\n")

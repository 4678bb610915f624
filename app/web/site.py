"""Everything of the web in one call, for the composition root."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.requests import Request
from starlette.staticfiles import StaticFiles

from app.web import pages, submit_pages
from app.web.render import STATIC


def install(app: FastAPI) -> None:
    """Add pages and static files to an app."""
    app.include_router(pages.router)
    app.include_router(submit_pages.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def wants_page(request: Request) -> bool:
    """Whether an error should be answered with a page: a browser asks for one, and not under the API."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")

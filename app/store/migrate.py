"""Bringing a database to the newest schema."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from app.store.engine import reading, writing

MIGRATIONS: Final = Path(__file__).resolve().parents[2] / "migrations"
LOCK_KEY: Final = 7_316_204_511
"""Advisory lock under which PostgreSQL servers that start together migrate one after the other."""


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    if connection is not None:
        config.attributes["connection"] = connection
    return config


def newest_revision() -> str:
    """The newest revision that this program knows."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def current_revision(engine: Engine) -> str | None:
    """The revision that a database stands at; `None` when it is empty."""
    with reading(engine) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def migrate(engine: Engine) -> bool:
    """Bring the database to the newest revision; whether anything was to do.

    Raises:
        RuntimeError: the database was written by a newer program.
    """
    current, newest = current_revision(engine), newest_revision()
    if current == newest:
        return False
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if current is not None and current not in known:
        raise RuntimeError(
            f"The database stands at revision {current}, which this program does not know: it was written by a "
            "newer one. Start that one, or give another database."
        )
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL lock_timeout = '30s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
        command.upgrade(_config(connection), "head")
    return True

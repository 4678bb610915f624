"""Bringing a database to the newest schema."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from app.domain.errors import AssayError
from app.store.engine import alone, reading, writing

MIGRATIONS: Final = Path(__file__).resolve().parents[2] / "migrations"


class OtherSchema(AssayError):
    """The database is not at the schema that this program works with."""


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
        OtherSchema: the database was written by a newer program.
    """
    current, newest = current_revision(engine), newest_revision()
    if current == newest:
        return False
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if current is not None and current not in known:
        raise OtherSchema(
            f"The database stands at revision {current}, which this program does not know: it was written by a "
            "newer one. Start that one, or give another database."
        )
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL lock_timeout = '30s'"))
        alone(connection)
        command.upgrade(_config(connection), "head")
    return True


def require_newest(engine: Engine) -> None:
    """Make sure that a database can be read as it stands, without creating or changing one.

    Raises:
        OtherSchema: it is not there, or at another revision.
    """
    shown = engine.url.render_as_string(hide_password=True)
    file = engine.url.database if engine.dialect.name == "sqlite" else None
    if file and file != ":memory:" and not Path(file).exists():
        raise OtherSchema(f"There is no database {shown}. Start `assay serve` once, or give another one.")
    current = current_revision(engine)
    if current != newest_revision():
        raise OtherSchema(
            f"The database {shown} stands at revision {current}, this program works with {newest_revision()}. "
            "Start `assay serve`: it migrates."
        )

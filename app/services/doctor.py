"""What is missing or misconfigured, with the remedy."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from app.domain.errors import Busy, Refused
from app.services.policy_file import load_policy
from app.services.tokens import hash_token
from app.settings import Settings
from app.store import ledger
from app.store.engine import make_engine, reading
from app.store.migrate import current_revision, newest_revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at. `remedy` says what to do where it is not fine."""

    what: str
    fine: bool
    found: str
    remedy: str | None = None


def examine(settings: Settings) -> list[Finding]:
    """Look at everything that serving needs."""
    return [_data_dir(settings), _sqlite(), _policy(settings), *_database(settings), _token_file(settings)]


def _data_dir(settings: Settings) -> Finding:
    path = settings.data_dir
    if not path.exists():
        return Finding(
            what="data directory",
            fine=False,
            found=f"{path} is not there",
            remedy="Start `assay serve` once.",
        )
    probe = path / ".probe"
    try:
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        remedy = "Make it writable, or point ASSAY_DATA elsewhere."
        return Finding(what="data directory", fine=False, found=f"{path}: {error.strerror}", remedy=remedy)
    return Finding(what="data directory", fine=True, found=str(path))


def _sqlite() -> Finding:
    connection = sqlite3.connect(":memory:")
    options = {row[0] for row in connection.execute("PRAGMA compile_options")}
    connection.close()
    if "ENABLE_FTS5" not in options or sqlite3.sqlite_version_info < (3, 35):
        remedy = "Use a Python whose SQLite is at least 3.35 and has FTS5, or PostgreSQL."
        return Finding(
            what="SQLite",
            fine=False,
            found=f"{sqlite3.sqlite_version} lacks FTS5 or is too old",
            remedy=remedy,
        )
    return Finding(what="SQLite", fine=True, found=f"{sqlite3.sqlite_version} with FTS5")


def _policy(settings: Settings) -> Finding:
    try:
        policy = load_policy(settings.policy_file)
    except Refused as error:
        return Finding(what="policy", fine=False, found=f"{error.field}: {error.detail}", remedy=error.remedy)
    source = settings.policy_file if settings.policy_file.exists() else "the defaults"
    return Finding(what="policy", fine=True, found=f"version {policy.version} from {source}")


def _database(settings: Settings) -> Iterator[Finding]:
    if settings.database_url is None and not (settings.data_dir / "assay.sqlite3").exists():
        yield Finding(
            what="database",
            fine=False,
            found="the embedded one is not there",
            remedy="Start `assay serve` once.",
        )
        return
    try:
        engine = make_engine(settings.database)
        with reading(engine) as connection:
            connection.execute(text("SELECT 1"))
    except (Busy, Refused, SQLAlchemyError, OSError) as error:
        found = str(error).splitlines()[0]
        yield Finding(
            what="database", fine=False, found=found, remedy="Check ASSAY_DATABASE_URL and that it runs."
        )
        return
    yield Finding(what="database", fine=True, found=engine.url.render_as_string(hide_password=True))
    yield _schema(engine)


def _schema(engine: Engine) -> Finding:
    current, newest = current_revision(engine), newest_revision()
    if current != newest:
        remedy = "Start `assay serve`: it migrates."
        return Finding(what="schema", fine=False, found=f"{current}, newest is {newest}", remedy=remedy)
    return Finding(what="schema", fine=True, found=f"revision {current}")


def _token_file(settings: Settings) -> Finding:
    path = settings.token_file
    if not path.exists():
        remedy = "Start `assay serve` once, or set ASSAY_TOKEN."
        return Finding(what="owner's token", fine=False, found=f"{path} is not there", remedy=remedy)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Finding(
            what="owner's token",
            fine=False,
            found=f"{path} can be read by others",
            remedy=f"chmod 600 {path}, then revoke it and restart if others may have read it.",
        )
    return _token_known(settings)


def _token_known(settings: Settings) -> Finding:
    secret = settings.token_file.read_text(encoding="utf-8").strip()
    try:
        with reading(make_engine(settings.database)) as connection:
            token = ledger.token_by_hash(connection, hash_token(secret))
    except (Busy, Refused, SQLAlchemyError):
        token = None
    if token is None or token.revoked_at is not None:
        remedy = "Restart `assay serve`: it makes a new one."
        return Finding(what="owner's token", fine=False, found="the database does not know it", remedy=remedy)
    return Finding(what="owner's token", fine=True, found=str(settings.token_file))

"""The schema: what the migrations make is what the tables say, on both databases; starting together, starting
newer."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, select, text
from sqlalchemy.engine import make_url

from app.main import build_house
from app.settings import Settings
from app.store.engine import make_engine, reading, writing
from app.store.migrate import OtherSchema, current_revision, migrate, newest_revision, require_newest
from app.store.tables import APPEND_ONLY, cases, metadata, tokens
from tests.services import documents


def test_migrated_schema_and_tables_do_not_drift(engine: Engine) -> None:
    with engine.connect() as connection:
        options = {
            "compare_type": True,
            "compare_server_default": True,
            "include_name": lambda name, kind, _: kind != "table" or not str(name).startswith("case_search"),
        }
        found = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    assert found == []


def test_constraints_are_those_of_the_tables(engine: Engine) -> None:
    """Autogeneration does not compare CHECKs: an unknown word must be refused by the migrated database too."""
    found = inspect(engine)
    for table in metadata.sorted_tables:
        wanted = {str(item.name) for item in table.constraints if type(item).__name__ == "CheckConstraint"}
        assert {str(item["name"]) for item in found.get_check_constraints(table.name)} == wanted, table.name


def test_every_append_only_table_has_its_triggers(engine: Engine) -> None:
    if engine.dialect.name == "sqlite":
        query, each = "SELECT tbl_name FROM sqlite_master WHERE type = 'trigger'", 3
    else:
        query, each = "SELECT tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal", 2
    with reading(engine) as connection:
        named = list(connection.execute(text(query)).scalars())
    assert {name: named.count(name) for name in named} == dict.fromkeys(APPEND_ONLY, each)


def test_a_second_migration_changes_nothing(engine: Engine) -> None:
    before = documents.counts(engine)
    assert migrate(engine) is False
    assert current_revision(engine) == newest_revision()
    assert documents.counts(engine) == before


def test_a_database_of_a_newer_program_is_refused(engine: Engine) -> None:
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for check in (migrate, require_newest):
        with pytest.raises(OtherSchema, match="9999"):
            check(engine)
    assert current_revision(engine) == "9999"


def test_looking_at_a_database_that_is_not_there_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "typo.sqlite3"
    engine = make_engine(f"sqlite:///{path}")
    with pytest.raises(OtherSchema, match="There is no database"):
        require_newest(engine)
    assert not path.exists()


START = """
import sys
from pathlib import Path
from app.main import build_house
from app.settings import Settings
sys.stdin.readline()
build_house(Settings(data=Path(sys.argv[1]), database_url=sys.argv[2]), tell=print)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_servers_that_start_together_migrate_once_and_load_the_seed_once(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """Processes of their own, let go at one moment, over a database that is not there yet."""
    url = f"sqlite:///{tmp_path / 'assay.sqlite3'}"
    if kind == "postgresql":
        base = make_url(request.getfixturevalue("postgres"))
        name = f"together_{tmp_path.name.replace('-', '_')}".lower()[:60]
        admin = make_engine(base.render_as_string(hide_password=False))
        with admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f'CREATE DATABASE "{name}"'))
        admin.dispose()
        url = base.set(database=name).render_as_string(hide_password=False)
    servers = [
        subprocess.Popen(
            [sys.executable, "-c", START, str(tmp_path), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=documents.ROOT,
        )
        for _ in range(3)
    ]
    said = [server.communicate("go\n", timeout=60) for server in servers]
    assert [server.returncode for server in servers] == [0, 0, 0], said
    assert sum(out.count("Loaded the case") for out, _ in said) == 1
    engine = make_engine(url)
    with reading(engine) as connection:
        assert list(connection.execute(select(cases.c.slug)).scalars()) == [documents.SEED]
        assert len(connection.execute(select(tokens.c.id)).all()) >= 1
    engine.dispose()


def test_a_start_in_the_same_process_migrates_once(tmp_path: Path) -> None:
    """Threads: one engine each, one barrier."""
    barrier = Barrier(4)

    def start(_: int) -> str:
        barrier.wait()
        here = build_house(Settings(data=tmp_path))
        with reading(here.engine) as connection:
            found = ",".join(connection.execute(select(cases.c.slug)).scalars())
        here.engine.dispose()
        return found

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(start, range(4))) == {documents.SEED}


def test_a_start_that_was_killed_while_writing_its_token_does_not_stop_the_next(tmp_path: Path) -> None:
    (tmp_path / f"token.{1}").write_text("half")
    (tmp_path / "token").write_text("not a token\n")
    here = build_house(Settings(data=tmp_path))
    here.engine.dispose()
    token = (tmp_path / "token").read_text()
    assert token.startswith("assay_")
    assert (tmp_path / "token").stat().st_mode & 0o077 == 0

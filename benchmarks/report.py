"""Where a measurement was made, its spread, and its file."""

from __future__ import annotations

import json
import math
import platform
import re
import shlex
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results"


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, 90th percentile (nearest rank), least and greatest."""
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "p90": ordered[math.ceil(0.9 * len(ordered)) - 1],
        "min": ordered[0],
        "max": ordered[-1],
        "n": len(ordered),
    }


def machine() -> dict[str, Any]:
    """Processor, cores, memory and system."""
    cpu = _first(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo") or platform.processor()
    memory = _first(r"^MemTotal:\s*(\d+) kB$", "/proc/meminfo")
    cores = _first(r"^siblings\s*:\s*(\d+)$", "/proc/cpuinfo")
    return {
        "cpu": cpu,
        "cores": int(cores) if cores else None,
        "memory_gb": round(int(memory) * 1024 / 1e9, 1) if memory else None,
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
    }


def _first(pattern: str, path: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return found[1].strip() if found else None


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, SQLite and packages."""
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    return found | {package: version(package) for package in packages}


def commit() -> str:
    """The commit measured; `+changes` when the work tree differs from it."""
    head = _git("rev-parse", "HEAD")
    return f"{head}+changes" if _git("status", "--porcelain", "--", "app", "workers", "migrations") else head


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def save(name: str, figures: dict[str, Any], packages: dict[str, str]) -> Path:
    """Write a result file: the figures, and how they came about."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    module = Path(sys.argv[0]).stem
    # Where things lie on this machine is nobody's business.
    words = ["PATH" if Path(word).is_absolute() else word for word in sys.argv[1:]]
    document = {
        "command": shlex.join(["python", "-m", f"benchmarks.{module}", *words]),
        "commit": commit(),
        "machine": machine(),
        "versions": packages,
        **figures,
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A plain-text table, its first column to the left and the others to the right."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for row in cells:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([row[0].ljust(len(first)), *others]))
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)

"""Documents that tests hand in, and the row counts that show what was stored."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select, text

from app.store.engine import reading
from app.store.tables import metadata

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SEED = "nvfp4-blockscaled-gemm-rtx-pro-6000"
SLUG = "vllm-quantization-throughput"
FILES = ROOT / "tests" / "formats" / "files"

CONFIG = {"model.name": "a/model", "hardware.gpu": "H100", "engine.name": "vLLM", "engine.version": "0.11.0"}


def case(slug: str = "a-case", **changes: Any) -> dict[str, Any]:
    """A small case about the weights' format, settled at serving level."""
    claim: dict[str, Any] = {
        "sentence": "Quantizing the weights raises output throughput by at least 10 %.",
        "factor": ["weights.format"],
        "metric": "output_throughput",
    }
    return {"slug": slug, "title": f"Title of {slug}", "claim": claim | changes.pop("claim", {})} | changes


def imported(slug: str = SLUG) -> dict[str, Any]:
    """The case file of the examples."""
    document: dict[str, Any] = json.loads((EXAMPLES / f"{SLUG}.json").read_text(encoding="utf-8"))
    return document | {"slug": slug}


def metric(
    *values: Any, name: str = "output_throughput", unit: str = "token/s", **more: Any
) -> dict[str, Any]:
    """One metric of an arm."""
    return {"name": name, "unit": unit, "values": list(values), **more}


def arm(role: str, *values: Any, config: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """An arm that states its throughput."""
    weights = "bf16" if role == "baseline" else "nvfp4"
    told = CONFIG | {"weights.format": weights} | (config or {})
    return {"role": role, "config": told, "metrics": [metric(*values)] if values else []} | changes


def result(
    slug: str = "a-case", *, ratio: float = 1.3, base: float = 1000.0, **changes: Any
) -> dict[str, Any]:
    """A result that states one figure an arm: pooled, but far from qualifying."""
    arms = [arm("baseline", base), arm("treatment", base * ratio)]
    return {"case": slug, "arms": arms} | changes


def source(title: str = "A post", **changes: Any) -> dict[str, Any]:
    """A source that states a ratio at kernel level."""
    return {
        "title": title,
        "url": f"https://example.org/{title.replace(' ', '-')}",
        "level": "kernel",
        "reported": [{"metric": "gemm_throughput", "low": 1.29, "high": 1.40}],
    } | changes


def qualifying(slug: str = SLUG, *, speedup: float = 1.0, mark: str = "") -> dict[str, Any]:
    """The example that meets all eight criteria, its treatment's throughput multiplied by `speedup`.

    `mark` makes it another publication of the same kind.
    """
    document: dict[str, Any] = json.loads((EXAMPLES / "qualifying-result.json").read_text(encoding="utf-8"))
    document["case"] = slug
    document["command"] += mark
    for index, file in enumerate(document["arms"][1]["files"]):
        file["content_base64"] = encoded(faster(decoded(file), speedup * (1 + 1e-4 * index * bool(mark))))
    return document


def faster(run: dict[str, Any], by: float) -> dict[str, Any]:
    """The same inference-perf stage with everything done in less time."""
    made = copy.deepcopy(run)
    made["benchmark_time_seconds"] = run["benchmark_time_seconds"] / by
    made["load_summary"]["send_duration"] = run["load_summary"]["send_duration"] / by
    made["load_summary"]["achieved_rate"] = run["load_summary"]["achieved_rate"] * by
    throughput = made["successes"]["throughput"]
    made["successes"]["throughput"] = {name: value * by for name, value in throughput.items()}
    for name, spread in made["successes"]["latency"].items():
        made["successes"]["latency"][name] = {part: value / by for part, value in spread.items()}
    return made


def decoded(file: dict[str, Any]) -> dict[str, Any]:
    """What a file of a result holds."""
    held: dict[str, Any] = json.loads(base64.b64decode(file["content_base64"]))
    return held


def encoded(value: Any) -> str:
    """A value as the base64 of its JSON."""
    return base64.b64encode(json.dumps(value).encode()).decode()


def stage(*, rate: float, tokens: float, requested: float = 200.0) -> dict[str, Any]:
    """An inference-perf stage with its own achieved rate and output throughput, cut down from a real one."""
    run: dict[str, Any] = json.loads((FILES / "stage_6_lifecycle_metrics.json").read_text(encoding="utf-8"))
    run["load_summary"] |= {"requested_rate": requested, "achieved_rate": rate}
    run["successes"]["throughput"] |= {
        "output_tokens_per_sec": tokens,
        "total_tokens_per_sec": 25000.0 + tokens,
    }
    return run


def counts(engine: Engine) -> dict[str, int]:
    """Rows of every table, the search index included."""
    with reading(engine) as connection:
        found = {
            table.name: int(connection.execute(select(func.count()).select_from(table)).scalar_one())
            for table in metadata.sorted_tables
        }
        index = "case_search_docsize" if connection.dialect.name == "sqlite" else "case_search"
        return found | {"case_search": connection.execute(text(f"SELECT count(*) FROM {index}")).scalar_one()}

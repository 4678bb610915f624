"""What is sent: a case about quantization, and results as a benchmark on a serving engine would hand them in."""

from __future__ import annotations

import random
from typing import Any, Final

METRICS: Final = (
    ("output_throughput", "token/s", None, 6400.0, 1.4),
    ("total_token_throughput", "token/s", None, 19000.0, 1.4),
    ("request_throughput", "1/s", None, 12.0, 1.4),
    ("ttft", "s", "median", 0.21, 0.8),
    ("ttft", "s", "p99", 0.9, 0.85),
    ("tpot", "s", "median", 0.011, 0.75),
    ("tpot", "s", "p99", 0.02, 0.8),
    ("itl", "s", "median", 0.0105, 0.75),
    ("e2e_latency", "s", "median", 5.1, 0.75),
    ("energy_per_output_token", "J", None, 0.09, 0.7),
)
"""Metric, unit, statistic, baseline, and treatment over baseline."""

CONFIG: Final[dict[str, Any]] = {
    "model.name": "Qwen/Qwen3-32B",
    "model.revision": "9216db5781bf21249d130ec9da846c4624c16137",
    "hardware.gpu": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "hardware.gpu_count": 1,
    "hardware.driver": "580.95.05",
    "hardware.power_limit_w": 600,
    "engine.name": "vllm",
    "engine.version": "0.11.2",
    "engine.max_num_seqs": 256,
    "engine.max_num_batched_tokens": 8192,
    "engine.max_model_len": 32768,
    "engine.prefix_caching": False,
    "engine.chunked_prefill": True,
    "engine.gpu_memory_utilization": 0.9,
    "engine.tensor_parallel": 1,
    "load.arrival": "poisson",
    "load.input_length": 2048,
    "load.output_length": 512,
    "load.dataset": "sharegpt-v3",
}
"""Nineteen fields; each arm adds the format of its weights."""


def case(slug: str, number: int = 0) -> dict[str, Any]:
    """A case document."""
    return {
        "slug": slug,
        "title": f"Four-bit weights raise serving throughput on one GPU ({number})",
        "summary": "A vendor states that four-bit weights raise output throughput of a 32 B model by 29 to 40 %.",
        "why_it_matters": "It would change which cards are bought next quarter.",
        "tags": ["quantization", "serving"],
        "entities": ["vllm", "qwen3-32b"],
        "claim": {
            "sentence": "Serving with four-bit weights gives at least 29 % more output tokens a second.",
            "factor": ["weights.format"],
            "metric": "output_throughput",
            "settles_at": "serving",
            "delta": 0.1,
            "horizon_hours": 48,
            "claimants": ["Vendor"],
            "effects": [
                {
                    "metric": "output_throughput",
                    "low": 1.29,
                    "high": 1.40,
                    "unit": "ratio",
                    "level": "serving",
                    "treatment": "nvfp4",
                }
            ],
        },
    }


def source(number: int) -> dict[str, Any]:
    """A source that states a figure."""
    return {
        "kind": "source",
        "title": f"Report {number} on four-bit serving",
        "url": f"https://press-{number % 50}.example.org/reports/{number}",
        "publisher": {"name": f"Press {number % 50}"},
        "published_at": "2026-02-01T12:00:00Z",
        "quote": "On our cards four-bit weights gave 29 to 40 percent more output tokens a second. " * 4,
        "summary": "Repeats the vendor's figure, with a table of three models and no raw files. " * 4,
        "level": "serving",
        "reported": [{"metric": "output_throughput", "low": 1.29, "high": 1.4}],
    }


def result(slug: str, number: int, metrics: int = len(METRICS)) -> dict[str, Any]:
    """Result number `number` on a case: two arms, twenty config fields and ten metrics each, one value a
    metric."""
    noise = random.Random(number)
    formats = {"baseline": "bf16", "treatment": "nvfp4"}
    return {
        "case": slug,
        "format": "assay",
        "level": "serving",
        "factor": ["weights.format"],
        "publisher": {"name": f"Lab {number % 50}", "url": f"https://lab-{number % 50}.example.org"},
        "measured_at": "2026-02-03T12:00:00Z",
        "source_url": f"https://lab-{number % 50}.example.org/runs/{number}",
        "command": "vllm bench serve --model Qwen/Qwen3-32B --request-rate 12 --num-prompts 1000",
        "arms": [
            {
                "role": role,
                "config": {**CONFIG, "weights.format": kind},
                "metrics": [
                    {
                        "name": name,
                        "unit": unit,
                        "values": [base * (ratio if role == "treatment" else 1.0) * noise.gauss(1.0, 0.03)],
                        **({"statistic": statistic} if statistic else {}),
                    }
                    for name, unit, statistic, base, ratio in METRICS[:metrics]
                ],
            }
            for role, kind in formats.items()
        ],
    }

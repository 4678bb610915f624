"""A small case with an earlier life and evidence of every kind, for tests of the pages."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from app.clock import Clock
from app.formats.case_file import CaseFile
from app.formats.native import ResultIn

NOW = datetime(2026, 9, 1, 2, 30, tzinfo=UTC)
SLUG = "fast-kernel-claim"
HOSTILE = '<script>alert("x")</script>'


def case_document(**changes: Any) -> dict[str, Any]:
    """The case, as a file."""
    return {
        "format": "assay-case-1",
        "slug": SLUG,
        "title": "A fast NVFP4 kernel will raise serving throughput on RTX Pro 6000 Blackwell",
        "summary": "A write-up discloses a faster block-scaled kernel. Its effect end to end is unknown.",
        "why_it_matters": "It decides whether the next build buys this card.",
        "tags": ["local-inference", "low-precision"],
        "entities": ["Example Research", "NVIDIA"],
        "claim": {
            "sentence": "The kernel raises output throughput of a served model by at least a tenth.",
            "factor": ["gemm.kernel"],
            "metric": "output_throughput",
            "claimants": ["Example Research"],
            "workload": {"hardware.gpu": "RTX Pro 6000 Blackwell"},
            "effects": [
                {
                    "metric": "gemm_throughput",
                    "low": 1.29,
                    "high": 1.40,
                    "unit": "ratio",
                    "level": "kernel",
                    "treatment": "the new kernel",
                    "baseline": "the library's kernel",
                    "quote": "29 to 40 % faster",
                    "source": "https://example.org/kernel",
                },
                {
                    "metric": "gemm_throughput",
                    "low": 1.666e15,
                    "high": 1.666e15,
                    "unit": "FLOP/s",
                    "level": "kernel",
                    "treatment": "the new kernel",
                },
            ],
            "note": "Metric, threshold and horizon were added here.",
        },
        "grounding": {
            "stance": "converges",
            "strength": "medium",
            "summary": "The notes say: measure end to end.",
            "concepts": ["ip:concept.unit-economics", "https://notes.example.org/fp4"],
            "queries": ["FP4 quality", "kernel against serving"],
        },
        "evidence": [
            {
                "kind": "source",
                "key": "post",
                "title": "A faster block-scaled GEMM",
                "url": "https://example.org/kernel",
                "publisher": {"name": "Example Research"},
                "published_at": "2026-08-10T12:00:00Z",
                "quote": "We reach 1666 TFLOP/s, 29 to 40 % above the library.",
                "summary": "Quantization is left out of the measured time.",
                "level": "kernel",
                "canonical_anchor": True,
                "arms": [
                    {
                        "role": "baseline",
                        "config": {"gemm.kernel": "library", "quantization.weights": "excluded"},
                    },
                    {
                        "role": "treatment",
                        "config": {
                            "gemm.kernel": "new",
                            "quantization.weights": "excluded",
                            "quantization.activations": "excluded",
                        },
                    },
                ],
                "reported": [{"metric": "gemm_throughput", "low": 1.29, "high": 1.40}],
            },
            {
                "kind": "echo",
                "title": "Discussion of the post",
                "url": "https://news.example.org/item?id=1",
                "echo_of": "post",
                "published_at": "2026-08-10T19:00:00Z",
            },
            {
                "kind": "source",
                "key": "serving",
                "title": "Qwen3-32B served in BF16 and in NVFP4",
                "url": "https://bench.example.org/qwen3",
                "publisher": {"name": "Bench House"},
                "published_at": "2026-08-05T09:00:00Z",
                "quote": "NVFP4 serves 1.9 to 2.1 times the tokens.",
                "level": "serving",
                "arms": [
                    {"role": "baseline", "config": {"weights.format": "bf16", "gemm.kernel": "library"}},
                    {"role": "treatment", "config": {"weights.format": "nvfp4", "gemm.kernel": "library"}},
                ],
                "reported": [{"metric": "output_throughput", "low": 1.9, "high": 2.1}],
            },
        ],
        "history": {
            "source": "https://example.org/earlier",
            "state": "expired",
            "heat": "low",
            "uncertainty": "high",
            "note": "Two zones stood on one page.",
            "interpretations": [
                {"at": "2026-08-10T19:28:12Z", "text": "Case created."},
                {"at": "2026-08-12T20:32:45Z", "text": "No independent validation emerged."},
            ],
            "trace": [
                {"at": "2026-08-10T19:28:00Z", "verb": "create", "reason": "A concrete optimization."},
                {
                    "at": "2026-08-10T19:34:00Z",
                    "verb": "reprice",
                    "reason": "Nothing new was mea",
                    "cut": True,
                },
                {
                    "at": "2026-08-12T20:32:00Z",
                    "verb": "expire",
                    "reason": "No validation within the horizon.",
                },
                {"at": "2026-08-12T20:32:00Z", "verb": "alert_silent", "reason": "Nothing consequential."},
            ],
        },
    } | changes


def case_file(**changes: Any) -> CaseFile:
    """The case, read."""
    return CaseFile.model_validate_json(json.dumps(case_document(**changes)))


def result_document(**changes: Any) -> dict[str, Any]:
    """A serving result that meets every criterion: the kernel alone changed, 1.3 times the tokens."""
    shared = {
        "model.name": "Qwen/Qwen3-32B",
        "hardware.gpu": "RTX Pro 6000 Blackwell",
        "hardware.gpu_count": 1,
        "engine.name": "vllm",
        "engine.version": "0.11.0",
        "load.arrival": "closed",
        "load.concurrency": 16,
        "load.input_length": 1024,
        "load.output_length": 128,
    }

    def arm(role: str, kernel: str, base: float) -> dict[str, Any]:
        return {
            "role": role,
            "config": shared
            | {
                "gemm.kernel": kernel,
                "effective.gemm_kernel": kernel,
                "quality.task": "GSM8K",
                "quantization.weights": "in_time",
                "quantization.activations": "in_time",
            },
            "metrics": [
                {"name": "output_throughput", "unit": "token/s", "values": [base, base * 1.01, base * 0.99]},
                {"name": "accuracy", "unit": "1", "values": [0.71]},
                {"name": "ttft", "unit": "ms", "statistic": "median", "values": [210.0, 205.0, 215.0]},
            ],
        }

    return {
        "case": SLUG,
        "level": "serving",
        "publisher": {"name": "Careful Lab", "relation": "independent"},
        "measured_at": "2026-08-20T10:00:00Z",
        "command": "inference-perf --config closed.yaml",
        "arms": [arm("baseline", "library", 1000.0), arm("treatment", "new", 1300.0)],
    } | changes


def result(**changes: Any) -> ResultIn:
    """The result, read."""
    return ResultIn.model_validate_json(json.dumps(result_document(**changes)))


class Standing(Clock):
    """A clock that stands where it is set."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment


def clock(hours: float = 0.0) -> Clock:
    """A clock that stands some hours after the tests' present."""
    return Standing(NOW + timedelta(hours=hours))

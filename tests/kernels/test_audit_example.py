"""The audit that ships as an example says what `kernels.audit` computes and what the recorded run
measured.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kernels.audit import harness_mean_product, harness_zero_products, implied_clock_ghz

ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = json.loads((ROOT / "examples" / "colfax-harness-audit.json").read_text())
FIGURES: dict[str, Any] = {finding["id"]: finding["figures"] for finding in DOCUMENT["findings"]}

CRITERIA = {"measured_soundly", "quantization_counted", "reproducible"}


def test_findings_have_a_status_a_reason_and_lines() -> None:
    assert DOCUMENT["kind"] == "audit"
    assert len(FIGURES) == len(DOCUMENT["findings"])
    for finding in DOCUMENT["findings"]:
        assert finding["criterion"] in CRITERIA
        assert finding["status"] in {"met", "unmet", "unknown"}
        assert len(finding["reason"]) > 40
        assert finding["lines"] or finding["id"] == "implied-clock"
        for lines in finding["lines"]:
            assert 0 < lines["line_start"] <= lines["line_end"]


def test_figures_are_the_computed_ones() -> None:
    values = FIGURES["few-operand-values"]
    assert values["zero_products"] == pytest.approx(float(harness_zero_products()))
    assert FIGURES["infinities-compared"]["expected_result_over_k"] == float(harness_mean_product())
    clock = FIGURES["implied-clock"]
    cores, flop = clock["multiprocessors"], clock["flop_per_clock"]
    for rate, ghz in clock["clock_ghz"].items():
        assert implied_clock_ghz(float(rate) * 1e12, cores, flop) == pytest.approx(ghz, abs=1e-4)
    for ghz, rate in clock["tflop_per_s"].items():
        assert float(ghz) * 1e9 * cores * flop / 1e12 == pytest.approx(rate, abs=0.05)


def test_measurements_are_those_of_the_recorded_run() -> None:
    for measurement in DOCUMENT["measurements"]:
        recorded = json.loads((ROOT / measurement["source"]).read_text())
        assert measurement["command"] == recorded["command"]
        medians = [(row["implementation"], row["operands"], row["median_ms"]) for row in recorded["rows"]]
        assert [(r["implementation"], r["operands"], r["median_ms"]) for r in measurement["rows"]] == medians

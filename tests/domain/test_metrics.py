"""Units: converted by a library, refused when they measure something else."""

from __future__ import annotations

import time

import pytest

from app.domain.errors import Refused
from app.domain.metrics import METRICS, canonical, spec_of, statistic_rank


@pytest.mark.parametrize(
    ("value", "unit", "name", "expected"),
    [
        (350, "ms", "ttft", 0.350),
        (350_000, "us", "ttft", 0.350),
        (12.5, "ms/token", "tpot", 0.0125),
        (1666, "TFLOP/s", "gemm_throughput", 1.666e15),
        (1666, "TFLOPS", "gemm_throughput", 1.666e15),
        (6431.1, "tok/s", "output_throughput", 6431.1),
        (6.4311, "ktok/s", "output_throughput", 6431.1),
        (600, "token/minute", "output_throughput", 10.0),
        (120, "request/min", "request_throughput", 2.0),
        (2, "Hz", "request_throughput", 2.0),
        (250, "mJ/token", "energy_per_output_token", 0.25),
        (1, "kWh", "energy_per_output_token", 3.6e6),
        (0.6, "kW", "power", 600.0),
        (600.0, "kg * m**2 / s^3", "power", 600.0),
        (0.42, "$/Mtok", "cost_per_output_token", 0.42),
        (0.42e-6, "USD/token", "cost_per_output_token", 0.42),
        (79.5, "%", "accuracy", 0.795),
        (79.5, "percent", "accuracy", 0.795),
    ],
)
def test_converts(value: float, unit: str, name: str, expected: float) -> None:
    assert canonical(value, unit, name) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("unit", "name", "code"),
    [
        ("", "ttft", "unknown-unit"),
        ("parsec of code", "ttft", "unknown-unit"),
        ("s" * 41, "ttft", "unknown-unit"),
        ("s**999999999", "ttft", "unknown-unit"),
        ("19**99999999", "accuracy", "unknown-unit"),
        ("1**9**9**9", "accuracy", "unknown-unit"),
        ("token/s/GPU", "output_throughput", "unknown-unit"),
        ("1/s", "output_throughput", "wrong-unit"),
        ("token", "output_throughput", "wrong-unit"),
        ("TFLOPs", "gemm_throughput", "wrong-unit"),
        ("W", "energy_per_output_token", "wrong-unit"),
        # The library counts these as dimensionless, so that by dimension alone they would pass.
        ("GB/s", "request_throughput", "wrong-unit"),
        ("bit/s", "goodput", "wrong-unit"),
        ("rpm", "request_throughput", "wrong-unit"),
        ("degree", "accuracy", "wrong-unit"),
        ("byte", "perplexity", "wrong-unit"),
        ("dB", "accuracy", "wrong-unit"),
        ("token/request/s", "output_throughput", "wrong-unit"),
    ],
)
def test_refuses_what_is_no_unit_or_measures_something_else(unit: str, name: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        canonical(1.0, unit, name)
    assert caught.value.code == code
    assert METRICS[name].unit in caught.value.remedy


def test_gigabytes_are_not_gibibytes() -> None:
    from app.domain.metrics import _registry

    registry = _registry()
    assert registry.Quantity(1.0, "GiB").to("GB").magnitude == pytest.approx(1.073741824, rel=1e-12)


def test_an_unknown_metric_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="'tokens_per_second' is not a metric"):
        spec_of("tokens_per_second")


def test_values_that_leave_the_numbers_come_out_infinite() -> None:
    assert canonical(float("nan"), "s", "ttft") == float("inf")
    assert canonical(1e308, "Mtok/s", "output_throughput") == float("inf")


def test_every_canonical_unit_converts_to_itself() -> None:
    for spec in METRICS.values():
        for unit in (spec.unit, *spec.also):
            assert canonical(7.0, unit, spec.name) == 7.0


def test_the_plain_statistic_speaks_first_and_unknown_ones_last() -> None:
    given = ["p99", "best", "median", None, "mean"]
    assert sorted(given, key=statistic_rank) == [None, "mean", "median", "best", "p99"]


@pytest.mark.parametrize(
    "unit", ["19**99999999", "1**9**9**9", "s**9 **9**9", "a" * 39 + "!", "a " * 19 + "!"]
)
def test_no_unit_keeps_the_service_busy(unit: str) -> None:
    started = time.process_time()
    with pytest.raises(Refused):
        canonical(1.0, unit, "accuracy")
    assert time.process_time() - started < 0.5

"""Thresholds, hysteresis both ways, mixed, uncertainty."""

from __future__ import annotations

import math

import pytest
from builders import POLICY, accuracy, judged, metric, result, throughput

from app.domain.synthesis import Posterior
from app.domain.verdict import Uncertainty, Verdict, rule, uncertainty_of

ONE = [judged(result(1.3))]
OPEN, SUPPORTED, REFUTED, MIXED = Verdict.OPEN, Verdict.SUPPORTED, Verdict.REFUTED, Verdict.MIXED


@pytest.mark.parametrize(
    ("price", "previous", "expected"),
    [
        (0.90, OPEN, SUPPORTED),
        (0.8999, OPEN, OPEN),
        (0.10, OPEN, REFUTED),
        (0.1001, OPEN, OPEN),
        (0.50, OPEN, OPEN),
        # once entered, left only past the further limit
        (0.85, SUPPORTED, SUPPORTED),
        (0.80, SUPPORTED, SUPPORTED),
        (0.7999, SUPPORTED, OPEN),
        (0.15, REFUTED, REFUTED),
        (0.20, REFUTED, REFUTED),
        (0.2001, REFUTED, OPEN),
        # the band of one side means nothing to the other
        (0.85, REFUTED, OPEN),
        (0.15, SUPPORTED, OPEN),
        (0.05, SUPPORTED, REFUTED),
        (0.95, REFUTED, SUPPORTED),
        (0.85, MIXED, OPEN),
        (0.95, MIXED, SUPPORTED),
    ],
)
def test_thresholds_and_hysteresis(price: float, previous: Verdict, expected: Verdict) -> None:
    got = rule(price, price, ONE, previous, POLICY)
    assert got.verdict is expected
    assert f"{price:.2f}" in got.reason


@pytest.mark.parametrize("price", [0.0, 0.05, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("previous", list(Verdict))
def test_without_a_qualifying_result_the_verdict_is_open(price: float, previous: Verdict) -> None:
    got = rule(price, price, [judged(result(1.3, command=None))], previous, POLICY)
    assert (got.verdict, got.reason) == (OPEN, "no result meets every criterion")


def two(first: float, second: float, **changes: object) -> Verdict:
    items = [judged(result(first, name="a"), 1), judged(result(second, name="b", **changes), 2)]
    return rule(0.5, 0.5, items, OPEN, POLICY).verdict


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (1.3, 0.8, MIXED),
        (0.8, 1.3, MIXED),
        (1.3, 1.1, OPEN),
        # se is 0.0163, so that 2 s is a ratio of 0.968: 0.98 does not disagree beyond its error, 0.96 does
        (1.3, 0.98, OPEN),
        (1.3, 0.96, MIXED),
    ],
)
def test_mixed_when_two_qualifying_results_disagree_beyond_their_errors(
    first: float, second: float, expected: Verdict
) -> None:
    assert two(first, second) is expected


def test_what_does_not_qualify_makes_nothing_mixed() -> None:
    assert two(1.3, 0.8, command=None) is OPEN


def test_two_statistics_of_one_result_are_no_disagreement() -> None:
    item = result(
        base_metrics=[throughput(1000), accuracy(0.8), metric("output_throughput", 9, 9.1, statistic="p01")],
        treat_metrics=[throughput(1300), accuracy(0.8), metric("output_throughput", 5, 5.1, statistic="p01")],
    )
    assert judged(item).qualifying
    assert rule(0.95, 0.95, [judged(item)], OPEN, POLICY).verdict is SUPPORTED


def test_two_items_of_one_root_are_no_disagreement() -> None:
    items = [judged(result(1.3, name="a"), 1), judged(result(0.8, name="a"), 2)]
    assert rule(0.5, 0.5, items, OPEN, POLICY).verdict is OPEN


THRESHOLD = math.log(1.1)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.01, 2 * THRESHOLD + 0.01, Uncertainty.HIGH),
        (0.0, 2 * THRESHOLD + 0.01, Uncertainty.MEDIUM),
        (-0.01, 2 * THRESHOLD - 1e-9, Uncertainty.MEDIUM),
        (0.0, THRESHOLD * 0.99, Uncertainty.LOW),
        (0.0, THRESHOLD * 1.01, Uncertainty.MEDIUM),
        (-0.5, -0.45, Uncertainty.LOW),
        (-0.49, 0.49, Uncertainty.HIGH),
    ],
)
def test_uncertainty(low: float, high: float, expected: Uncertainty) -> None:
    belief = Posterior(price=0.5, mean=(low + high) / 2, low=low, high=high, tau_mean=0.1)
    assert uncertainty_of(belief, 0.10) is expected

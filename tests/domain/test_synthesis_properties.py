"""What must hold for any evidence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.domain.effects import MIN_SHARE, Effect, Share, project
from app.domain.mixture import Prior, Table, log_exceedance
from app.domain.pooled import Method, pooled
from app.domain.synthesis import posterior

ys = st.floats(-3, 3)
ses = st.floats(0.005, 0.5)
effects = st.builds(Effect, y=ys, se=ses)
tables = st.lists(effects, min_size=1, max_size=6)
shares = st.tuples(st.floats(0, 1), st.floats(MIN_SHARE, 1)).map(
    lambda pair: Share(low=min(pair), high=max(pair))
)

ENVELOPE_SLACK = 1e-4
"""Absolute: what a price of next to nothing may lose by the search."""
ENVELOPE_TOLERANCE = 2e-3
"""Relative. The envelopes are searched, not written down; see the docstring of app.domain.envelope."""


def plain(table: list[Effect], delta: float) -> float:
    se, y = np.array([e.se for e in table]), np.array([[e.y for e in table]])
    return float(np.exp(log_exceedance(Table(se=se, cut=math.log1p(delta), prior=Prior()), y)[0]))


def ratios(*rows: tuple[float, float]) -> list[Effect]:
    return [Effect(y=math.log(value), se=se) for value, se in rows]


@settings(max_examples=300, deadline=None)
@given(tables, st.integers(0, 5), st.floats(0, 6))
@example([Effect(y=math.log(1.3), se=0.03)] * 4, 0, math.log(3 / 1.3))
@example([Effect(y=0.153, se=0.0065), Effect(y=0.1484, se=0.0136), Effect(y=0.1044, se=0.0276)], 0, 0.41)
@example([Effect(y=0.9134, se=0.0067), Effect(y=0.179, se=0.2139)], 0, 0.1)
@example([Effect(y=-0.0933, se=0.0548), Effect(y=0.0114, se=0.0217), Effect(y=-0.2781, se=0.006)], 2, 0.19)
@example(ratios(*[(1.05, 0.02)] * 3, (0.3, 0.02)), 3, math.log(1.03 / 0.3))
@example(ratios(*[(1.05, 0.02)] * 4), 3, 0.02)
@example(ratios(*[(1.00, 0.02)] * 10), 0, 0.01)
@example(ratios((1.0, 0.03), (1.3, 0.03)), 1, 1.0)
@example([Effect(y=0.125, se=0.0156)] * 2 + [Effect(y=-2.0, se=0.375)], 0, 0.25)
@example(ratios((0.01, 0.03)), 0, math.log(0.3 / 0.01))
@example(ratios(*[(1.09, 0.01)] * 3, (3.0, 0.01)), 0, 0.03)
def test_price_never_falls_when_an_effect_rises(table: list[Effect], index: int, rise: float) -> None:
    i = index % len(table)
    raised = [*table]
    raised[i] = Effect(y=min(3.0, table[i].y + rise), se=table[i].se)
    if raised[i].y < table[i].y:
        return
    before, after = posterior(table, delta=0.1).price, posterior(raised, delta=0.1).price
    assert after >= before * (1 - ENVELOPE_TOLERANCE) - ENVELOPE_SLACK


@settings(max_examples=150, deadline=None)
@given(st.floats(-0.2, 0.6), st.lists(st.floats(0, 0.5), min_size=1, max_size=6), st.floats(0.01, 0.1))
def test_price_of_agreeing_effects_is_the_plain_probability(
    centre: float, offsets: list[float], se: float
) -> None:
    """Within half a standard error of each other. Absolutely where the price is small: two effects that are
    below 0.9x, and equal, disagree with the prior; less of that is then worse."""
    table = [Effect(y=centre + offset * se, se=se) for offset in offsets]
    assert posterior(table, delta=0.1).price == pytest.approx(plain(table, 0.1), rel=1e-4, abs=1e-5)


@settings(max_examples=150, deadline=None)
@given(tables, st.floats(0, 0.5))
def test_price_lies_on_its_side_of_the_plain_probability(table: list[Effect], delta: float) -> None:
    """Not below it from one half up, not above it otherwise."""
    price = posterior(table, delta=delta).price
    if price >= 0.5:
        assert price >= plain(table, delta) * (1 - 1e-6)
    else:
        assert price <= plain(table, delta) * (1 + 1e-6)


@settings(max_examples=150, deadline=None)
@given(effects, st.floats(0, 6))
def test_price_of_one_effect_never_falls_when_it_rises(effect: Effect, rise: float) -> None:
    raised = Effect(y=effect.y + rise, se=effect.se)
    assert posterior([raised], delta=0.1).price >= posterior([effect], delta=0.1).price * (1 - 2e-4)


@settings(max_examples=50, deadline=None)
@given(tables, st.randoms(use_true_random=False))
def test_order_never_matters(table: list[Effect], random: object) -> None:
    shuffled = [*table]
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis types its Random as object
    assert posterior(shuffled, delta=0.1) == posterior(table, delta=0.1)
    assert pooled(shuffled, Method.DL) == pooled(table, Method.DL)


@settings(max_examples=60, deadline=None)
@given(tables, st.floats(0, 1))
def test_price_is_a_probability_and_the_interval_holds_the_mean(table: list[Effect], delta: float) -> None:
    got = posterior(table, delta=delta)
    assert 0 < got.price < 1 or plain(table, delta) > 1 - 1e-15
    assert got.low < got.mean < got.high
    assert got.tau_mean > 0


@settings(max_examples=50, deadline=None)
@given(tables, st.floats(0, 0.5), st.floats(0.01, 0.5))
def test_price_falls_with_the_materiality(table: list[Effect], delta: float, more: float) -> None:
    asked_less, asked_more = (posterior(table, delta=d).price for d in (delta, delta + more))
    assert asked_more <= asked_less * (1 + ENVELOPE_TOLERANCE)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.builds(Effect, y=st.floats(-0.5, 0.5), se=ses), min_size=1, max_size=5), st.floats(-0.5, 0.5)
)
def test_an_effect_that_says_nothing_changes_next_to_nothing(table: list[Effect], y: float) -> None:
    got, more = posterior(table, delta=0.1), posterior([*table, Effect(y=y, se=1e3)], delta=0.1)
    assert more.mean == pytest.approx(got.mean, abs=1e-5)
    assert more.tau_mean == pytest.approx(got.tau_mean, abs=1e-5)
    assert (more.low, more.high) == pytest.approx((got.low, got.high), abs=1e-5)


@given(ys, ses, shares)
def test_projection_keeps_sign_and_never_enlarges(y: float, se: float, share: Share) -> None:
    got = project(Effect(y=y, se=se), share)
    assert got.y * y >= 0
    assert got.y <= max(y, 0) + 1e-12


@given(ys, st.floats(1e-6, 3), ses, shares)
def test_projection_is_monotone(y: float, rise: float, se: float, share: Share) -> None:
    low, high = (project(Effect(y=value, se=se), share).y for value in (y, y + rise))
    assert low <= high + 1e-13


@given(ys, ses)
def test_projection_of_the_whole_is_the_identity(y: float, se: float) -> None:
    got = project(Effect(y=y, se=se), Share(low=1, high=1))
    assert (got.y, got.se) == pytest.approx((y, se), rel=1e-12, abs=1e-12)


@given(ses, shares)
def test_nothing_projects_to_nothing(se: float, share: Share) -> None:
    assert project(Effect(y=0, se=se), share).y == pytest.approx(0, abs=1e-15)

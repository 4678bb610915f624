"""Coordinates, computed by hand."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.web.charts import (
    LogAxis,
    Ratios,
    Stroke,
    axis_over,
    price_y,
    span,
    sparkline,
    steps,
    time_axis,
)

DAY = datetime(2026, 8, 10, tzinfo=UTC)


def test_a_ratio_stands_where_its_logarithm_says() -> None:
    axis = LogAxis(low=0.5, high=2.0)
    assert axis.place(0.5) == 3.0
    assert axis.place(1.0) == 50.0
    assert axis.place(2.0) == 97.0
    assert axis.place(math.sqrt(2)) == 73.5


def test_beyond_the_edges_is_at_the_edge_and_says_so() -> None:
    axis = LogAxis(low=0.5, high=2.0)
    assert axis.place(0.001) == 3.0
    found = span(axis, Ratios(low=0.2, mid=1.0, high=9.0))
    assert (found.low, found.mid, found.high) == (3.0, 50.0, 97.0)
    assert found.cut_low
    assert found.cut_high
    assert (found.width, found.peak) == (94.0, 50.0)


def test_ratios_of_an_effect() -> None:
    found = Ratios.of(math.log(1.3), 0.1)
    assert found.mid == pytest.approx(1.3)
    assert found.low == pytest.approx(1.3 * math.exp(-0.1959964))
    assert found.high == pytest.approx(1.3 * math.exp(0.1959964))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_never_drawn(bad: float) -> None:
    with pytest.raises(ValueError, match="cannot be drawn"):
        Ratios.between(0.0, bad, 1.0)
    with pytest.raises(ValueError, match="no probability"):
        price_y(bad)


def test_a_price_that_is_no_number_has_no_sparkline() -> None:
    with pytest.raises(ValueError, match="no number"):
        sparkline([0.5, math.nan])


def test_an_axis_without_effects_shows_no_effect_and_the_threshold() -> None:
    axis = axis_over([], 0.10)
    assert axis.low == pytest.approx(0.85 / 1.04)
    assert axis.high == pytest.approx(1.25 * 1.04)
    assert [tick.label for tick in axis.ticks()] == ["0.9", "1", "1.1", "1.25"]


def test_an_axis_over_one_effect_shows_all_of_it() -> None:
    axis = axis_over([Ratios(low=0.9, mid=1.4, high=2.1)], 0.10)
    found = span(axis, Ratios(low=0.9, mid=1.4, high=2.1))
    assert not found.cut_low
    assert not found.cut_high


def test_extreme_ratios_are_drawn_with_arrows_and_leave_an_axis_to_read() -> None:
    wild = Ratios.between(math.log(1e-6), math.log(1e6), math.log(1e12))
    axis = axis_over([wild, Ratios(low=0.01, mid=0.02, high=0.05)], 0.10)
    found = span(axis, wild)
    assert found.cut_high
    assert axis.low > 0.003
    assert axis.high < 300
    labels = [tick.label for tick in axis.ticks()]
    assert "1" in labels
    assert 3 <= len(labels) <= 9


def test_a_wide_interval_does_not_crush_the_others() -> None:
    axis = axis_over([Ratios(low=1.1, mid=1.2, high=1.3), Ratios(low=0.01, mid=1.25, high=90.0)], 0.10)
    assert axis.high / axis.low < 10


@given(
    st.lists(st.tuples(st.floats(-5, 5, allow_nan=False), st.floats(0.001, 3, allow_nan=False)), max_size=6),
    st.floats(0.01, 3),
)
def test_everything_is_within_the_plot_and_in_order(effects: list[tuple[float, float]], delta: float) -> None:
    shown = [Ratios.of(y, se) for y, se in effects]
    axis = axis_over(shown, delta)
    ticks = axis.ticks()
    assert all(right.at - left.at >= 11 for left, right in itertools.pairwise(ticks))
    assert 3 <= axis.place(1.0) < axis.place(1 + delta) <= 97
    for effect in shown:
        found = span(axis, effect)
        assert 3 <= found.low <= found.mid <= found.high <= 97
        assert 0 <= found.peak <= 100


def test_sparkline_of_nothing_one_and_several_prices() -> None:
    assert sparkline([]) is None
    one = sparkline([0.5])
    assert one is not None
    assert one.path == "M3 10 L81 10"
    assert one.words == "price 0.50"
    several = sparkline([0.0, 1.0, 0.5])
    assert several is not None
    assert several.path == "M3 17 L42 3 L81 10"
    assert (several.end_x, several.end_y) == (81.0, 10.0)
    assert several.words == "price from 0.00 to 0.50"


def test_height_of_a_price() -> None:
    assert price_y(0.0) == 84.0
    assert price_y(1.0) == 5.0
    assert price_y(0.5) == 44.5


def test_a_price_holds_until_the_next() -> None:
    axis = time_axis([DAY, DAY + timedelta(days=4)])
    assert axis is not None
    found = steps(axis, [(DAY, 0.0), (DAY + timedelta(days=2), 1.0)], DAY + timedelta(days=4))
    assert found == (
        Stroke(x1=3.0, y1=84.0, x2=50.0, y2=84.0),
        Stroke(x1=50.0, y1=84.0, x2=50.0, y2=5.0),
        Stroke(x1=50.0, y1=5.0, x2=97.0, y2=5.0),
    )


def test_equal_prices_make_no_step() -> None:
    axis = time_axis([DAY, DAY + timedelta(days=4)])
    assert axis is not None
    found = steps(axis, [(DAY, 0.5), (DAY + timedelta(days=2), 0.5)], DAY + timedelta(days=4))
    assert {stroke.y1 for stroke in found} == {stroke.y2 for stroke in found} == {44.5}


def test_time_axis_of_nothing_and_of_one_moment() -> None:
    assert time_axis([]) is None
    axis = time_axis([DAY])
    assert axis is not None
    assert axis.place(DAY) == 50.0
    assert axis.end - axis.start == timedelta(hours=1)
    assert len(axis.moments()) == 4

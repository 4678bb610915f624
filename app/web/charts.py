"""Coordinates of the charts, as plain values. Nothing here knows SVG: templates draw.

Horizontal places are percentages of the plot's width, so that a chart is as wide as its page without
stretching its marks and words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

LEFT, RIGHT = 3.0, 97.0
"""Where a plot's scale begins and ends, per cent of its width."""

SMALLEST, LARGEST = 0.01, 100.0
"""Ratios beyond these are drawn at the edge with an arrow."""

NICE: Final = (
    *(1.0, 2.0, 0.5, 1.5, 0.75, 1.25, 10.0, 0.1, 5.0, 0.2, 100.0, 0.01, 3.0, 20.0, 0.05, 50.0, 0.02),
    *(0.9, 1.1, 1.75, 0.8, 1.2, 4.0, 0.3, 0.6),
)
"""Ratios that may bear a tick, the most telling first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAxis:
    """A logarithmic axis of ratios from `low` to `high`."""

    low: float
    high: float

    def place(self, ratio: float) -> float:
        """Per cent of the width at which a ratio stands, never beyond the edges."""
        share = math.log(self.clip(ratio) / self.low) / math.log(self.high / self.low)
        return round(LEFT + (RIGHT - LEFT) * share, 2)

    def clip(self, ratio: float) -> float:
        """The ratio, or the edge that it lies beyond."""
        return min(max(ratio, self.low), self.high)

    def ticks(self, apart: float = 11.0) -> tuple[Tick, ...]:
        """Ticks at least `apart` per cent from each other, in order."""
        chosen: dict[float, float] = {}
        for value in NICE:
            if not self.low <= value <= self.high:
                continue
            at = self.place(value)
            if all(abs(at - other) >= apart for other in chosen.values()):
                chosen[value] = at
        return tuple(Tick(at=at, label=f"{value:g}") for value, at in sorted(chosen.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An interval on an axis. `cut_low` and `cut_high` say that it goes on beyond the edge."""

    low: float
    mid: float
    high: float
    cut_low: bool
    cut_high: bool

    @property
    def width(self) -> float:
        """Per cent from end to end."""
        return round(self.high - self.low, 2)

    @property
    def peak(self) -> float:
        """Place of the middle within the interval, per cent of it."""
        return round(100 * (self.mid - self.low) / self.width, 1) if self.width else 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """An effect as ratios: its centre and 95 % interval."""

    low: float
    mid: float
    high: float

    @classmethod
    def of(cls, y: float, se: float) -> Ratios:
        """From a log ratio and its standard error."""
        return cls.between(y - 1.959964 * se, y, y + 1.959964 * se)

    @classmethod
    def between(cls, low: float, mid: float, high: float) -> Ratios:
        """From log ratios.

        Raises:
            ValueError: one of them is no number.
        """
        if not all(math.isfinite(value) for value in (low, mid, high)):
            raise ValueError(f"an effect of {low}, {mid}, {high} cannot be drawn")
        return cls(low=_exp(low), mid=_exp(mid), high=_exp(high))


def _exp(value: float) -> float:
    return math.exp(min(max(value, -300.0), 300.0))


def axis_over(effects: Sequence[Ratios], delta: float) -> LogAxis:
    """An axis over every centre, no effect and the threshold; of intervals what does not crush the rest."""
    centres = [clamp(effect.mid) for effect in effects]
    inner_low, inner_high = min([1.0, *centres]), max([1.0 + delta, *centres])
    reach = [clamp(value) for effect in effects for value in (effect.low, effect.high)]
    low = max(min([inner_low, *reach]), inner_low / 2.5)
    high = min(max([inner_high, *reach]), inner_high * 2.5)
    return LogAxis(low=min(low, 0.85) / 1.04, high=max(high, 1.25) * 1.04)


def clamp(ratio: float) -> float:
    """A ratio within what is drawn at all."""
    return min(max(ratio, SMALLEST), LARGEST)


def span(axis: LogAxis, effect: Ratios) -> Span:
    """An effect on an axis."""
    return Span(
        low=axis.place(effect.low),
        mid=axis.place(effect.mid),
        high=axis.place(effect.high),
        cut_low=effect.low < axis.low,
        cut_high=effect.high > axis.high,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """The latest prices as a line of fixed size: 0 at the bottom, 1 at the top, so that cases compare."""

    path: str
    end_x: float
    end_y: float
    words: str


SPARK_WIDTH, SPARK_HEIGHT, SPARK_MARGIN = 84.0, 20.0, 3.0


def sparkline(prices: Sequence[float]) -> Sparkline | None:
    """A sparkline; `None` without prices. One price is a level line."""
    if not prices:
        return None
    shown = [min(max(price, 0.0), 1.0) for price in prices]
    if any(math.isnan(price) for price in shown):
        raise ValueError("a price that is no number cannot be drawn")
    series = shown if len(shown) > 1 else shown * 2
    step = (SPARK_WIDTH - 2 * SPARK_MARGIN) / (len(series) - 1)
    points = [
        (round(SPARK_MARGIN + index * step, 1), round(_spark_y(price), 1))
        for index, price in enumerate(series)
    ]
    path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
    told = f"price {shown[-1]:.2f}" if len(shown) == 1 else f"price from {shown[0]:.2f} to {shown[-1]:.2f}"
    return Sparkline(path=path, end_x=points[-1][0], end_y=points[-1][1], words=told)


def _spark_y(price: float) -> float:
    return SPARK_MARGIN + (1 - price) * (SPARK_HEIGHT - 2 * SPARK_MARGIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """A linear axis of time."""

    start: datetime
    end: datetime

    def place(self, at: datetime) -> float:
        """Per cent of the width at which a time stands, never beyond the edges."""
        share = (at - self.start) / (self.end - self.start)
        return round(LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0), 2)

    def moments(self, count: int = 4) -> tuple[datetime, ...]:
        """Times that may bear a tick, evenly apart."""
        return tuple(self.start + (self.end - self.start) * index / (count - 1) for index in range(count))


def time_axis(times: Iterable[datetime]) -> TimeAxis | None:
    """An axis over times; at least an hour wide. `None` without times."""
    known = sorted(times)
    if not known:
        return None
    start, end = known[0], known[-1]
    if end - start < timedelta(hours=1):
        middle = start + (end - start) / 2
        start, end = middle - timedelta(minutes=30), middle + timedelta(minutes=30)
    return TimeAxis(start=start, end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    """A straight line, in per cent of width and height."""

    x1: float
    y1: float
    x2: float
    y2: float


TOP, BOTTOM = 5.0, 84.0
"""Height of price 1 and of price 0 in the price chart, per cent; below it is the lane of decisions."""


def price_y(price: float) -> float:
    """Per cent of the height at which a price stands.

    Raises:
        ValueError: it is no probability.
    """
    if not 0 <= price <= 1:
        raise ValueError(f"{price} is no probability")
    return round(BOTTOM - (BOTTOM - TOP) * price, 2)


def steps(axis: TimeAxis, points: Sequence[tuple[datetime, float]], until: datetime) -> tuple[Stroke, ...]:
    """A step line: each price holds until the next; the last one until `until`."""
    strokes: list[Stroke] = []
    for index, (at, price) in enumerate(points):
        x, y = axis.place(at), price_y(price)
        if index:
            before = price_y(points[index - 1][1])
            if before != y:
                strokes.append(Stroke(x1=x, y1=before, x2=x, y2=y))
        following = points[index + 1][0] if index + 1 < len(points) else until
        end = axis.place(following)
        if end > x:
            strokes.append(Stroke(x1=x, y1=y, x2=end, y2=y))
    return tuple(strokes)

"""The published table of metrics, and units converted by a units library (never by hand)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

import pint

from app.domain.errors import Refused


class Direction(StrEnum):
    """Which way is better."""

    HIGHER = "higher"
    LOWER = "lower"


class Family(StrEnum):
    """What kind of quantity it is. Effects of lower levels project up only within `SPEED`."""

    SPEED = "speed"
    LATENCY = "latency"
    ENERGY = "energy"
    COST = "cost"
    QUALITY = "quality"
    OVERHEAD = "overhead"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """A metric by definition. `unit` is canonical; `also` are units that mean the same by convention."""

    name: str
    unit: str
    direction: Direction
    family: Family
    meaning: str
    also: tuple[str, ...] = ()


def _spec(name: str, unit: str, way: str, family: str, meaning: str, *also: str) -> MetricSpec:
    return MetricSpec(
        name=name, unit=unit, direction=Direction(way), family=Family(family), meaning=meaning, also=also
    )


METRICS: Final = {
    spec.name: spec
    for spec in (
        _spec(
            "output_throughput",
            "token/s",
            "higher",
            "speed",
            "Output tokens of successful requests over the measurement window.",
        ),
        _spec(
            "total_token_throughput",
            "token/s",
            "higher",
            "speed",
            "Input and output tokens of successful requests over the measurement window.",
        ),
        _spec(
            "input_throughput",
            "token/s",
            "higher",
            "speed",
            "Input tokens of successful requests over the measurement window.",
        ),
        _spec(
            "request_throughput",
            "1/s",
            "higher",
            "speed",
            "Successful requests over the measurement window.",
            "request/s",
        ),
        _spec(
            "goodput",
            "1/s",
            "higher",
            "speed",
            "Requests that met every objective, over the measurement window.",
            "request/s",
        ),
        _spec("gemm_throughput", "FLOP/s", "higher", "speed", "2·M·N·K over the time of one multiplication."),
        _spec("gemm_time", "s", "lower", "speed", "Time of one multiplication."),
        _spec("ttft", "s", "lower", "latency", "Time to first token: first token minus send time."),
        _spec(
            "tpot",
            "s",
            "lower",
            "latency",
            "Time per output token after the first: (last − first) / (tokens − tokens of the first chunk).",
            "s/token",
        ),
        _spec(
            "itl",
            "s",
            "lower",
            "latency",
            "Inter-token latency: gap between chunks that bear tokens.",
            "s/token",
        ),
        _spec("e2e_latency", "s", "lower", "latency", "Last token minus send time."),
        _spec("energy_per_output_token", "J", "lower", "energy", "Energy over output tokens.", "J/token"),
        _spec("power", "W", "lower", "energy", "Mean power over the measurement window."),
        _spec("cost_per_output_token", "USD/Mtoken", "lower", "cost", "Price of one million output tokens."),
        _spec("accuracy", "1", "higher", "quality", "Share of right answers on a stated task."),
        _spec("perplexity", "1", "lower", "quality", "Perplexity on a stated text."),
        _spec(
            "quantize_time", "s", "lower", "overhead", "Time to quantize what the measured time leaves out."
        ),
    )
}


def spec_of(name: str) -> MetricSpec:
    """The definition of a metric.

    Raises:
        Refused: no metric has that name.
    """
    spec = METRICS.get(name)
    if spec is None:
        raise Refused(
            f"{name!r} is not a metric of the published table.",
            field="metrics.name",
            value=name,
            remedy=f"Use one of {', '.join(sorted(METRICS))}.",
            code="unknown-metric",
        )
    return spec


STATISTICS: Final = (None, "mean", "median", "p50")
"""Which statistic of a metric speaks for it, best first; any other comes after them."""


def statistic_rank(statistic: str | None) -> tuple[int, str]:
    """Sorting key that puts the statistic that speaks for its metric first. It never depends on the values,
    so that nobody gains by naming many."""
    known = STATISTICS.index(statistic) if statistic in STATISTICS else len(STATISTICS)
    return (known, statistic or "")


def canonical(value: float, unit: str, metric: str) -> float:
    """`value` in the metric's canonical unit.

    Raises:
        Refused: the unit is unknown or measures something else.
    """
    scaled = value * _factor(unit, metric)
    return scaled if math.isfinite(scaled) else math.inf


UNIT_TEXT: Final = re.compile(
    r"(1|[A-Za-zµμ$%_]+)"
    r"([ ]?(\*\*|\^)[ ]?-?\d{1,2}(?!\d|[ ]?(\*\*|\^))|([ ]?[/*·][ ]?|[ ])[A-Za-zµμ$%_]+){0,6}"
)
"""What can be a unit at all: no number but small powers, so that nobody sends a tower of them to the units
library."""


@lru_cache(maxsize=1)
def _registry() -> pint.UnitRegistry[float]:
    registry: pint.UnitRegistry[float] = pint.UnitRegistry(cache_folder=None)
    for line in (
        "token = [token] = tok = tokens",
        "Mtoken = 1e6 * token = Mtok = Mtokens",
        "request = [] = req = requests",
        "FLOP = [floating_point_operation] = flop = FLOPs",
        "FLOPS = FLOP / second = flops",
        "USD = [currency_usd] = usd = dollar",
    ):
        registry.define(line)
    return registry


def _measures_the_same(source: pint.Unit, wanted: pint.Unit, registry: pint.UnitRegistry[float]) -> bool:
    """Whether one is a plain multiple of the other.

    The library counts bits, turns and decibels as dimensionless: by dimension alone a request rate could be
    given in GB/s, or in rpm (which it reads as turns a minute), and an accuracy in degrees.
    """
    if not source.is_compatible_with(wanted):
        return False
    if registry.get_root_units(source)[1] != registry.get_root_units(wanted)[1]:
        return False
    return bool(registry.Quantity(0.0, source).to(wanted).magnitude == 0.0)


@lru_cache(maxsize=4096)
def _factor(unit: str, metric: str) -> float:
    spec = spec_of(metric)
    registry = _registry()
    remedy = f"Give {metric} in {spec.unit} or a multiple of it."
    if not unit or len(unit) > 40:
        raise Refused(
            "A unit is required.", field="metrics.unit", value=unit, remedy=remedy, code="unknown-unit"
        )
    try:
        if not UNIT_TEXT.fullmatch(unit):
            raise ValueError(unit)
        source = registry.parse_units(unit.replace("$", "USD"))
    except Exception as error:  # pint raises many kinds, down to tokenizer errors, for text that is no unit
        raise Refused(
            f"{unit!r} is not a unit.", field="metrics.unit", value=unit, remedy=remedy, code="unknown-unit"
        ) from error
    for target in (spec.unit, *spec.also):
        wanted = registry.parse_units("" if target == "1" else target)
        if _measures_the_same(source, wanted, registry):
            return float(registry.Quantity(1.0, source).to(wanted).magnitude)
    raise Refused(
        f"{unit!r} does not measure {metric}.",
        field="metrics.unit",
        value=unit,
        remedy=remedy,
        code="wrong-unit",
    )

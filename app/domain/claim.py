"""What is claimed: a testable sentence with a factor, effects, a settling level, a threshold and a
deadline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

Scalar = str | int | float | bool | None
"""A value of a configuration map; `None` means "not stated"."""


class Level(StrEnum):
    """The ladder that a claim climbs, lowest first."""

    DISCLOSURE = "disclosure"
    KERNEL = "kernel"
    MODEL = "model"
    SERVING = "serving"
    ECONOMICS = "economics"

    @property
    def rank(self) -> int:
        """Position on the ladder, 0 at the bottom."""
        return LADDER.index(self)


LADDER: Final = tuple(Level)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedEffect:
    """One figure as somebody stated it: a quotation, not a judgement.

    `low` and `high` are in `unit`. With `unit == "ratio"` they are treatment over baseline on `metric`
    (a "29–40 %" gain is 1.29 to 1.40); any other unit is an absolute value of the metric.
    """

    metric: str
    low: float
    high: float
    unit: str
    level: Level
    treatment: str
    baseline: str | None = None
    hardware: str | None = None
    workload: str | None = None
    quote: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A testable claim.

    Attributes:
        sentence: the claim in one sentence.
        factor: dotted configuration names of the one thing said to cause the effect.
        metric: metric on which the claim is settled at `settles_at`.
        settles_at: level at which a result settles it.
        delta: materiality; the claim holds when the true ratio is at least 1 + delta.
        horizon: how long the case waits for validation after its last material event.
        claimants: publishers that are not independent of the claim.
        effects: figures quoted from its sources.
        workload: configuration values that the claim names; a result must match them.
        note: what was added to the source's own wording, and why.
    """

    sentence: str
    factor: tuple[str, ...]
    metric: str
    settles_at: Level = Level.SERVING
    delta: float = 0.10
    horizon: timedelta = timedelta(hours=48)
    claimants: tuple[str, ...] = ()
    effects: tuple[ClaimedEffect, ...] = ()
    workload: Mapping[str, Scalar] = field(default_factory=dict)
    note: str | None = None

"""An effect on the log scale, and its projection to a higher level by Amdahl's law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

MIN_SHARE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A log ratio, positive is better, with its standard error after every adjustment of the variance."""

    y: float
    se: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.y):
            raise ValueError(f"y must be finite, got {self.y!r}")
        if not (math.isfinite(self.se) and self.se > 0):
            raise ValueError(f"se must be finite and above 0, got {self.se!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of the time that a factor touches: uniform on [low, high], a point when the two are equal.

    A factor that touches nothing has no effect to project, so `high` is at least `MIN_SHARE`.
    """

    low: float = 0.5
    high: float = 0.9

    def __post_init__(self) -> None:
        for name, value in (("low", self.low), ("high", self.high)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be a share in [0, 1], got {value!r}")
        if self.low > self.high:
            raise ValueError(f"low must not be above high, got {self.low!r} > {self.high!r}")
        if self.high < MIN_SHARE:
            raise ValueError(f"high must be at least {MIN_SHARE:g}, got {self.high!r}")

    @classmethod
    def measured(cls, mean: float, sd: float) -> Share:
        """A profile's mean and standard deviation, as the uniform with those two moments, cut at [0, 1]."""
        if not 0 <= mean <= 1:
            raise ValueError(f"mean must be a share in [0, 1], got {mean!r}")
        if not (math.isfinite(sd) and sd >= 0):
            raise ValueError(f"sd must be finite and not below 0, got {sd!r}")
        half = sd * math.sqrt(3)
        return cls(low=max(0.0, mean - half), high=min(1.0, mean + half))


_GAUSS_X, _GAUSS_W = np.polynomial.legendre.leggauss(32)


def project(effect: Effect, share: Share) -> Effect:
    """Amdahl's law on the log scale, averaged over the share f of the time that the factor touches:

    y' = -ln((1 - f) + f exp(-y)), mean over f; variance = mean of (dy'/dy)^2 se^2 + variance of y' over f.
    """
    f = share.low + (share.high - share.low) * 0.5 * (_GAUSS_X + 1)
    weight = _GAUSS_W / 2
    if effect.y >= 0:
        projected = -np.log1p(f * math.expm1(-effect.y))
    else:  # the same, with exp(-y) taken out: never overflows
        projected = effect.y - np.log(f + (1 - f) * math.exp(effect.y))
    slope = f * np.exp(projected - effect.y)
    mean = float(weight @ projected)
    variance = float(weight @ slope**2) * effect.se**2 + float(weight @ (projected - mean) ** 2)
    return Effect(y=mean, se=math.sqrt(variance))

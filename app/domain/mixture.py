"""The model of the evidence, as a mixture of normals.

Given the heterogeneity tau, everything about the true effect theta is normal and written down; tau is
integrated numerically (`Nodes`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Floats = NDArray[np.float64]

_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Scales of the sceptical prior: theta ~ N(0, theta_sd^2), tau ~ HalfNormal(tau_scale)."""

    theta_sd: float = 0.25
    tau_scale: float = 0.10

    def __post_init__(self) -> None:
        for name, value in (("theta_sd", self.theta_sd), ("tau_scale", self.tau_scale)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be finite and above 0, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Quadrature over tau = a sinh(t) by the trapezoid rule on t = 0, h, 2h, ...

    The integrand is even and analytic in tau (the likelihood sees tau^2, the half-normal is even), hence
    even in t, and for such functions the trapezoid rule converges exponentially in 1/h. With a <= min(s_i)
    the nearest singularities, tau = +-i s_i, lie at Im t = pi/2 whatever the scales, so near tau = 0 the
    steps are finer than the smallest s, and further out they grow with tau. `h` is one standard deviation
    of the sharpest peak that n effects of this size can make in t, `tau_max` leaves out less than exp(-40)
    of the integral.
    """

    tau: Floats
    log_weight: Floats
    edge: float  # times the weight of tau = 0: what the rule lacks for a mean of tau, odd in t


@lru_cache(maxsize=512)
def _nodes(scale_log2: int, step_log2: int, panels: int, tau_scale: float) -> Nodes:
    t = np.arange(panels + 1) * 2.0 ** (step_log2 / 4)
    tau = 2.0**scale_log2 * np.sinh(t)
    log_weight = np.log(np.cosh(t)) - tau**2 / (2 * tau_scale**2)
    log_weight[0] -= math.log(2)
    return Nodes(tau=tau, log_weight=log_weight, edge=float(tau[1]) / 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The standard errors and what the answer is asked against; the effects vary beside it."""

    se: Floats
    cut: float
    prior: Prior
    fineness: int = 1

    def nodes(self, y: Floats) -> Nodes:
        n, sigma = len(self.se), self.prior.tau_scale
        spread = (
            math.sqrt(max(float((y * y).sum(-1).max()), float(((y - self.cut) ** 2).sum(-1).max()))) / sigma
        )
        tau_max = sigma * math.sqrt(2 * spread + 80)
        scale_log2 = math.floor(math.log2(min(float(self.se.min()), sigma)))
        step_log2 = math.floor(4 * math.log2(1 / math.sqrt(2 * n + 4 * spread + 16)))
        reach = math.asinh(tau_max / 2.0**scale_log2)
        if self.fineness > 1:  # only tests ask for a finer grid
            step_log2 -= math.ceil(4 * math.log2(self.fineness))
        return _nodes(scale_log2, step_log2, math.ceil(reach / 2.0 ** (step_log2 / 4)), sigma)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Normal components of theta, one for each tau (last axis), for each row of effects (first axis)."""

    nodes: Nodes
    w: Floats  # (n, nodes): 1 / (s_i^2 + tau^2)
    log_p: Floats  # (rows, nodes): log posterior weight of each tau, normalised
    mean: Floats  # (rows, nodes)
    sd: Floats  # (nodes,)


def mixture(table: Table, y: Floats) -> Mixture:
    nodes = table.nodes(y)
    w = 1.0 / ((table.se**2)[:, None] + nodes.tau**2)
    shrink = table.prior.theta_sd**-2
    precision = w.sum(0) + shrink
    mean = (y @ w) / precision
    misfit = np.einsum("rnk,nk->rk", (y[:, :, None] - mean[:, None, :]) ** 2, w) + shrink * mean**2
    common = nodes.log_weight + 0.5 * (np.log(w).sum(0) - np.log(precision))
    log_p = common - 0.5 * misfit
    log_p -= log_sum(log_p)[:, None]
    return Mixture(nodes=nodes, w=w, log_p=log_p, mean=mean, sd=precision**-0.5)


def log_sum(x: Floats) -> Floats:
    top = x.max(-1)
    total: Floats = top + np.log(np.exp(x - top[..., None]).sum(-1))
    return total


def log_exceedance(table: Table, y: Floats) -> Floats:
    """log P(theta > cut) for each row of effects; in logs, since the tail may be made by tau that have next
    to no weight."""
    mix = mixture(table, y)
    return log_sum(mix.log_p + log_ndtr((mix.mean - table.cut) / mix.sd))


def log_exceedance_and_slope(
    cut: float, z: Floats, w: Floats, log_p: Floats, mean: Floats, sd: Floats
) -> tuple[float, Floats]:
    """log P(theta > cut) and its slope in each effect, from the mixture for z."""
    a = (mean - cut) / sd
    log_tail = log_ndtr(a)
    value = float(log_sum(log_p + log_tail))
    within = np.exp(log_p + log_tail - value)  # the weight of each tau among the exceeding
    hazard = np.exp(log_p - 0.5 * a * a - _LOG_ROOT_2PI - value) * sd
    shift = within - np.exp(log_p)
    slope: Floats = w @ (hazard + shift * mean) - z * (w @ shift)
    return value, slope

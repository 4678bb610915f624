"""Evidence synthesis: from adjusted effects to a price and a credible interval.

The model (docs/method.md, "Price") is a Bayesian random-effects meta-analysis of log ratios, positive is
better::

    y_i ~ N(theta, s_i^2 + tau^2)      theta ~ N(0, theta_sd^2)      tau ~ HalfNormal(tau_scale)

`app.domain.mixture` computes it; `app.domain.envelope` makes the price monotone; the frequentist pooled
effect is in `app.domain.pooled`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from app.domain.effects import Effect
from app.domain.envelope import price
from app.domain.mixture import Floats, Prior, Table, mixture


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """`price` is made monotone (see `app.domain.envelope`); the mean and the 95 % credible interval of theta
    and the mean of tau are the plain posterior's."""

    price: float
    mean: float
    low: float
    high: float
    tau_mean: float


def posterior(effects: Sequence[Effect], *, delta: float, prior: Prior | None = None) -> Posterior:
    """Price, mean and 95 % credible interval of the true effect. `delta` is the materiality: 0.10 for +10 %.

    The order of the effects never matters: they are sorted first. The relative error of P(theta > cut) is
    far below 1e-4.
    """
    if not (math.isfinite(delta) and delta > -1):
        raise ValueError(f"delta must be finite and above -1, got {delta!r}")
    prior = prior or Prior()
    cut = math.log1p(delta)
    if not effects:
        half = 1.959963984540054 * prior.theta_sd
        tau_mean = prior.tau_scale * math.sqrt(2 / math.pi)
        above = float(ndtr(-cut / prior.theta_sd))
        return Posterior(price=above, mean=0.0, low=-half, high=half, tau_mean=tau_mean)
    ordered = sorted(effects, key=lambda effect: (effect.y, effect.se))
    y = np.array([effect.y for effect in ordered])
    table = Table(se=np.array([effect.se for effect in ordered]), cut=cut, prior=prior)
    mix = mixture(table, y[None])
    p = np.exp(mix.log_p[0])
    keep = p > 1e-18
    low, high = _quantiles(p[keep], mix.mean[0][keep], mix.sd[keep], np.array([0.025, 0.975]))
    return Posterior(
        price=price(table, y, mix),
        mean=float(p @ mix.mean[0]),
        low=float(low),
        high=float(high),
        tau_mean=float(p @ mix.nodes.tau + p[0] * mix.nodes.edge),
    )


def _quantiles(p: Floats, mean: Floats, sd: Floats, probs: Floats) -> Floats:
    """Roots of the mixture's distribution function: Newton inside a bracket that halves when Newton does
    not help."""
    low = np.full_like(probs, float((mean - 9 * sd).min()))
    high = np.full_like(probs, float((mean + 9 * sd).max()))
    centre = float(p @ mean)
    spread = math.sqrt(float(p @ (sd**2 + (mean - centre) ** 2)))
    x = centre + spread * np.where(probs < 0.5, -1.96, 1.96)
    last, tiny = high - low, 1e-10 * spread
    for _ in range(200):
        z = (x[:, None] - mean) / sd
        miss = ndtr(z) @ p - probs
        low, high = np.where(miss < 0, x, low), np.where(miss < 0, high, x)
        density = np.maximum(np.exp(-0.5 * z * z) @ (p / sd) / math.sqrt(2 * math.pi), 1e-300)
        newton = -miss / density
        inside = (x + newton > low) & (x + newton < high) & (2 * np.abs(newton) < np.abs(last))
        last = np.where(inside | (np.abs(newton) < tiny), newton, 0.5 * (low + high) - x)
        x = x + last
        if (np.abs(last) < tiny).all():
            break
    return x

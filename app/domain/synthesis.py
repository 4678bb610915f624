"""Evidence synthesis: from adjusted effects to a price, and the frequentist pooled effect beside it.

The model (method.md, section 4) is a Bayesian random-effects meta-analysis of log ratios, positive is
better::

    y_i ~ N(theta, s_i^2 + tau^2)      theta ~ N(0, theta_sd^2)      tau ~ HalfNormal(tau_scale)

Given tau everything about theta is normal and written down; tau is integrated numerically (`_Nodes`).

**Why the price is not simply P(theta > ln(1 + delta)).** That probability is not monotone in the effects.
The heterogeneity tau is learned from the same numbers, so a result can be too good to help: three results
at 1.3x and a fourth at 1.3x give 0.9998, with the fourth at 3.0x 0.985, because the spread it brings counts
against all of them. At the other end a very bad result is explained away by a large tau, and less bad is
then worse. Nobody may lower the price of a claim by measuring a larger effect, so the price is the upper
envelope

    price(y) = sup { P(theta > ln(1 + delta) | z) : z <= y, componentwise }

"each effect is counted only up to the size at which it helps most". It is monotone by construction: if y <=
y' then every z that is allowed under y is allowed under y', so the supremum can only grow. It equals the
plain probability wherever that is increasing, which is nearly everywhere that evidence is found. One scalar
cap for all effects is *not* enough (in about 1 of 150 random tables, raising one effect still lowered the
price, by up to half where the price is small): an outlying imprecise result and a precise one stop helping
at different sizes. So `_envelope` lowers one effect after another; it starts from the table itself and from
the best scalar cap, and runs only when `_may_gain` says so.

A consequence: with any evidence the price never falls below `_floor`, the limit for one effect sent to
minus infinity (0.2 % under the default policy), where tau grows without bound and the other effects stop
counting.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

Floats = NDArray[np.float64]


class Method(StrEnum):
    """How the between-study variance is estimated in `pooled`."""

    REML = "REML"
    ML = "ML"
    DL = "DL"


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
class Prior:
    """Scales of the sceptical prior: theta ~ N(0, theta_sd^2), tau ~ HalfNormal(tau_scale)."""

    theta_sd: float = 0.25
    tau_scale: float = 0.10

    def __post_init__(self) -> None:
        for name, value in (("theta_sd", self.theta_sd), ("tau_scale", self.tau_scale)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be finite and above 0, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """`price` is the monotone envelope; mean, 95 % credible interval of theta and mean of tau are the plain
    posterior's."""

    price: float
    mean: float
    low: float
    high: float
    tau_mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of the time that a factor touches: uniform on [low, high], a point when the two are equal."""

    low: float = 0.5
    high: float = 0.9

    def __post_init__(self) -> None:
        for name, value in (("low", self.low), ("high", self.high)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be a share in [0, 1], got {value!r}")
        if self.low > self.high:
            raise ValueError(f"low must not be above high, got {self.low!r} > {self.high!r}")

    @classmethod
    def measured(cls, mean: float, sd: float) -> Share:
        """A profile's mean and standard deviation, as the uniform with those two moments, cut at [0, 1]."""
        if not 0 <= mean <= 1:
            raise ValueError(f"mean must be a share in [0, 1], got {mean!r}")
        if not (math.isfinite(sd) and sd >= 0):
            raise ValueError(f"sd must be finite and not below 0, got {sd!r}")
        half = sd * math.sqrt(3)
        return cls(low=max(0.0, mean - half), high=min(1.0, mean + half))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """Frequentist random effects. `se` is the classical 1/sqrt(sum w); low and high are the 95 %
    Hartung-Knapp interval."""

    estimate: float
    se: float
    low: float
    high: float
    tau2: float
    k: int
    method: Method


# --- the posterior ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nodes:
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
def _nodes(scale_log2: int, step_log2: int, panels: int, tau_scale: float) -> _Nodes:
    t = np.arange(panels + 1) * 2.0 ** (step_log2 / 4)
    tau = 2.0**scale_log2 * np.sinh(t)
    log_weight = np.log(np.cosh(t)) - tau**2 / (2 * tau_scale**2)
    log_weight[0] -= math.log(2)
    return _Nodes(tau=tau, log_weight=log_weight, edge=float(tau[1]) / 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The standard errors and what the answer is asked against; the effects vary beside it."""

    se: Floats
    cut: float
    prior: Prior
    fineness: int = 1

    def nodes(self, y: Floats) -> _Nodes:
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
class _Mixture:
    """Normal components of theta, one for each tau (last axis), for each row of effects (first axis)."""

    nodes: _Nodes
    w: Floats  # (n, nodes): 1 / (s_i^2 + tau^2)
    log_p: Floats  # (rows, nodes): log posterior weight of each tau, normalised
    mean: Floats  # (rows, nodes)
    sd: Floats  # (nodes,)


def _mixture(table: _Table, y: Floats) -> _Mixture:
    nodes = table.nodes(y)
    w = 1.0 / ((table.se**2)[:, None] + nodes.tau**2)
    shrink = table.prior.theta_sd**-2
    precision = w.sum(0) + shrink
    mean = (y @ w) / precision
    misfit = np.einsum("rnk,nk->rk", (y[:, :, None] - mean[:, None, :]) ** 2, w) + shrink * mean**2
    common = nodes.log_weight + 0.5 * (np.log(w).sum(0) - np.log(precision))
    log_p = common - 0.5 * misfit
    log_p -= _log_sum(log_p)[:, None]
    return _Mixture(nodes=nodes, w=w, log_p=log_p, mean=mean, sd=precision**-0.5)


def _log_sum(x: Floats) -> Floats:
    top = x.max(-1)
    total: Floats = top + np.log(np.exp(x - top[..., None]).sum(-1))
    return total


def _log_exceedance(table: _Table, y: Floats) -> Floats:
    """log P(theta > cut) for each row of effects; in logs, since the tail may be made by tau that have next
    to no weight."""
    mix = _mixture(table, y)
    return _log_sum(mix.log_p + log_ndtr((mix.mean - table.cut) / mix.sd))


def posterior(effects: Sequence[Effect], *, delta: float, prior: Prior | None = None) -> Posterior:
    """Price, mean and 95 % credible interval of the true effect. `delta` is the materiality: 0.10 for +10 %.

    The order of the effects never matters: they are sorted first. Relative error of the price is far below
    1e-4.
    """
    if not (math.isfinite(delta) and delta > -1):
        raise ValueError(f"delta must be finite and above -1, got {delta!r}")
    prior = prior or Prior()
    cut = math.log1p(delta)
    if not effects:
        half = 1.959963984540054 * prior.theta_sd
        tau_mean = prior.tau_scale * math.sqrt(2 / math.pi)
        price = float(ndtr(-cut / prior.theta_sd))
        return Posterior(price=price, mean=0.0, low=-half, high=half, tau_mean=tau_mean)
    ordered = sorted(effects, key=lambda effect: (effect.y, effect.se))
    y = np.array([effect.y for effect in ordered])
    table = _Table(se=np.array([effect.se for effect in ordered]), cut=cut, prior=prior)
    mix = _mixture(table, y[None])
    p = np.exp(mix.log_p[0])
    keep = p > 1e-18
    low, high = _quantiles(p[keep], mix.mean[0][keep], mix.sd[keep], np.array([0.025, 0.975]))
    return Posterior(
        price=_price(table, y, mix),
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
    last = high - low
    for _ in range(200):
        z = (x[:, None] - mean) / sd
        miss = ndtr(z) @ p - probs
        low, high = np.where(miss < 0, x, low), np.where(miss < 0, high, x)
        density = np.maximum(np.exp(-0.5 * z * z) @ (p / sd) / math.sqrt(2 * math.pi), 1e-300)
        newton = x - miss / density
        good = (newton > low) & (newton < high) & (2 * np.abs(miss) < np.abs(last) * density)
        last = np.where(good, -miss / density, 0.5 * (low + high) - x)
        x = x + last
        if (np.abs(last) < 1e-10 * spread).all():
            break
    return x


# --- the monotone envelope ----------------------------------------------------------------------------------

_AROUND = np.concatenate(
    (-np.geomspace(0.3, 0.003, 6), [0.0], np.geomspace(0.003, 0.3, 6))
)  # and how near each other
_ROUNDS = 8
_STARTS = 2  # ascents that begin with one effect lowered, beside those from the table and the best cap
_GAIN = 1e-5  # a round that improves the log price by less ends the search
_NEGLIGIBLE = 1e-5  # a relative gain in price, or slope of it, that is not worth a search
_VALLEY_PRICE = 0.15  # below it, and with an effect above _LARGE, y may lie past a valley: search
_LARGE = 0.7


def _floor(table: _Table) -> float:
    """P(theta > cut) with one effect at minus infinity: tau^2 grows like |y| tau_scale, so y / tau^2 -> -1
    / tau_scale."""
    theta_sd = table.prior.theta_sd
    return float(ndtr(-(table.cut + theta_sd**2 / table.prior.tau_scale) / theta_sd))


def _price(table: _Table, y: Floats, mix: _Mixture) -> float:
    z = (mix.mean[0] - table.cut) / mix.sd
    log_tail = log_ndtr(z)
    log_price = float(_log_sum(mix.log_p + log_tail)[0])
    if _may_gain(table, y, mix, z, log_tail, log_price):
        log_price = _envelope(table, y, log_price)
    return min(1.0, max(math.exp(log_price), _floor(table)))


def _may_gain(table: _Table, y: Floats, mix: _Mixture, z: Floats, log_tail: Floats, log_price: float) -> bool:
    """Whether lowering an effect could raise the probability: its slope is negative, two effects made equal
    do better, or y may lie past a valley (a price is low or an effect large)."""
    if log_price > -_NEGLIGIBLE:  # nothing above 1 to gain
        return False
    if y[-1] > _LARGE or (log_price < math.log(_VALLEY_PRICE) and len(y) > 1):
        return True
    p = np.exp(mix.log_p[0])
    tail = np.exp(log_tail) - math.exp(log_price)
    density = np.exp(-0.5 * z * z) * mix.sd / math.sqrt(2 * math.pi)
    slope = mix.w @ (p * density) - ((y[:, None] - mix.mean[0]) * mix.w) @ (p * tail)
    if (slope < -_NEGLIGIBLE * math.exp(log_price)).any():
        return True
    return bool(_log_exceedance(table, _lower_in_line(y)).max() > log_price + _NEGLIGIBLE)


def _lower_in_line(y: Floats) -> Floats:
    """Each pair of effects made equal to the lower one, and all effects capped at each: the far side of a
    valley."""
    n = len(y)
    pairs = np.tile(y, (n * n, 1))
    pairs[np.arange(n * n), np.repeat(np.arange(n), n)] = np.minimum(y[:, None], y).ravel()
    return np.concatenate((pairs, np.minimum(y, y[:, None])))


def _envelope(table: _Table, y: Floats, log_price: float) -> float:
    down = y[-1] - np.geomspace(1e-3, max(6.0, y[-1] - y[0] + 3.0, y[-1] + 1.0), 25)
    places = np.unique(np.concatenate(((y[:, None] + _AROUND).ravel(), down)))
    search = _Search.over(table, y, places)
    capped = search.cap(y)
    alone = sorted((search.lower_one(y, j) for j in range(len(y))), key=lambda found: -found[1])
    starts = [y, capped, *(z for z, _ in alone[:_STARTS])]
    return max(log_price, *(search.ascend(start) for start in starts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """Ascent of log P(theta > cut) over the box z <= y, with one set of nodes for all of it."""

    table: _Table
    y: Floats
    places: Floats  # values that an effect is tried at, ascending
    w: Floats
    precision: Floats
    common: Floats  # (nodes,): the part of the log weight that does not depend on the effects

    @classmethod
    def over(cls, table: _Table, y: Floats, places: Floats) -> _Search:
        nodes = table.nodes(np.stack((y, np.append(places[0], y[1:]))))
        w = 1.0 / ((table.se**2)[:, None] + nodes.tau**2)
        precision = w.sum(0) + table.prior.theta_sd**-2
        common = nodes.log_weight + 0.5 * (np.log(w).sum(0) - np.log(precision))
        return cls(table=table, y=y, places=places, w=w, precision=precision, common=common)

    def value(self, first: Floats, second: Floats) -> Floats:
        """The log probability, from sum w z and sum w z^2 (rows, nodes)."""
        mean = first / self.precision
        log_p = self.common - 0.5 * (second - mean * first)
        tail = log_ndtr((mean - self.table.cut) * np.sqrt(self.precision))
        return _log_sum(log_p + tail) - _log_sum(log_p)

    def ascend(self, start: Floats) -> float:
        z, value = start, -math.inf
        for _ in range(_ROUNDS):
            before = value
            for j in range(len(z)):
                z, value = self.lower_one(z, j)
            if value - before < _GAIN:
                break
            z = self.cap(z)
        return value

    def lower_one(self, z: Floats, j: int) -> tuple[Floats, float]:
        """Effect j at its best place below y_j: first on `places`, then between the neighbours of the
        best."""
        others = z.copy()
        others[j] = 0.0
        first, second = others @ self.w, (others * others) @ self.w
        tries = np.append(self.places[self.places < self.y[j]], self.y[j])
        best, value = float(z[j]), -math.inf
        for _ in range(6):
            tries = np.unique(np.append(tries, best))
            t = tries[:, None]
            values = self.value(first + self.w[j] * t, second + self.w[j] * (t * t))
            i = int(values.argmax())
            best, value = float(tries[i]), float(values[i])
            tries = np.linspace(tries[max(i - 1, 0)], tries[min(i + 1, len(tries) - 1)], 9)
        others[j] = best
        return others, value

    def cap(self, z: Floats) -> Floats:
        """All effects capped at the one value that is best for them together."""
        rows = np.minimum(z, np.append(self.places[self.places >= self.y[0]], math.inf)[:, None])
        best: Floats = rows[int(self.value(rows @ self.w, (rows * rows) @ self.w).argmax())]
        return best


# --- projection to a higher level ---------------------------------------------------------------------------

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


# --- frequentist pooling ------------------------------------------------------------------------------------


def pooled(effects: Sequence[Effect], method: Method = Method.REML) -> Pooled | None:
    """Pooled effect with the Hartung-Knapp interval, from PyMARE; None with fewer than two effects.

    PyMARE is imported here because it takes more than a second and only pages ask for it. The numbers are
    given to it in units of the median standard error: its search for tau^2 has an absolute floor, and all
    three estimators are equivariant under scaling. Effects that are all equal leave no dispersion to
    estimate an interval from (Hartung-Knapp's factor is 0): the interval then has length 0.
    """
    if len(effects) < 2:
        return None
    ordered = sorted(effects, key=lambda effect: (effect.y, effect.se))
    y, se = np.array([e.y for e in ordered]), np.array([e.se for e in ordered])
    unit = float(np.median(se))
    centre = float(y[len(y) // 2])
    scaled, v = ((y - centre) / unit)[:, None], ((se / unit) ** 2)[:, None]
    fitted = _pymare_fit(scaled, v, method)
    tau2 = float(np.ravel(fitted.params_["tau2"])[0])
    estimate = float(np.ravel(fitted.params_["fe_params"])[0]) * unit + centre
    hartung_knapp = math.sqrt(max(float(np.ravel(fitted.params_["inv_cov"])[0]), 0.0)) * unit
    half = _student_975(len(y) - 1) * hartung_knapp
    classical = unit / math.sqrt(float((1 / (v + tau2)).sum()))
    return Pooled(
        estimate=estimate,
        se=classical,
        low=estimate - half,
        high=estimate + half,
        tau2=tau2 * unit**2,
        k=len(y),
        method=method,
    )


def _pymare_fit(y: Floats, v: Floats, method: Method) -> Any:
    with warnings.catch_warnings():
        # Its import leaves a file open, and a fit warns when equal effects leave a statistic undefined.
        warnings.simplefilter("ignore")
        from pymare import estimators

        if method is Method.DL:
            estimator = estimators.DerSimonianLaird()
        else:
            estimator = estimators.VarianceBasedLikelihoodEstimator(method=method.value, xtol=1e-10)
        return estimator.fit(y=y, v=v, X=np.ones_like(y))


def _student_975(df: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.975))

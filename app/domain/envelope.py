"""The price: P(theta > cut), made monotone in every effect.

**Why not simply that probability.** It is not monotone. The heterogeneity tau is learned from the same
numbers, so a result can be too good to help: three results at 1.3x and a fourth at 1.3x give 0.9998, with
the fourth at 3.0x 0.985, because the spread that it brings counts against all of them. The mirror image
holds for refuting evidence: three results at 1.05x and a fourth at 1.05x give 0.007, with the fourth at 0.3x
0.020, because the spread makes a large effect thinkable again. Nobody may lower the price of a claim by
measuring a larger effect, nor raise it by measuring a smaller one.

**The two envelopes.** Counting each effect only up to the size at which it helps most, or only down to the
size at which it hurts most::

    highest(y) = sup { P(theta > cut | z) : z <= y, each }
    lowest(y)  = inf { P(theta > cut | z) : z >= y, each }

are both monotone in each effect, and lowest <= P <= highest. But the highest spoils ordinary refuting
evidence (four results at 1.05 +- 0.02 would cost 0.043 in place of 0.0065, since sending one of them down
makes disagreement and so doubt), as the lowest spoils ordinary supporting evidence. So

    price(y) = highest(y) if highest(y) >= 1/2, else lowest(y)

which is monotone too: take y <= y'. Where highest(y) >= 1/2, both prices are `highest`; else price(y) =
lowest(y) <= lowest(y') <= highest(y'), and the price of y' is one of these two. It equals the plain
probability wherever evidence of either kind agrees. It jumps where `highest` passes 1/2 with `lowest` below:
there P has to rise by lowering an effect or fall by raising one, so only discordant tables have that jump.

**How it is found.** Most tables need no search: no slope of P points the wrong way by more than a relative
`_NEGLIGIBLE`, and no two effects are so far apart that a valley could lie between them (`_extreme`). For the
others `_Search` climbs from many places. That it found the best one is tested, not proven: the price is
monotone up to a relative 2e-3 or an absolute 1e-4. Below 1e-12 (`_TINY`) it is the plain probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from app.domain.mixture import Floats, Mixture, Table, log_exceedance_and_slope, log_sum

_HALF = math.log(0.5)
_NEGLIGIBLE = 1e-4  # a relative gain that is not worth a search
_TINY = math.log(1e-12)  # nor is a lower price than this
_APART = 2.5  # two effects this many standard errors apart may have a valley between them
_FAR = 4.0  # or an effect this many prior standard deviations from 0
_MARGIN = 10.0  # tau_scales below all effects and the cut at which a search ends


def price(table: Table, y: Floats, mix: Mixture) -> float:
    """`mix` is the mixture for `y`."""
    plain, slope = log_exceedance_and_slope(table.cut, y, mix.w, mix.log_p[0], mix.mean[0], mix.sd)
    # Given tau, P >= 1/2 is mean >= cut, and the mean only falls with the effects: without such a tau,
    # `highest` is below 1/2.
    if (mix.mean[0] >= table.cut).any():
        highest = _extreme(table, y, mix, plain, slope, 1)
        if highest >= _HALF:
            return min(1.0, math.exp(highest))
    return math.exp(_extreme(table, y, mix, plain, slope, -1))


def _extreme(table: Table, y: Floats, mix: Mixture, plain: float, slope: Floats, sign: int) -> float:
    """log highest(y) for sign 1, log lowest(y) for sign -1; `slope` is that of the plain log probability."""
    if plain > -_NEGLIGIBLE if sign > 0 else plain < _TINY:
        return plain
    drop = sign * y - _bottom(table, sign * y, sign)
    apart = _apart(table, y)
    if not apart:
        tau2 = np.exp(mix.log_p[0]) @ mix.nodes.tau**2
        drop = np.minimum(drop, np.sqrt(table.se**2 + tau2))
    downhill = bool((-slope * drop > 0.5 * _NEGLIGIBLE).any())
    if not downhill and not apart:
        return plain
    search = _Search.over(table, y, sign)
    if not apart:
        return sign * search.climb(y)[1]
    return sign * search.best(y, sign * plain, downhill=downhill)


def _bottom(table: Table, top: Floats, sign: int) -> float:
    """How far down a search goes: below all effects, since disagreement too may help."""
    return min(float(top.min()), sign * table.cut) - _MARGIN * table.prior.tau_scale


def _apart(table: Table, y: Floats) -> bool:
    """Whether there may be a valley between two effects, or between an effect and the prior."""
    variance = table.se**2
    return bool(
        (np.abs(y) > _FAR * table.prior.theta_sd).any()
        or ((y[:, None] - y) ** 2 > _APART**2 * (variance[:, None] + variance)).any()
    )


_BESIDE = np.array([0.0, 0.02, 0.05, 0.1, 0.2])  # places above other effects at which an effect is tried
_MANY = 8  # effects: beyond it, only quantiles of them and the outermost of them are tried
_BASINS = 3  # local maxima along a cap that are climbed from
_LADDER = 24  # evenly spaced places beside them
_DEPTH = 0.1  # a start across a valley may be this much worse, in the log
_LEVELS = np.array([0.25, 0.5, 0.75])  # quantiles of the effects that all are capped at for a first climb
_ROUNDS = 4
_STEPS = 60
_LITTLE = 2e-5  # a gain, in the log, that ends a climb
_STRIDES = 2.0 ** np.arange(-8, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The largest sign * log P(theta > cut) over bottom <= sign z <= top = sign y, with one set of nodes."""

    table: Table
    sign: int
    top: Floats
    bottom: float
    scale: Floats  # the length over which an effect matters
    w: Floats
    precision: Floats
    common: Floats  # (nodes,): the part of the log weight that does not depend on the effects

    @classmethod
    def over(cls, table: Table, y: Floats, sign: int) -> _Search:
        top = sign * y
        bottom = _bottom(table, top, sign)
        nodes = table.nodes(np.stack((y, np.append(sign * bottom, y[1:]))))
        w = 1.0 / ((table.se**2)[:, None] + nodes.tau**2)
        precision = w.sum(0) + table.prior.theta_sd**-2
        return cls(
            table=table,
            sign=sign,
            top=top,
            bottom=bottom,
            scale=np.sqrt(table.se**2 + (0.5 * table.prior.tau_scale) ** 2),
            w=w,
            precision=precision,
            common=nodes.log_weight + 0.5 * (np.log(w).sum(0) - np.log(precision)),
        )

    def best(self, y: Floats, value: float, *, downhill: bool) -> float:
        """Climb from y, from where a cap on all effects or one effect lowered does best, and again from the
        best of these."""
        if downhill:
            z, value = self.climb(y)
            levels = np.quantile(self.top, _LEVELS)[:, None]
            starts = [*self.starts(z, -math.inf), *(self.sign * np.minimum(self.top, levels))]
        else:
            z, starts = y, self.starts(y, value)
        for _ in range(_ROUNDS):
            before = value
            for start in starts:
                found, at_found = self.climb(start)
                if at_found > value:
                    z, value = found, at_found
            if value - before < _NEGLIGIBLE:
                break
            starts = self.starts(z, value)
        return value

    def starts(self, z: Floats, least: float) -> list[Floats]:
        """Peaks along a cap on all effects, and along each effect lowered alone; with the value of z as the
        least, only those across a valley."""
        u = self.sign * z
        marks = np.unique(u) if len(u) <= _MANY else np.quantile(u, np.linspace(0, 1, 6))
        ladder = np.linspace(self.bottom, u.max(), _LADDER)
        places = np.unique(np.concatenate((ladder, (marks[:, None] + _BESIDE).ravel())))
        places = places[places < u.max()]
        caps = np.minimum(u, places[:, None])
        outer = np.argsort(-u)[:_MANY]
        rungs = np.unique(np.concatenate((ladder, (marks[:, None] + _BESIDE[::2]).ravel())))
        which, rung = np.nonzero(rungs < u[outer, None])
        alone = np.tile(u, (len(which), 1))
        alone[np.arange(len(which)), outer[which]] = rungs[rung]
        return [*self._peaks(caps, np.zeros(len(caps)), least), *self._peaks(alone, which, least)]

    def _peaks(self, lowered: Floats, line: NDArray[Any], least: float) -> list[Floats]:
        """The best local maxima along each line of rows that ascend towards z, whose own value is `least`."""
        if not len(lowered):
            return []
        z = self.sign * lowered
        v = self.values(z)
        same = line[1:] == line[:-1]
        above = np.append(np.where(same, v[1:], least), least)
        below = np.append(-math.inf, np.where(same, v[:-1], -math.inf))
        peaks = np.flatnonzero((v > above) & (v >= below) & (v > least - _DEPTH))
        return list(z[peaks[np.argsort(-v[peaks])][:_BASINS]])

    def values(self, z: Floats) -> Floats:
        """The objective for each row."""
        mean, log_p = self._components(z)
        tail = log_ndtr((mean - self.table.cut) * np.sqrt(self.precision))
        result: Floats = self.sign * (log_sum(log_p + tail) - log_sum(log_p))
        return result

    def _components(self, z: Floats) -> tuple[Floats, Floats]:
        mean = (z @ self.w) / self.precision
        return mean, self.common - 0.5 * ((z * z) @ self.w - mean * mean * self.precision)

    def climb(self, start: Floats) -> tuple[Floats, float]:
        """BFGS among the effects that are free to move, several strides tried at once. `x` is how far each
        effect is lowered, in units of its scale."""
        far = (self.top - self.bottom) / self.scale
        x = np.clip((self.top - self.sign * start) / self.scale, 0.0, far)
        value, slope = self._at(x)
        inverse = None
        for _ in range(_STEPS):
            free = ~(((x <= 0) & (slope <= 0)) | ((x >= far) & (slope >= 0)))
            ascent = np.where(free, slope, 0.0)
            if not ascent.any():
                break
            if inverse is not None:
                ascent = np.where(free, inverse @ ascent, 0.0)
            if inverse is None or ascent @ slope <= 0:
                inverse, ascent = None, np.where(free, slope, 0.0) / np.abs(slope[free]).max()
            tries = np.clip(x + _STRIDES[:, None] * ascent, 0.0, far)
            values = self.values(self._z(tries))
            i = int(values.argmax())
            if values[i] <= value + _LITTLE:
                if inverse is None:
                    break
                inverse = None
                continue
            step, last = tries[i] - x, slope
            x = tries[i]
            value, slope = self._at(x)
            inverse = _bfgs(inverse, step, last - slope)
        return self._z(x), value

    def _z(self, x: Floats) -> Floats:
        return np.asarray(self.sign * (self.top - x * self.scale))

    def _at(self, x: Floats) -> tuple[float, Floats]:
        mean, log_p = self._components(self._z(x))
        value, slope = log_exceedance_and_slope(
            self.table.cut, self._z(x), self.w, log_p - log_sum(log_p), mean, self.precision**-0.5
        )
        return self.sign * value, -slope * self.scale


def _bfgs(inverse: Floats | None, step: Floats, bend: Floats) -> Floats | None:
    """The inverse of the curvature, learned from one more step; kept as it is if the step does not bend."""
    c = float(step @ bend)
    if c <= 1e-12:
        return inverse
    unit = np.eye(len(step))
    left = unit - np.outer(step, bend) / c
    before = unit * (c / float(bend @ bend)) if inverse is None else inverse
    return np.asarray(left @ before @ left.T + np.outer(step, step) / c)

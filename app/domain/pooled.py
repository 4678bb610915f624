"""The frequentist pooled effect, drawn beside the price."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from app.domain.effects import Effect
from app.domain.mixture import Floats


class Method(StrEnum):
    """How the between-study variance is estimated in `pooled`."""

    REML = "REML"
    ML = "ML"
    DL = "DL"


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

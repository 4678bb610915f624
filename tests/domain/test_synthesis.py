"""Synthesis against figures from outside: published tables, worked prices, independent quadrature."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import ndtr

from app.domain.effects import MIN_SHARE, Effect, Share, project
from app.domain.mixture import Prior, Table, log_exceedance
from app.domain.pooled import Method, pooled
from app.domain.synthesis import posterior

CUT = math.log(1.1)
GOLDEN = Path(__file__).parent.parent / "golden" / "meta_analysis"
Row = list[float]


def log_risk_ratio(row: Row) -> Effect:
    a, b, c, d = row
    return Effect(
        y=math.log(a / (a + b) / (c / (c + d))), se=math.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d))
    )


def log_odds_ratio(row: Row) -> Effect:
    a, b, c, d = row
    return Effect(y=math.log(a * d / (b * c)), se=math.sqrt(1 / a + 1 / b + 1 / c + 1 / d))


def log_odds_ratio_of_totals(row: Row) -> Effect:
    a, n1, c, n2 = row
    cells = [a, n1 - a, c, n2 - c]
    return log_odds_ratio([cell + 0.5 for cell in cells] if 0 in cells else cells)


def mean_difference(row: Row) -> Effect:
    n1, m1, sd1, n2, m2, sd2 = row
    variance = ((n1 - 1) * sd1**2 + (n2 - 1) * sd2**2) / (n1 + n2 - 2)
    return Effect(y=m1 - m2, se=math.sqrt(variance * (1 / n1 + 1 / n2)))


READERS: dict[tuple[str, str], Callable[[Row], Effect]] = {
    ("bcg", "log risk ratio"): log_risk_ratio,
    ("bcg", "log odds ratio"): log_odds_ratio,
    ("teacher_expectancy", "as given"): lambda row: Effect(y=row[0], se=math.sqrt(row[1])),
    ("stroke_stay", "mean difference"): mean_difference,
    ("liver_transplant", "log odds ratio"): log_odds_ratio_of_totals,
}


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return document


def cases() -> list[Any]:
    found = []
    for path in sorted(GOLDEN.glob("*.json")):
        document = read(path.stem)
        for case in document["cases"]:
            label = f"{path.stem}-{case['measure']}-{case['method']}"
            found.append(pytest.param(path.stem, document, case, id=label.replace(" ", "_")))
    return found


@pytest.mark.parametrize(("name", "document", "case"), cases())
def test_published_meta_analyses(name: str, document: dict[str, Any], case: dict[str, Any]) -> None:
    effects = [READERS[name, case["measure"]](row) for row in document["data"]["rows"]]
    got = pooled(effects, Method(case["method"]))
    assert got is not None
    figures = {
        "estimate": got.estimate,
        "se": got.se,
        "tau2": got.tau2,
        "tau": math.sqrt(got.tau2),
        "low": got.low,
        "high": got.high,
        "exp_low": math.exp(got.low),
        "exp_high": math.exp(got.high),
        "wald_low": got.estimate - 1.959964 * got.se,
        "wald_high": got.estimate + 1.959964 * got.se,
    }
    for figure, expected in case["expected"].items():
        # half a unit of the last printed digit
        slack = 0.51 * 10 ** -case["digits"] + 1e-8 * abs(expected)
        assert figures[figure] == pytest.approx(expected, abs=slack), figure
    assert got.k == len(effects)


def test_hartung_knapp_interval_of_bcg_from_its_formula() -> None:
    """Knapp & Hartung 2003, eq. 5: variance sum w (y - m)^2 / ((k - 1) sum w), t with k - 1 degrees of
    freedom."""
    effects = [log_risk_ratio(row) for row in read("bcg")["data"]["rows"]]
    got = pooled(effects)
    assert got is not None
    w = np.array([1 / (e.se**2 + got.tau2) for e in effects])
    y = np.array([e.y for e in effects])
    mean = (w * y).sum() / w.sum()
    half = 2.178812829663418 * math.sqrt((w * (y - mean) ** 2).sum() / 12 / w.sum())
    assert (got.estimate, got.low, got.high) == pytest.approx((mean, mean - half, mean + half), rel=1e-9)


def test_published_bayesian_meta_analysis() -> None:
    document = read("liver_transplant")
    bayes = document["bayes"]
    effects = [log_odds_ratio_of_totals(row) for row in document["data"]["rows"]]
    prior = Prior(theta_sd=bayes["theta_sd"], tau_scale=bayes["tau_scale"])
    got = posterior(effects, delta=0.1, prior=prior)
    assert got.mean == pytest.approx(bayes["expected"]["mean"], abs=1e-4)
    assert got.tau_mean == pytest.approx(bayes["expected"]["tau_mean"], abs=2e-4)
    low, high = bayes["shortest_95_interval"]
    assert _plain(effects, low, prior) - _plain(effects, high, prior) == pytest.approx(0.95, abs=5e-4)
    assert _plain(effects, bayes["expected"]["median"], prior) == pytest.approx(0.5, abs=2e-4)
    assert (got.low, got.high) == pytest.approx((low, high), abs=0.02)


@pytest.mark.parametrize(
    ("table", "printed"),
    [
        ([], "0.3515"),
        ([(1.30, 0.03)], "0.919"),
        ([(1.00, 0.02)], "0.095"),
        ([(1.15, 0.02)], "0.724"),
        ([(2.00, 0.05)], "0.989"),
        ([(1.30, 0.03), (1.25, 0.03)], "0.979"),
        ([(1.00, 0.02), (1.01, 0.03)], "0.030"),
    ],
)
def test_worked_prices(table: list[tuple[float, float]], printed: str) -> None:
    price = posterior([ratio(*row) for row in table], delta=0.10).price
    assert f"{price:.{len(printed) - 2}f}" == printed


def ratio(value: float, se: float) -> Effect:
    return Effect(y=math.log(value), se=se)


def _plain(effects: list[Effect], cut: float, prior: Prior, fineness: int = 1) -> float:
    """The plain posterior probability, before the envelope."""
    table = Table(se=np.array([e.se for e in effects]), cut=cut, prior=prior, fineness=fineness)
    return float(np.exp(log_exceedance(table, np.array([[e.y for e in effects]])))[0])


@pytest.mark.parametrize(
    "table", [[(1.3, 0.03)], [(1.3, 0.1), (0.9, 0.2)], [(1.15, 0.05), (1.2, 0.08), (0.98, 0.06)]], ids=str
)
def test_against_two_dimensional_quadrature(table: list[tuple[float, float]]) -> None:
    effects, cut, prior = [ratio(*row) for row in table], math.log1p(0.1), Prior()

    def joint(theta: float, tau: float) -> float:
        log = -0.5 * (theta / prior.theta_sd) ** 2 - 0.5 * (tau / prior.tau_scale) ** 2
        for e in effects:
            v = e.se**2 + tau**2
            log -= 0.5 * (math.log(v) + (e.y - theta) ** 2 / v)
        return math.exp(log)

    above, _ = dblquad(joint, 0, 1.2, cut, 2.0, epsabs=1e-10, epsrel=1e-8)
    below, _ = dblquad(joint, 0, 1.2, -2.0, cut, epsabs=1e-10, epsrel=1e-8)
    assert _plain(effects, cut, prior) == pytest.approx(above / (above + below), rel=1e-6)


@pytest.mark.parametrize("se", [0.001, 0.003, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 40, 300])
@pytest.mark.parametrize(
    ("centre", "spread"), [(0.26, 0.0), (0.1, 0.02), (0.0, 0.3), (-1.0, 1.0), (1.0, 1.0)]
)
def test_ten_times_finer_grid_agrees(se: float, n: int, centre: float, spread: float) -> None:
    rng = np.random.default_rng(7)
    effects = [
        Effect(y=centre + spread * x, se=se * s)
        for x, s in zip(rng.normal(size=n), rng.uniform(1, 3, n), strict=True)
    ]
    cut = math.log1p(0.1)
    coarse, fine = _plain(effects, cut, Prior()), _plain(effects, cut, Prior(), fineness=10)
    assert coarse == pytest.approx(fine, rel=1e-6, abs=1e-290)


@pytest.mark.parametrize(
    "table",
    [[(1.3, 0.001)], [(1.3, 0.001), (1.3, 0.001), (1.301, 0.002)], [(0.5, 0.02), (2.0, 0.3)]],
    ids=str,
)
def test_against_a_brute_force_grid(table: list[tuple[float, float]]) -> None:
    effects, cut = [ratio(*row) for row in table], math.log1p(0.1)
    tau = np.concatenate((np.linspace(0, 0.05, 200_001)[:-1], np.linspace(0.05, 3, 200_001)))
    v = np.array([[e.se**2] for e in effects]) + tau**2
    y = np.array([[e.y] for e in effects])
    precision = (1 / v).sum(0) + 16
    mean = (y / v).sum(0) / precision
    log = -50 * tau**2 - 0.5 * np.log(v).sum(0) - 0.5 * np.log(precision)
    log -= 0.5 * (((y - mean) ** 2 / v).sum(0) + 16 * mean**2)
    density = np.exp(log - log.max())
    expected = np.trapezoid(density * ndtr((mean - cut) * np.sqrt(precision)), tau) / np.trapezoid(
        density, tau
    )
    assert _plain(effects, cut, Prior()) == pytest.approx(float(expected), rel=1e-6)


def test_interval_holds_95_percent() -> None:
    effects = [ratio(1.3, 0.03), ratio(1.1, 0.05), ratio(1.6, 0.2)]
    got = posterior(effects, delta=0.1)
    assert _plain(effects, got.low, Prior()) == pytest.approx(0.975, abs=1e-8)
    assert _plain(effects, got.high, Prior()) == pytest.approx(0.025, abs=1e-8)


AGREEING = [
    [(1.05, 0.02)] * 4,
    [(1.00, 0.02)] * 10,
    [(1.30, 0.03)] * 4,
    [(1.00, 0.03), (1.30, 0.03)],
    [(1.00, 0.02)],
]


@pytest.mark.parametrize("table", AGREEING, ids=str)
def test_price_of_ordinary_evidence_is_the_plain_probability(table: list[tuple[float, float]]) -> None:
    effects = [ratio(*row) for row in table]
    assert posterior(effects, delta=0.1).price == pytest.approx(_plain(effects, CUT, Prior()), rel=1e-4)


def test_figures_of_ordinary_evidence() -> None:
    """So that a change of the model itself shows."""
    prices = [posterior([ratio(*row) for row in table], delta=0.1).price for table in AGREEING]
    assert prices == pytest.approx([0.0065026, 2.44834e-9, 0.9997743, 0.592395, 0.0947548], rel=1e-4)


def test_a_result_too_good_to_help_does_not_lower_the_price() -> None:
    three = [ratio(1.3, 0.03)] * 3
    level, outlier = ([*three, ratio(r, 0.03)] for r in (1.3, 3.0))
    assert _plain(outlier, CUT, Prior()) == pytest.approx(0.98515, abs=5e-5)  # why an envelope is needed
    before, after = (posterior(effects, delta=0.1).price for effects in (level, outlier))
    assert before == pytest.approx(0.999774, abs=2e-6)
    assert after == pytest.approx(0.999783, abs=2e-6)


def test_a_result_too_bad_to_hurt_does_not_raise_the_price() -> None:
    three = [ratio(1.05, 0.02)] * 3
    level, outlier = ([*three, ratio(r, 0.02)] for r in (1.05, 0.3))
    assert _plain(outlier, CUT, Prior()) == pytest.approx(0.020156, rel=1e-4)
    before, after = (posterior(effects, delta=0.1).price for effects in (level, outlier))
    assert before == pytest.approx(0.0065026, rel=1e-4)
    assert after == pytest.approx(0.0058349, rel=1e-4)  # the fourth at about 1.03 hurts most


def test_price_does_not_rise_as_a_bad_result_gets_worse() -> None:
    effects = [[ratio(r, 0.03)] for r in (0.01, 0.1, 0.3, 0.5, 0.8, 1.0)]
    prices = [posterior(table, delta=0.1).price for table in effects]
    assert all(worse <= better * (1 + 1e-5) for worse, better in pairwise(prices))
    assert _plain(effects[0], CUT, Prior()) > 1.5 * _plain(effects[2], CUT, Prior())
    assert prices[0] == pytest.approx(prices[2], rel=1e-4) == pytest.approx(0.00096918, rel=1e-4)


def test_price_keeps_its_relative_precision_when_it_is_small() -> None:
    """Against a direct search over the one effect that is lowered; 1 - (1 - p) would have 4 digits left."""
    steady = [ratio(0.98, 0.01)] * 5
    lifted = [_plain([*steady, Effect(y=y, se=0.02)], CUT, Prior()) for y in np.linspace(-0.3, 0.2, 2001)]
    price = posterior([*steady, Effect(y=-0.3, se=0.02)], delta=0.1).price
    assert 1e-12 < price < 1e-6
    assert price == pytest.approx(min(lifted), rel=1e-3)


@pytest.mark.parametrize("value", [1.0, 1.1, 1.3, 2.0])
def test_price_of_many_agreeing_effects_is_a_probability(value: float) -> None:
    for count in (10, 30, 60):
        assert 0 <= posterior([ratio(value, 0.03)] * count, delta=0.1).price <= 1


@pytest.mark.parametrize("field", ["y", "se"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_effect_refuses_what_is_not_finite(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{field} "):
        Effect(**{"y": 0.1, "se": 0.1, field: value})


@pytest.mark.parametrize("se", [0.0, -0.1])
def test_effect_refuses_a_standard_error_that_is_not_positive(se: float) -> None:
    with pytest.raises(ValueError, match=r"^se "):
        Effect(y=0.1, se=se)


@pytest.mark.parametrize("bad", [{"low": -0.1}, {"high": 1.1}, {"low": 0.8, "high": 0.2}, {"low": math.nan}])
def test_share_outside_zero_to_one_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"^(low|high) "):
        Share(**bad)


@pytest.mark.parametrize("high", [0.0, 1e-300])
def test_share_of_nothing_is_refused(high: float) -> None:
    with pytest.raises(ValueError, match=r"^high must be at least 1e-06"):
        Share(low=0, high=high)
    with pytest.raises(ValueError, match=r"^high must be at least 1e-06"):
        Share.measured(high, 0.0)


def test_projection_onto_the_smallest_share() -> None:
    got = project(ratio(2, 0.03), Share(low=0, high=MIN_SHARE))
    assert 0 < got.y < 1e-6
    assert 0 < got.se < 1e-6


@pytest.mark.parametrize(
    ("mean", "sd", "field"), [(1.2, 0.1, "mean"), (0.5, -0.1, "sd"), (0.5, math.nan, "sd")]
)
def test_measured_share_is_checked(mean: float, sd: float, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field} "):
        Share.measured(mean, sd)


@pytest.mark.parametrize("bad", [{"theta_sd": 0.0}, {"tau_scale": math.inf}])
def test_prior_is_checked(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Prior(**bad)


def test_delta_is_checked() -> None:
    with pytest.raises(ValueError, match=r"^delta "):
        posterior([], delta=-1.0)


def test_projection_by_hand() -> None:
    """Twice as fast on half of the time: 1 / (0.5 + 0.25) = 4/3; slope f e^-y / (1 - f + f e^-y) = 1/3."""
    got = project(ratio(2, 0.03), Share(low=0.5, high=0.5))
    assert (got.y, got.se) == pytest.approx((math.log(4 / 3), 0.01), rel=1e-12)


def test_projection_of_the_seed() -> None:
    """+29 to 40 % on a kernel: y about 0.296, share uniform on [0.5, 0.9]; the mean over f by a fine sum."""
    f = 0.5 + 0.4 * (np.arange(200_000) + 0.5) / 200_000
    y = -np.log1p(f * math.expm1(-0.296))
    slope = f * np.exp(y - 0.296)
    got = project(Effect(y=0.296, se=0.1), Share())
    assert got.y == pytest.approx(float(y.mean()), rel=1e-9)
    assert got.se == pytest.approx(math.sqrt(float((slope**2).mean()) * 0.01 + float(y.var())), rel=1e-9)


def test_pooled_needs_two_effects() -> None:
    assert pooled([]) is None
    assert pooled([ratio(1.3, 0.03)]) is None


@pytest.mark.parametrize("method", list(Method))
def test_pooled_equal_effects(method: Method) -> None:
    got = pooled([ratio(1.3, 0.03)] * 3, method)
    assert got is not None
    assert (got.estimate, got.tau2, got.low, got.high) == pytest.approx(
        (math.log(1.3), 0, math.log(1.3), math.log(1.3))
    )


@pytest.mark.parametrize("method", list(Method))
def test_pooled_does_not_depend_on_the_unit(method: Method) -> None:
    """A search for tau^2 with an absolute floor would fail here: the variances are 10^-8 of the others."""
    rows = [(0.1, 0.1), (0.5, 0.1), (0.3, 0.2)]
    large, small = (pooled([Effect(y=y * c, se=s * c) for y, s in rows], method) for c in (1, 1e-4))
    assert large is not None
    assert small is not None
    assert small.tau2 * 1e8 == pytest.approx(large.tau2, rel=1e-6)
    assert small.low * 1e4 == pytest.approx(large.low, rel=1e-6)

"""Contrasts against hand-computed figures, and everything that is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from builders import POLICY, arm, attachment, metric
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.claim import Level
from app.domain.contrast import Contrast, Metric, Role, contrasts_of, reported_contrast
from app.domain.errors import Refused


def contrasts(
    base: Metric | list[Metric], treat: Metric | list[Metric], level: Level = Level.SERVING, **more: Any
) -> tuple[Contrast, ...]:
    bottom = base if isinstance(base, list) else [base]
    top = treat if isinstance(treat, list) else [treat]
    return contrasts_of(arm(Role.BASELINE, bottom, **more), arm(Role.TREATMENT, top, **more), level, POLICY)


@pytest.mark.parametrize(
    ("name", "unit", "base", "treat", "better"),
    [
        ("output_throughput", "token/s", 1000, 1300, True),
        ("output_throughput", "token/s", 1000, 900, False),
        ("gemm_time", "s", 2.0, 1.0, True),
        ("ttft", "s", 0.2, 0.3, False),
        ("e2e_latency", "s", 3.0, 2.0, True),
        ("energy_per_output_token", "J", 1.0, 0.5, True),
        ("cost_per_output_token", "USD/Mtoken", 0.4, 0.6, False),
        ("accuracy", "1", 0.80, 0.79, False),
        ("perplexity", "1", 6.0, 6.1, False),
    ],
)
def test_positive_is_better_whatever_the_metric(
    name: str, unit: str, base: float, treat: float, better: bool
) -> None:
    (found,) = contrasts(metric(name, base, unit=unit), metric(name, treat, unit=unit))
    assert (found.log_ratio > 0) is better
    assert found.ratio == pytest.approx(treat / base)
    assert abs(found.log_ratio) == pytest.approx(abs(math.log(treat / base)))


def test_delta_method_by_hand() -> None:
    # means 100 and 150; standard deviations 10 and 15; n = 3: relative se = 0.1/√3 each
    (found,) = contrasts(
        metric("output_throughput", 90, 100, 110), metric("output_throughput", 135, 150, 165)
    )
    assert found.log_ratio == pytest.approx(math.log(1.5))
    assert found.se == pytest.approx(math.sqrt(2 * 0.01 / 3))
    assert (found.se_imputed, found.runs) == (False, 3)
    assert (found.baseline, found.treatment) == (100, 150)


def test_paired_by_hand() -> None:
    # logs of the ratios: ln 1.1, ln 1.2, ln 1.1·1.2/… = three numbers written out
    base, treat = (100.0, 200.0, 400.0), (110.0, 240.0, 440.0)
    logs = [math.log(1.1), math.log(1.2), math.log(1.1)]
    mean = sum(logs) / 3
    se = math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
    (found,) = contrasts(metric("output_throughput", *base), metric("output_throughput", *treat), paired=True)
    assert (found.log_ratio, found.se) == pytest.approx((mean, se))
    assert found.se == pytest.approx(0.0290038, abs=1e-6)
    (unpaired,) = contrasts(metric("output_throughput", *base), metric("output_throughput", *treat))
    assert unpaired.se > 10 * found.se


def test_pairing_needs_the_word_of_both_arms() -> None:
    base, treat = metric("output_throughput", 90, 110), metric("output_throughput", 99, 132)
    one = contrasts_of(
        arm(Role.BASELINE, [base], paired=True), arm(Role.TREATMENT, [treat]), Level.SERVING, POLICY
    )
    neither = contrasts(base, treat)
    assert one == neither


def test_pairs_of_unequal_number_are_taken_as_unpaired_and_flagged() -> None:
    (found,) = contrasts(
        metric("output_throughput", 90, 100, 110), metric("output_throughput", 99, 132), paired=True
    )
    assert found.flags == ("said to be paired, but with 3 and 2 values: taken as unpaired",)


@pytest.mark.parametrize(
    ("level", "se"),
    [
        (Level.KERNEL, 0.05),
        (Level.MODEL, 0.08),
        (Level.SERVING, 0.10),
        (Level.ECONOMICS, 0.15),
    ],
)
def test_one_run_an_arm_has_an_imputed_error_by_level(level: Level, se: float) -> None:
    (found,) = contrasts(metric("output_throughput", 6431.1), metric("output_throughput", 10797.9), level)
    assert (found.se, found.se_imputed) == (se, True)
    assert found.ratio == pytest.approx(1.679, abs=5e-4)
    assert found.log_ratio == pytest.approx(0.518, abs=5e-4)


@pytest.mark.parametrize(
    ("base", "treat"),
    [
        ((100, 110), (130,)),
        ((100, 100), (130, 130)),
        ((100.0, 100.0, 100.00000000000001), (130.0, 130.0, 130.0)),
    ],
)
def test_repeats_without_spread_have_an_imputed_error(
    base: tuple[float, ...], treat: tuple[float, ...]
) -> None:
    (found,) = contrasts(metric("output_throughput", *base), metric("output_throughput", *treat))
    assert (found.se, found.se_imputed) == (0.10, True)


BAD = [0, -1.0, math.nan, math.inf, -math.inf, 1e-40, 1e40]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("role", ["baseline", "treatment"])
def test_values_that_are_no_measurement_are_refused_with_their_place(bad: float, role: str) -> None:
    good, wrong = metric("output_throughput", 1, 2), metric("output_throughput", 1, bad)
    pair = (wrong, good) if role == "baseline" else (good, wrong)
    with pytest.raises(Refused) as caught:
        contrasts(*pair)
    assert caught.value.code == "not-positive"
    assert caught.value.field == f"arms[{role}].metrics[output_throughput].values[1]"
    assert caught.value.remedy


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_a_metric_of_one_arm_alone_is_not_stored_unreadable(bad: float) -> None:
    common = metric("output_throughput", 1, 2)
    with pytest.raises(Refused, match="not a finite measurement"):
        contrasts([common], [metric("output_throughput", 2, 3), metric("ttft", bad, unit="s")])


@pytest.mark.parametrize(("unit", "code"), [("furlong", "wrong-unit"), ("gibberish", "unknown-unit")])
def test_a_metric_of_one_arm_alone_needs_its_unit(unit: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        contrasts(
            [metric("output_throughput", 1, 2)],
            [metric("output_throughput", 2, 3), metric("accuracy", 0.5, unit=unit)],
        )
    assert caught.value.code == code


def test_a_zero_baseline_is_refused_and_not_read_as_no_change() -> None:
    with pytest.raises(Refused, match="output_throughput of the baseline is 0"):
        contrasts(metric("output_throughput", 0), metric("output_throughput", 100))


def test_no_metric_in_common_is_refused_and_both_are_named() -> None:
    with pytest.raises(Refused) as caught:
        contrasts(metric("ttft", 1, unit="s"), metric("itl", 1, unit="s"))
    assert caught.value.code == "no-common-metric"
    assert caught.value.value == "baseline: ttft; treatment: itl"


def test_statistics_of_one_metric_do_not_compare_with_each_other() -> None:
    with pytest.raises(Refused, match="no metric in common"):
        contrasts(
            metric("ttft", 1, unit="s", statistic="p99"), metric("ttft", 1, unit="s", statistic="median")
        )


def test_values_absent_are_refused() -> None:
    with pytest.raises(Refused) as caught:
        contrasts(metric("output_throughput"), metric("output_throughput", 1))
    assert caught.value.code == "no-values"


def test_a_metric_given_twice_in_one_arm_is_refused() -> None:
    twice = [metric("output_throughput", 1), metric("output_throughput", 5)]
    with pytest.raises(Refused) as caught:
        contrasts(twice, metric("output_throughput", 2))
    assert caught.value.code == "metric-twice"


def test_one_file_cannot_be_both_arms() -> None:
    with pytest.raises(Refused) as caught:
        contrasts(
            metric("output_throughput", 1),
            metric("output_throughput", 2),
            attachments=(attachment("same"),),
        )
    assert caught.value.code == "identical-arms"


@pytest.mark.parametrize(
    ("config", "base", "treat"),
    [
        ({"a": 1}, metric("ttft", 1.0, unit="s"), metric("ttft", 1.0, unit="s")),
        ({"a": 1}, metric("ttft", 1.0, unit="s"), metric("ttft", 1000.0, unit="ms")),
    ],
)
def test_identical_arms_are_refused_in_any_unit(config: dict[str, Any], base: Metric, treat: Metric) -> None:
    with pytest.raises(Refused) as caught:
        contrasts_of(
            arm(Role.BASELINE, [base], config),
            arm(Role.TREATMENT, [treat], {"a": "1", "b": None, "c": "unknown"}),
            Level.SERVING,
            POLICY,
        )
    assert caught.value.code == "identical-arms"


def test_equal_values_of_different_configurations_are_a_contrast_of_nothing() -> None:
    (found,) = contrasts(metric("output_throughput", 1.0), metric("output_throughput", 1.0))
    assert (found.ratio, found.log_ratio) == (1, 0)


@pytest.mark.parametrize("factor", [1000.0, 1 / 1000, 50.0])
def test_a_thousandfold_jump_is_flagged_and_never_mended(factor: float) -> None:
    (found,) = contrasts(metric("ttft", 0.2, unit="s"), metric("ttft", 0.2 * factor, unit="s"))
    assert found.ratio == pytest.approx(factor)
    assert len(found.flags) == 1
    assert "check the units of both arms" in found.flags[0]


def test_an_effect_below_fiftyfold_is_not_flagged() -> None:
    (found,) = contrasts(metric("ttft", 1, unit="s"), metric("ttft", 49, unit="s"))
    assert found.flags == ()


def test_a_reported_range_by_hand() -> None:
    got = reported_contrast(metric="gemm_throughput", low=1.29, high=1.40, level=Level.KERNEL, policy=POLICY)
    # centre (ln 1.29 + ln 1.40)/2 = 0.29555; width ln(1.40/1.29) = 0.08183, variance /12 = 0.000558
    assert got.log_ratio == pytest.approx(0.29555, abs=1e-5)
    assert got.se == pytest.approx(math.sqrt(0.05**2 + 0.08183**2 / 12), abs=1e-5)
    assert got.se_imputed


def test_a_reported_range_of_a_time_turns_its_sign() -> None:
    got = reported_contrast(metric="ttft", low=0.5, high=0.5, level=Level.SERVING, policy=POLICY)
    assert got.log_ratio == pytest.approx(math.log(2))


@pytest.mark.parametrize(("low", "high"), [(0, 1.2), (-1, 1.2), (math.nan, 1.2), (1.2, math.inf)])
def test_a_reported_ratio_must_be_finite_and_positive(low: float, high: float) -> None:
    with pytest.raises(Refused, match="finite and above zero"):
        reported_contrast(metric="output_throughput", low=low, high=high, level=Level.SERVING, policy=POLICY)


samples = st.lists(st.integers(100, 10**7).map(lambda n: n / 1000), min_size=1, max_size=6)


@settings(deadline=None)
@given(samples, samples, st.sampled_from(["ms", "us", "minute"]), st.booleans())
def test_scaling_a_unit_changes_nothing(
    base: list[float], treat: list[float], unit: str, paired: bool
) -> None:
    in_seconds = {"ms": 1e3, "us": 1e6, "minute": 1 / 60}[unit]
    bottom = arm(Role.BASELINE, [metric("ttft", *base, unit="s")], paired=paired)
    top = arm(Role.TREATMENT, [metric("ttft", *treat, unit="s")], paired=paired)
    scaled = replace(top, metrics=(metric("ttft", *(v * in_seconds for v in treat), unit=unit),))
    (plain,) = contrasts_of(bottom, top, Level.SERVING, POLICY)
    (other,) = contrasts_of(bottom, scaled, Level.SERVING, POLICY)
    assert (other.log_ratio, other.se) == pytest.approx((plain.log_ratio, plain.se), rel=1e-6, abs=1e-9)
    assert other.treatment == pytest.approx(plain.treatment)


@settings(deadline=None)
@given(samples, samples)
def test_swapping_the_arms_turns_the_sign(base: list[float], treat: list[float]) -> None:
    there = contrasts(metric("output_throughput", *base), metric("output_throughput", *treat))
    back = contrasts(metric("output_throughput", *treat), metric("output_throughput", *base))
    assert there[0].log_ratio == pytest.approx(-back[0].log_ratio, abs=1e-9)
    assert there[0].se == pytest.approx(back[0].se, abs=1e-12)

"""One table a criterion: what is met, unmet and unknown, and what somebody might try."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import (
    CLAIM,
    KERNEL_CLAIM,
    SOUND_RUN,
    SPREAD,
    accuracy,
    attachment,
    disclosure,
    judged,
    kernel_result,
    metric,
    result,
    row,
    rows,
    throughput,
)

from app.domain.claim import ClaimedEffect, Level, Scalar
from app.domain.contrast import Arm, Metric, Role
from app.domain.criteria import CriterionResult, assess_criteria
from app.domain.evidence import Criterion, EvidenceKind, Publisher, Relation, Status
from app.domain.policy import Policy

MET, UNMET, UNKNOWN = Status.MET, Status.UNMET, Status.UNKNOWN


def test_a_full_result_meets_all_eight_in_order() -> None:
    found = assess_criteria(result(), CLAIM, Policy())
    assert [r.criterion for r in found] == list(Criterion)
    assert {r.status for r in found} == {MET}
    assert all(r.reason and r.fields for r in found)


def test_nothing_known_is_unknown_and_never_equal() -> None:
    bare = replace(result(), arms=(), contrasts=(), level=None, publisher=None, validity=(), command=None)
    bare = replace(bare, kind=EvidenceKind.SOURCE)
    assert {r.status for r in rows(bare).values()} == {UNKNOWN}


# --- independent -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("publisher", "status"),
    [
        (None, UNKNOWN),
        (Publisher(name="Akamai"), MET),
        (Publisher(name="Akamai", relation=Relation.INDEPENDENT), MET),
        (Publisher(name="Akamai", relation=Relation.PAID), UNMET),
        (Publisher(name="Akamai", relation=Relation.DERIVED), UNMET),
        (Publisher(name="Akamai", relation=Relation.CLAIMANT), UNMET),
        # variants of the claimant's own name
        (Publisher(name="NVIDIA"), UNMET),
        (Publisher(name=" nvidia "), UNMET),
        (Publisher(name="NVIDIA Corp."), UNMET),
        (Publisher(name="Nvidia Corporation"), UNMET),
        (Publisher(name="N.V.I.D.I.A."), UNMET),
        (Publisher(name="ＮＶＩＤＩＡ"), UNMET),
        (Publisher(name="NVI\u200bDIA"), UNMET),
        (Publisher(name="Nvídia"), UNMET),
        (Publisher(name="colfax-research"), UNMET),
        (Publisher(name="NVIDIA", relation=Relation.INDEPENDENT), UNMET),
        # it bears the name: nobody has shown that it stands apart
        (Publisher(name="NVIDIA Developer Blog", relation=Relation.INDEPENDENT), UNKNOWN),
        (Publisher(name="Colfax"), UNKNOWN),
        (Publisher(name="Somebody", url="https://developer.nvidia.com/blog"), UNKNOWN),
        # no name at all, or one of lookalike letters
        (Publisher(name="…"), UNKNOWN),
        (Publisher(name="NVIDI\u0410"), UNKNOWN),
        (Publisher(name="Яндекс"), MET),
        (Publisher(name="Nvidious Labs"), MET),
    ],
)
def test_independent(publisher: Publisher | None, status: Status) -> None:
    got = row(replace(result(), publisher=publisher), Criterion.INDEPENDENT)
    assert got.status is status, got.reason


def test_an_echo_inherits_its_roots_publisher() -> None:
    echo = disclosure(kind=EvidenceKind.ECHO, title="reposted elsewhere", ref="echo")
    assert row(echo, Criterion.INDEPENDENT).reason == "Colfax Research makes the claim itself"
    assert row(echo, Criterion.INDEPENDENT).status is UNMET


# --- end to end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "settles", "status"),
    [
        (None, Level.SERVING, UNKNOWN),
        (Level.DISCLOSURE, Level.SERVING, UNMET),
        (Level.KERNEL, Level.SERVING, UNMET),
        (Level.MODEL, Level.SERVING, UNMET),
        (Level.SERVING, Level.SERVING, MET),
        (Level.ECONOMICS, Level.SERVING, MET),
        (Level.KERNEL, Level.KERNEL, MET),
        (Level.SERVING, Level.ECONOMICS, UNMET),
    ],
)
def test_end_to_end(level: Level | None, settles: Level, status: Status) -> None:
    claim = replace(CLAIM, settles_at=settles)
    assert row(replace(result(), level=level), Criterion.END_TO_END, claim).status is status


# --- workload --------------------------------------------------------------------------------------------


def workload(
    baseline: dict[str, Scalar] | None = None,
    treatment: dict[str, Scalar] | None = None,
    both: dict[str, Scalar] | None = None,
    named: dict[str, Scalar] | None = None,
) -> CriterionResult:
    claim = replace(CLAIM, workload=named or {})
    item = result(baseline=baseline, treatment=treatment, both=both)
    return row(item, Criterion.WORKLOAD_MATCHED, claim)


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("model.name", "Qwen/Qwen3-14B"),
        ("hardware.gpu", "NVIDIA B200"),
        ("hardware.gpu_count", 2),
        ("engine.name", "sglang"),
        ("engine.version", "0.12.1"),
        ("load.arrival", "constant"),
        ("load.rate", 8.0),
        ("load.input_length", 2048),
        ("load.output_length", 128),
        ("observed.output_length", 240.0),
        ("sampling.temperature", 0.7),
    ],
)
def test_arms_that_differ_in_the_workload(field: str, other: Scalar) -> None:
    got = workload(treatment={field: other})
    assert (got.status, got.fields) == (UNMET, (field,))
    assert f"the arms differ in {field}" in got.reason
    assert str(other) in got.reason


@pytest.mark.parametrize(
    "field",
    [
        "model.name",
        "hardware.gpu",
        "hardware.gpu_count",
        "engine.name",
        "engine.version",
        "load.arrival",
        "load.input_length",
        "load.output_length",
    ],
)
@pytest.mark.parametrize("gap", [None, "", "unknown", "n/a", "-"])
def test_what_is_missing_is_unknown_and_not_equal(field: str, gap: Scalar) -> None:
    one, both = workload(baseline={field: gap}), workload(both={field: gap})
    assert (one.status, both.status) == (UNKNOWN, UNKNOWN)
    assert field in one.fields
    assert field in both.fields


def test_serving_needs_a_rate_or_a_concurrency_of_both() -> None:
    assert workload(both={"load.rate": None}).fields == ("load.rate or load.concurrency",)
    assert workload(both={"load.rate": None, "load.concurrency": 8}).status is MET
    crossed = workload(
        baseline={"load.rate": None, "load.concurrency": 8}, treatment={"load.concurrency": None}
    )
    assert crossed.status is UNKNOWN


@pytest.mark.parametrize(
    ("field", "base", "treat", "status"),
    [
        ("load.rate", 4.0, 4.03, MET),
        ("load.rate", 4.0, "4.03", MET),
        ("load.rate", 4.0, 4.1, UNMET),
        ("observed.input_length", 1000.0, 1009.0, MET),
        ("observed.input_length", 1000.0, 1020.0, UNMET),
        ("observed.output_length", 256.0, 258.0, MET),
        ("observed.output_length", 256.0, 260.0, UNMET),
        ("hardware.gpu_count", 1, 1.0, MET),
        ("hardware.gpu_count", 1, "1", MET),
        ("load.ignore_eos", True, "true", MET),
        ("load.ignore_eos", True, 1, MET),
        ("load.ignore_eos", True, "false", UNMET),
        ("engine.name", "vLLM", "vllm", MET),
        ("engine.version", "0.10", "0.1", UNMET),
        ("observed.prefix_hit_rate", 0.02, 0.03, MET),
        ("observed.prefix_hit_rate", 0.02, 0.90, UNMET),
    ],
)
def test_tolerances_and_spellings(field: str, base: Scalar, treat: Scalar, status: Status) -> None:
    assert workload(baseline={field: base}, treatment={field: treat}).status is status


def test_prefix_hits_may_differ_where_caching_is_the_claim() -> None:
    claim = replace(CLAIM, factor=("engine.prefix_caching",))
    item = result(
        both={"weights.format": "bf16"},
        baseline={"engine.prefix_caching": False, "observed.prefix_hit_rate": 0.0},
        treatment={"engine.prefix_caching": True, "observed.prefix_hit_rate": 0.8},
    )
    assert row(item, Criterion.WORKLOAD_MATCHED, claim).status is MET


@pytest.mark.parametrize(
    ("named", "status"),
    [
        ({"model.name": "qwen/qwen3-32b"}, MET),
        ({"load.rate": "4"}, MET),
        ({"load.rate": 4.02}, MET),
        ({"hardware.gpu_count": "1"}, MET),
        ({"load.input_length": "1024"}, MET),
        ({"load.input_length": 512}, UNMET),
        ({"hardware.gpu": "NVIDIA B200"}, UNMET),
        ({"load.dataset": "sharegpt"}, UNKNOWN),
        ({"load.dataset": None}, MET),
        ({"weights.format": "nvfp4"}, MET),
    ],
)
def test_the_claims_own_workload(named: dict[str, Scalar], status: Status) -> None:
    got = workload(named=named)
    assert got.status is status, got.reason


def test_the_claims_workload_is_named_in_the_reason() -> None:
    got = workload(named={"load.input_length": 512})
    assert got.reason == "load.input_length is not the claim's (512)"


# --- factor ----------------------------------------------------------------------------------------------


def factor(
    baseline: dict[str, Scalar] | None = None,
    treatment: dict[str, Scalar] | None = None,
    both: dict[str, Scalar] | None = None,
) -> CriterionResult:
    item = result(baseline=baseline, treatment=treatment, both=both)
    return row(item, Criterion.FACTOR_ISOLATED)


def test_other_fields_that_differ_are_named() -> None:
    got = factor(
        baseline={"engine.prefix_caching": True, "engine.chunked_prefill": True},
        treatment={"engine.prefix_caching": False, "engine.chunked_prefill": False},
    )
    assert got.status is UNMET
    assert got.reason == "the arms also differ in engine.chunked_prefill, engine.prefix_caching"
    assert set(got.fields) == {"engine.prefix_caching", "engine.chunked_prefill"}


@pytest.mark.parametrize(
    ("baseline", "treatment", "status"),
    [
        ({}, {"my.knob": 2}, UNKNOWN),
        ({"my.knob": 1}, {"my.knob": 2}, UNMET),
        ({"my.knob": 1}, {"my.knob": "1"}, MET),
        ({"engine.prefix_caching": True}, {"engine.prefix_caching": "true"}, MET),
        ({"engine.prefix_caching": True}, {"engine.prefix_caching": 1}, MET),
        ({"engine.prefix_caching": True}, {"engine.prefix_caching": "off"}, UNMET),
        ({"engine.prefix_caching": True}, {}, UNKNOWN),
        ({"engine.prefix_caching": "unknown"}, {"engine.prefix_caching": "?"}, MET),
        ({"weights.format": None}, {}, UNKNOWN),
        ({"weights.format": "unknown"}, {}, UNKNOWN),
        # one value spelled in two ways is no difference
        ({"weights.format": "NVFP-4", "effective.weights_format": "nvfp4"}, {}, UNMET),
        ({"weights.format": "nv_fp4", "effective.weights_format": None}, {}, UNMET),
        ({"weights.format": "bfloat16"}, {}, MET),
        # what was in force
        ({}, {"effective.weights_format": None}, UNKNOWN),
        ({"effective.weights_format": None}, {}, UNKNOWN),
        ({"effective.weights_format": "unknown"}, {}, UNKNOWN),
        ({}, {"effective.weights_format": "marlin"}, UNMET),
        ({}, {"effective.weights_format": "NVFP4"}, MET),
        ({"effective.weights_format": "fp16"}, {}, UNMET),
        # the declaration is missing, yet the log shows the same in both arms
        ({"weights.format": None}, {"effective.weights_format": "bf16"}, UNMET),
    ],
)
def test_factor_isolated(baseline: dict[str, Scalar], treatment: dict[str, Scalar], status: Status) -> None:
    got = factor(baseline, treatment)
    assert got.status is status, got.reason


def test_a_silent_fallback_is_told() -> None:
    got = factor(treatment={"effective.weights_format": "marlin"})
    assert got.reason == "treatment declares weights.format nvfp4 but marlin was in force"


def test_a_fallback_of_the_kernel_under_a_kernel_claim() -> None:
    item = kernel_result()
    top = replace(item.arms[1], config={**item.arms[1].config, "effective.gemm_kernel": "marlin"})
    got = row(replace(item, arms=(item.arms[0], top)), Criterion.FACTOR_ISOLATED, KERNEL_CLAIM)
    assert got.reason == "treatment declares gemm.kernel colfax but marlin was in force"


def test_a_fallback_beside_the_factor_is_seen_too() -> None:
    """Both arms declare NVFP4, one of them ran another format: that is no comparison of kernels."""
    item = kernel_result()
    bottom = replace(item.arms[0], config={**item.arms[0].config, "effective.weights_format": "nvfp4"})
    top = replace(item.arms[1], config={**item.arms[1].config, "effective.weights_format": "fp16"})
    got = row(replace(item, arms=(bottom, top)), Criterion.FACTOR_ISOLATED, KERNEL_CLAIM)
    assert (got.status, got.fields) == (UNMET, ("effective.weights_format",))
    # seen in one arm only, and another than what the other arm declares
    got = row(replace(item, arms=(item.arms[0], top)), Criterion.FACTOR_ISOLATED, KERNEL_CLAIM)
    assert got.status is UNMET


def test_another_format_may_bring_another_kernel_with_it() -> None:
    got = factor({"effective.gemm_kernel": "cublas"}, {"effective.gemm_kernel": "cutlass_nvfp4"})
    assert got.status is MET


def test_bf16_against_nvfp4_says_nothing_about_a_kernel_and_is_not_pooled() -> None:
    item = result(2.0)
    got = row(item, Criterion.FACTOR_ISOLATED, KERNEL_CLAIM)
    assert got.status is UNMET
    assert got.reason == "the arms differ in weights.format, not in the claim's factor gemm.kernel"
    judgement = judged(item, claim=KERNEL_CLAIM)
    assert (judgement.pooled, judgement.qualifying) == (False, False)
    assert judgement.contrasts[0].reason == f"factor_isolated unmet: {got.reason}"


def test_a_claim_without_factor_isolates_nothing() -> None:
    claim = replace(CLAIM, factor=())
    item = result(both={"weights.format": "bf16", "effective.weights_format": "bf16"})
    assert row(item, Criterion.FACTOR_ISOLATED, claim).status is UNKNOWN


# --- quality ---------------------------------------------------------------------------------------------


def ppl(*values: float) -> Metric:
    return metric("perplexity", *values, unit="1")


def quality(
    base: list[Metric],
    treat: list[Metric],
    both: dict[str, Scalar] | None = None,
    treatment: dict[str, Scalar] | None = None,
) -> CriterionResult:
    item = result(
        base_metrics=[throughput(1000), *base],
        treat_metrics=[throughput(1300), *treat],
        both=both,
        treatment=treatment,
    )
    return row(item, Criterion.QUALITY_RETAINED)


@pytest.mark.parametrize(
    ("base", "treat", "status"),
    [
        ([], [], UNKNOWN),
        ([accuracy(0.8)], [], UNKNOWN),
        ([accuracy(0.8)], [ppl(6.0)], UNKNOWN),
        ([accuracy(0.80)], [accuracy(0.79)], MET),
        ([accuracy(0.80)], [accuracy(0.7899)], UNMET),
        ([accuracy(0.80)], [accuracy(0.85)], MET),
        ([metric("accuracy", 80, unit="%")], [accuracy(0.795)], MET),
        ([ppl(6.00)], [ppl(6.12)], MET),
        ([ppl(6.00)], [ppl(6.13)], UNMET),
        ([ppl(6.00)], [ppl(5.0)], MET),
        # one good figure does not hide a bad one
        ([accuracy(0.80), ppl(6.0)], [accuracy(0.80), ppl(9.0)], UNMET),
        (
            [accuracy(0.80), accuracy(0.5, statistic="hard")],
            [accuracy(0.80), accuracy(0.2, statistic="hard")],
            UNMET,
        ),
        # a statistic of one arm alone does not lift its mean
        ([accuracy(0.80)], [accuracy(0.60), accuracy(1.0, statistic="best")], UNMET),
        # scales at which no loss could show
        ([accuracy(80.0)], [accuracy(79.5)], UNKNOWN),
        ([accuracy(0.008)], [accuracy(0.0001)], UNKNOWN),
        ([metric("accuracy", 0.8, unit="ppm")], [metric("accuracy", 0.2, unit="ppm")], UNKNOWN),
    ],
)
def test_quality_retained(base: list[Metric], treat: list[Metric], status: Status) -> None:
    got = quality(base, treat)
    assert got.status is status, got.reason


@pytest.mark.parametrize(
    ("both", "treatment", "status"),
    [
        ({}, {"quality.task": "mmlu"}, UNMET),
        ({}, {"quality.task": "GSM8K"}, MET),
        ({}, {"quality.task": None}, UNKNOWN),
        ({"quality.task": None}, {}, UNKNOWN),
        ({"quality.items": 1}, {}, UNKNOWN),
        ({"quality.items": "99"}, {}, UNKNOWN),
        ({"quality.items": 100}, {}, MET),
        ({"quality.items": 1319}, {"quality.items": 3}, UNKNOWN),
    ],
)
def test_quality_needs_one_task_and_enough_items(
    both: dict[str, Scalar], treatment: dict[str, Scalar], status: Status
) -> None:
    got = quality([accuracy(0.8)], [accuracy(0.8)], both, treatment)
    assert got.status is status, got.reason


def test_the_quality_reason_holds_its_numbers() -> None:
    assert (
        quality([accuracy(0.8)], [accuracy(0.795)]).reason
        == "accuracy 0.8 → 0.795, a loss of 0.005 against a tolerance of 0.01"
    )
    assert quality([ppl(6.0)], [ppl(6.3)]).reason == "perplexity 6 → 6.3, +5.00% against a tolerance of 2%"


# --- quantization ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "activations", "status"),
    [
        ("in_time", "in_time", MET),
        ("In-Time", "IN TIME", MET),
        ("excluded", "in_time", UNMET),
        ("in_time", "excluded", UNMET),
        ("Excluded", "in_time", UNMET),
        (" excluded ", "in_time", UNMET),
        (None, "in_time", UNKNOWN),
        ("in_time", None, UNKNOWN),
        ("n/a", "in_time", UNKNOWN),
        ("ahead_of_time", "in_time", UNKNOWN),
        ("in_time", "ahead_of_time", UNKNOWN),
        ("counted, trust me", "in_time", UNKNOWN),
        (True, True, UNKNOWN),
        ("none", "in_time", UNKNOWN),
    ],
)
def test_quantization_counted(weights: Scalar, activations: Scalar, status: Status) -> None:
    item = result(treatment={"quantization.weights": weights, "quantization.activations": activations})
    got = row(item, Criterion.QUANTIZATION_COUNTED)
    assert got.status is status, got.reason


def test_no_quantization_is_believed_of_a_full_width_format() -> None:
    item = result(
        treatment={
            "weights.format": "bfloat16",
            "quantization.weights": "none",
            "quantization.activations": "none",
        }
    )
    assert row(item, Criterion.QUANTIZATION_COUNTED).status is MET


def test_quantizing_ahead_of_time_needs_its_cost() -> None:
    item = result(
        treatment={"quantization.weights": "ahead_of_time"},
        treat_metrics=[throughput(1300), accuracy(0.8), metric("quantize_time", 90, unit="s")],
    )
    assert row(item, Criterion.QUANTIZATION_COUNTED).status is MET


# --- soundness -------------------------------------------------------------------------------------------


def test_an_invalid_run_is_told_with_its_reason_and_not_pooled() -> None:
    item = result(2.0, treat_run=replace(SOUND_RUN, achieved_rate=69.0))
    got = row(item, Criterion.MEASURED_SOUNDLY)
    assert got.status is UNMET
    assert got.reason.startswith("treatment: achieved rate 0.69 of the requested")
    assert not judged(item).pooled


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"treat_run": None}, "no load generator's record"),
        ({"base_run": replace(SOUND_RUN, failures=None)}, "requests and failures not recorded"),
        ({"validity": ()}, "run facts are not recorded"),
        ({"spread": (1.0,)}, "one run an arm: no spread is given"),
        ({"spread": (1.0, 1.0, 1.0)}, "one run an arm: no spread is given"),
    ],
)
def test_what_cannot_be_told_about_a_serving_run(changes: dict[str, Any], words: str) -> None:
    got = row(result(**changes), Criterion.MEASURED_SOUNDLY)
    assert got.status is UNKNOWN
    assert words in got.reason


def test_spread_of_another_metric_is_no_spread_of_the_claims() -> None:
    item = result(
        base_metrics=[throughput(1000, (1.0,)), accuracy(0.80, 0.81, 0.79)],
        treat_metrics=[throughput(1300, (1.0,)), accuracy(0.80, 0.82, 0.79)],
    )
    assert row(item, Criterion.MEASURED_SOUNDLY).status is UNKNOWN


def test_spread_of_another_statistic_is_no_spread_either() -> None:
    extra = metric("output_throughput", 1, 2, statistic="best")
    item = result(
        base_metrics=[throughput(1000, (1.0,)), accuracy(0.8), extra],
        treat_metrics=[throughput(1300, (1.0,)), accuracy(0.8), extra],
    )
    assert row(item, Criterion.MEASURED_SOUNDLY).status is UNKNOWN


def test_one_validity_twice_is_not_two() -> None:
    item = result()
    got = row(replace(item, validity=(item.validity[0], item.validity[0])), Criterion.MEASURED_SOUNDLY)
    assert got.status is UNKNOWN


def test_a_source_is_no_measurement() -> None:
    assert row(disclosure(), Criterion.MEASURED_SOUNDLY, KERNEL_CLAIM).status is UNKNOWN


def test_a_sound_kernel_meets_it() -> None:
    assert row(kernel_result(), Criterion.MEASURED_SOUNDLY, KERNEL_CLAIM).status is MET


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("check.finite", False, UNMET),
        ("check.finite", "false", UNMET),
        ("check.finite", None, UNKNOWN),
        ("check.finite", "true", MET),
        ("check.reference", None, UNKNOWN),
        ("check.reference", "", UNKNOWN),
        ("check.reference", "none", UNKNOWN),
        ("check.reference", True, UNKNOWN),
        ("check.reference", "colfax", UNMET),
        ("check.max_rel_error", 1.0, UNMET),
        ("check.max_rel_error", 0.05, MET),
        ("inputs.distribution", "zeros", UNMET),
        ("inputs.distribution", "constant", UNMET),
        ("inputs.distribution", "few_codes", UNMET),
        ("inputs.distribution", "Normal", MET),
        ("cache.state", "warm", UNMET),
        ("cache.state", "cold", MET),
        ("cache.state", "unknown", UNKNOWN),
        ("warmup.excluded", False, UNMET),
        ("clocks.recorded", None, UNKNOWN),
        ("power.recorded", False, UNMET),
        ("baseline.tuned", None, UNKNOWN),
        ("baseline.tuned", 1, MET),
    ],
)
def test_a_kernels_soundness(field: str, value: Scalar, status: Status) -> None:
    got = row(kernel_result(both={field: value}), Criterion.MEASURED_SOUNDLY, KERNEL_CLAIM)
    assert got.status is status, got.reason
    if status is not MET:
        assert field in got.reason


def test_a_kernels_spread_is_that_of_its_speed() -> None:
    one = [metric("gemm_throughput", 1e15, unit="FLOP/s")]
    two = [metric("gemm_throughput", 1.3e15, unit="FLOP/s")]
    bare = kernel_result(base_metrics=one, treat_metrics=two)
    assert row(bare, Criterion.MEASURED_SOUNDLY, KERNEL_CLAIM).reason == (
        "not stated: spread (one sample, or equal ones)"
    )
    flops = [1e15 * s for s in SPREAD]
    extra = kernel_result(
        base_metrics=[metric("gemm_throughput", *flops, unit="FLOP/s"), ppl(6.0)],
        treat_metrics=[metric("gemm_throughput", *(2 * f for f in flops), unit="FLOP/s"), ppl(6.0)],
    )
    assert row(extra, Criterion.MEASURED_SOUNDLY, KERNEL_CLAIM).status is MET


def test_a_thousandfold_effect_is_flagged_and_does_not_qualify() -> None:
    item = result(1000.0)
    got = row(item, Criterion.MEASURED_SOUNDLY)
    assert got.status is UNKNOWN
    assert "check the units of both arms" in got.reason
    assert not judged(item).qualifying


@pytest.mark.parametrize(
    ("scale", "status"), [(1.0, MET), (3.0, MET), (1000.0, UNKNOWN), (1 / 1000, UNKNOWN)]
)
def test_a_jump_of_a_thousand_against_the_claim_is_flagged(scale: float, status: Status) -> None:
    effect = ClaimedEffect(
        metric="output_throughput",
        low=1.2,
        high=1.4,
        unit="ktoken/s",
        level=Level.SERVING,
        treatment="nvfp4",
    )
    item = result(base_metrics=[throughput(1e3 * scale)], treat_metrics=[throughput(1.3e3 * scale)])
    got = row(item, Criterion.MEASURED_SOUNDLY, replace(CLAIM, effects=(effect,)))
    assert got.status is status, got.reason


# --- reproducible ----------------------------------------------------------------------------------------


def stripped(**changes: Any) -> tuple[Arm, ...]:
    return tuple(replace(arm, **changes) for arm in result().arms)


@pytest.mark.parametrize(
    ("changes", "status", "missing"),
    [
        ({}, MET, ""),
        ({"command": None}, UNMET, "the exact command"),
        ({"command": "  \n"}, UNMET, "the exact command"),
        ({"arms": stripped(attachments=())}, UNMET, "raw output of both arms"),
        ({"arms": stripped(config={})}, UNMET, "software versions of both arms"),
        ({"arms": stripped(config={"engine.version": "unknown"})}, UNMET, "software versions of both arms"),
        ({"arms": (), "command": None}, UNMET, "the exact command, raw output of both arms"),
    ],
)
def test_reproducible(changes: dict[str, Any], status: Status, missing: str) -> None:
    got = row(replace(result(), **changes), Criterion.REPRODUCIBLE)
    assert got.status is status
    assert missing in got.reason


def test_raw_output_of_one_arm_alone_is_not_enough() -> None:
    bottom, top = result().arms
    item = replace(result(), arms=(bottom, replace(top, attachments=())))
    assert row(item, Criterion.REPRODUCIBLE).status is UNMET
    assert bottom.attachments == (attachment("a-baseline"),)


def test_naming_a_part_never_counts_for_less_than_naming_nothing() -> None:
    """An unmet criterion widens more than an unknown one, so that silence must not pay."""
    rank = (UNMET, UNKNOWN, MET).index
    for kind in (EvidenceKind.RESULT, EvidenceKind.SOURCE):
        nothing = replace(result(), kind=kind, command=None, arms=stripped(attachments=(), config={}))
        part = replace(nothing, command="vllm bench serve …")
        assert rank(row(part, Criterion.REPRODUCIBLE).status) >= rank(
            row(nothing, Criterion.REPRODUCIBLE).status
        )


def test_the_role_of_an_arm_counts_and_not_its_place() -> None:
    item = result()
    assert rows(replace(item, arms=item.arms[::-1])) == rows(item)
    assert item.arms[0].role is Role.BASELINE

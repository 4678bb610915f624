"""Several files as one arm, and declarations held against them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.claim import Level, Scalar
from app.domain.contrast import Arm, Attachment, Metric, Origin, Role, contrasts_of
from app.domain.errors import Refused
from app.domain.policy import Policy
from app.domain.validity import judge_runs
from app.formats import Parsed, parse
from app.formats.arms import assemble

FILES = Path(__file__).parent / "files"
FIRST, SECOND = "stage_3_lifecycle_metrics.json", "stage_3_second_run.json"
OVERLOADED = "stage_6_lifecycle_metrics.json"


def read(name: str) -> Parsed:
    return parse((FILES / name).read_bytes(), name=name)


def attached(name: str) -> Attachment:
    data = (FILES / name).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return Attachment(name=name, format="inference-perf", sha256=digest, size=len(data))


def throughput(arm: Arm) -> Metric:
    return next(metric for metric in arm.metrics if metric.name == "output_throughput")


def test_one_file_makes_an_arm() -> None:
    arm = assemble(
        Role.TREATMENT, [read(FIRST)], {"quantization": "nvfp4", "load.arrival": "poisson", "my.flag": 1}
    )
    assert arm.role is Role.TREATMENT
    assert arm.config["weights.format"] == "nvfp4"
    assert "quantization" not in arm.config
    assert arm.config["load.rate"] == 100.0
    assert arm.config["observed.output_length"] == 50.0
    assert arm.config["my.flag"] == 1
    assert any("my.flag" in note for note in arm.notes)
    assert (arm.tool, arm.tool_version, len(arm.runs)) == ("inference-perf", None, 1)
    assert list(arm.config) == sorted(arm.config)


def test_files_are_replicates_in_order() -> None:
    arm = assemble(
        Role.BASELINE, [read(FIRST), read(SECOND)], {}, attachments=[attached(FIRST), attached(SECOND)]
    )
    assert throughput(arm).values == (4800.0, 4850.0)
    assert [run.source for run in arm.runs] == [FIRST, SECOND]
    assert arm.config["load.rate"] == pytest.approx(100.1)
    turned = assemble(Role.BASELINE, [read(SECOND), read(FIRST)], {})
    assert throughput(turned).values == (4850.0, 4800.0)


def test_a_metric_that_one_replicate_lacks_is_left_out_and_said() -> None:
    second = read(SECOND)
    second = replace(second, metrics=tuple(m for m in second.metrics if m.key != ("ttft", "p99")))
    arm = assemble(Role.BASELINE, [read(FIRST), second], {})
    assert ("ttft", "p99") not in {metric.key for metric in arm.metrics}
    assert ("ttft", "p90") in {metric.key for metric in arm.metrics}
    assert "p99 ttft is in 1 of 2 files only: left out." in arm.notes


def test_notes_of_several_files_name_the_file() -> None:
    noted = replace(read(SECOND), notes=("something odd.",))
    assert f"{SECOND}: something odd." in assemble(Role.BASELINE, [read(FIRST), noted], {}).notes


def test_lengths_that_drift_between_replicates_are_noted_and_averaged() -> None:
    drifted = replace(read(SECOND), config={**read(SECOND).config, "observed.output_length": 40.0})
    arm = assemble(Role.BASELINE, [read(FIRST), drifted], {})
    assert arm.config["observed.output_length"] == 45.0
    assert any("observed.output_length differs" in note for note in arm.notes)


def test_the_requested_output_length_bounds_the_answers() -> None:
    arm = assemble(Role.BASELINE, [read(OVERLOADED)], {"load.output_length": 50})
    assert arm.runs[0].max_tokens == 50.0
    by_server = replace(arm, runs=(replace(arm.runs[0], lengths_by_client=False),))
    assert any("56 tokens, at most 50" in reason for reason in judge_runs(by_server, Policy()).reasons)
    # The tool counts by tokenizing the text again: that proves nothing about what the server generated.
    assert not any("at most 50" in reason for reason in judge_runs(arm, Policy()).reasons)
    stated = assemble(Role.BASELINE, [read(OVERLOADED)], {"load.output_length": "uniform 1 to 50"})
    assert stated.runs[0].max_tokens is None


def other_tool(file: Parsed) -> Parsed:
    return replace(file, tool_version="0.9")


Build = Callable[[], Arm]
BASE = Role.BASELINE
REFUSED: list[tuple[Build, str, str, str]] = [
    (
        lambda: assemble(BASE, [read(FIRST), read(OVERLOADED)], {}),
        "several-stages",
        "arms[baseline].files[1]",
        "stage by stage",
    ),
    (
        lambda: assemble(BASE, [read(FIRST), read("stage_0_closed_unary.json")], {}),
        "several-stages",
        "arms[baseline].files[1]",
        "not recorded",
    ),
    (
        lambda: assemble(BASE, [read(FIRST), other_tool(read(SECOND))], {}),
        "mixed-tools",
        "arms[baseline].files[1]",
        "0.9",
    ),
    (
        lambda: assemble(BASE, [read(FIRST), read(FIRST)], {}, attachments=[attached(FIRST)] * 2),
        "same-file-twice",
        "arms[baseline].files[1]",
        "no replicate",
    ),
    (
        lambda: assemble(BASE, [read(FIRST)], {"load.rate": 120}),
        "config-contradicts-file",
        "arms[baseline].config.load.rate",
        "declared as 120, but the file says 100.0",
    ),
    (
        lambda: assemble(BASE, [read(FIRST)], {"streaming": False}),
        "config-contradicts-file",
        "arms[baseline].config.load.streaming",
        "declared as False",
    ),
    (
        lambda: assemble(BASE, [read(FIRST)], {}, metrics=[declared(4801.0)]),
        "metrics-disagree",
        "arms[baseline].metrics[0]",
        "declared as 4801 token/s, but the files say 4800 token/s",
    ),
    (
        lambda: assemble(BASE, [read(FIRST)], {}, metrics=[declared(4800.0, 4800.0)]),
        "metrics-disagree",
        "arms[baseline].metrics[0]",
        "4800, 4800",
    ),
    (
        lambda: assemble(BASE, [read(FIRST)], {}, metrics=[declared(4800.0), declared(4800.0)]),
        "metric-twice",
        "arms[baseline].metrics[1]",
        "twice",
    ),
    (
        lambda: assemble(BASE, [read(FIRST)], {}, metrics=[declared(4800.0, unit="parsec")], where="arms[3]"),
        "wrong-unit",
        "arms[3].metrics.unit",
        "parsec",
    ),
]


def declared(*values: float, unit: str = "token/s") -> Metric:
    return Metric(name="output_throughput", unit=unit, values=values, origin=Origin.REPORTED)


@pytest.mark.parametrize(("build", "code", "field", "words"), REFUSED)
def test_what_does_not_belong_together_is_refused(build: Build, code: str, field: str, words: str) -> None:
    with pytest.raises(Refused) as caught:
        build()
    assert (caught.value.code, caught.value.field) == (code, field)
    assert words in str(caught.value)


def test_declarations_that_agree_are_taken() -> None:
    config: dict[str, Scalar] = {"load.rate": 100.4, "load.streaming": "true", "observed.output_length": 50}
    accuracy = Metric(name="accuracy", unit="1", values=(0.71,), origin=Origin.REPORTED)
    in_thousands = declared(4.8, unit="ktoken/s")
    arm = assemble(Role.BASELINE, [read(FIRST)], config, metrics=[in_thousands, accuracy])
    assert arm.config["load.rate"] == 100.0, "the file is the better witness"
    assert throughput(arm).origin is Origin.MEASURED
    assert accuracy in arm.metrics
    assert len([m for m in arm.metrics if m.name == "output_throughput"]) == 1


def test_an_arm_of_declared_metrics_alone() -> None:
    arm = assemble(Role.BASELINE, [], {"gpu": "RTX"}, metrics=[declared(10.0)])
    assert arm.metrics == (declared(10.0),)
    assert arm.runs == ()
    assert arm.tool is None
    assert judge_runs(arm, Policy()).valid is None


def test_two_arms_from_files_compare() -> None:
    baseline = assemble(Role.BASELINE, [read(FIRST)], {}, attachments=[attached(FIRST)])
    treatment = assemble(Role.TREATMENT, [read(OVERLOADED)], {}, attachments=[attached(OVERLOADED)])
    contrasts = {
        (c.metric, c.statistic): c for c in contrasts_of(baseline, treatment, Level.SERVING, Policy())
    }
    assert contrasts["output_throughput", None].ratio == pytest.approx(6250 / 4800)
    assert not any(metric in {"tpot", "itl"} for metric, _ in contrasts)
    assert judge_runs(baseline, Policy()).valid is True
    assert judge_runs(treatment, Policy()).valid is False

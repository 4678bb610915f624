"""Run validity: a table of one fact changed at a time on a run that is otherwise sound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.contrast import Arm, Role, RunFacts
from app.domain.policy import Policy
from app.domain.validity import RunValidity, judge_runs

SOUND = RunFacts(
    source="run_1.json",
    requests=6000,
    failures=0,
    duration_s=61.0,
    requested_rate=100.0,
    achieved_rate=99.5,
    schedule_delay_p99_s=0.002,
    ttft_min_s=0.02,
    ttft_p99_s=0.2,
    ttft_median_s=0.04,
    e2e_min_s=0.5,
    e2e_median_s=1.0,
    output_len_min=50.0,
    output_len_mean=50.0,
    output_len_max=50.0,
    input_len_mean=200.0,
    max_tokens=50.0,
)


def judge(*runs: RunFacts, policy: Policy | None = None) -> RunValidity:
    return judge_runs(Arm(role=Role.TREATMENT, config={}, runs=runs), policy or Policy())


def test_a_sound_run_is_valid_without_reservation() -> None:
    assert judge(SOUND) == RunValidity(arm=Role.TREATMENT, valid=True, reasons=())


FAILS: list[tuple[dict[str, Any], str]] = [
    ({"failures": 61}, "61 of 6000 requests failed (1.02%, at most 1.00%)"),
    ({"requests": 0}, "no request was sent"),
    (
        {"requested_rate": 254.86, "achieved_rate": 176.95},
        "achieved rate 0.69 of the requested (176.9 of 254.9 requests/s)",
    ),
    ({"achieved_rate": 98.95}, "achieved rate 0.9895 of the requested (99.0 of 100.0 requests/s)"),
    ({"achieved_rate": 0.0}, "achieved rate 0.00 of the requested (0.0 of 100.0 requests/s)"),
    (
        {"schedule_delay_p99_s": 0.0041},
        "p99 schedule delay 4.1 ms is above 10% of the median time to first token (40.0 ms)",
    ),
    (
        {"schedule_delay_p99_s": 42.7, "ttft_median_s": 2.0, "e2e_median_s": 4.0},
        "p99 schedule delay 42.70 s is above 10% of the median time to first token (2.00 s)",
    ),
    ({"output_len_max": 51.0}, "the longest answer has 51 tokens, at most 50 were requested"),
    ({"output_len_min": 0.0}, "some requests that count as successes returned 0 output tokens"),
    ({"ttft_min_s": -0.001}, "the shortest time to first token is negative (-1.0 ms)"),
    (
        {"ttft_median_s": 1.5},
        "the median time to first token 1.50 s is above the median end-to-end time 1.00 s",
    ),
    (
        {"e2e_min_s": 0.01},
        "the shortest time to first token 20.0 ms is above the shortest end-to-end time 10.0 ms",
    ),
    ({"duration_s": 59.9}, "the run lasted 59.9 s, at least 60 s are needed"),
    ({"concurrency": 1201.0}, "6000 requests at concurrency 1201: at least 6005 are needed (5 a slot)"),
]


@pytest.mark.parametrize(("change", "reason"), FAILS)
def test_one_fault_one_reason_with_its_numbers(change: dict[str, Any], reason: str) -> None:
    judged = judge(replace(SOUND, **change))
    assert judged.valid is False
    assert judged.reasons == (reason,)


HOLDS: list[dict[str, Any]] = [
    {"failures": 60},
    {"achieved_rate": 99.0},
    {"schedule_delay_p99_s": 0.004},
    {"schedule_delay_p99_s": -0.001},
    {"duration_s": 60.0},
    {"concurrency": 1200.0},
    {"output_len_max": 10.0, "output_len_min": 1.0},
    # An empty or one-token answer has no first token of its own, so minima of the two sets do not compare.
    {"output_len_min": 1.0, "e2e_min_s": 0.01},
    {"requested_rate": None, "achieved_rate": None, "concurrency": 32.0},
]


@pytest.mark.parametrize("change", HOLDS)
def test_what_lies_on_the_limit_is_valid(change: dict[str, Any]) -> None:
    assert judge(replace(SOUND, **change)) == RunValidity(arm=Role.TREATMENT, valid=True)


def test_every_failing_reason_is_listed() -> None:
    judged = judge(replace(SOUND, failures=600, achieved_rate=50.0, duration_s=10.0, output_len_min=0.0))
    assert judged.valid is False
    assert len(judged.reasons) == 4


def test_without_a_record_nobody_can_tell() -> None:
    judged = judge()
    assert judged.valid is None
    assert "no load generator's record" in judged.reasons[0]


def test_a_record_that_says_nothing_lists_what_is_missing() -> None:
    judged = judge(RunFacts(source="x"))
    assert judged.valid is None
    assert judged.reasons[:2] == ("requests and failures not recorded", "duration not recorded")
    assert "not checked: requested and achieved rate not recorded" in judged.reasons


@pytest.mark.parametrize("gap", ["requests", "failures", "duration_s"])
def test_a_needed_fact_that_is_missing_is_not_assumed(gap: str) -> None:
    change: dict[str, Any] = {gap: None}
    assert judge(replace(SOUND, **change)).valid is None


def test_a_fault_outweighs_a_gap() -> None:
    assert judge(replace(SOUND, duration_s=None, output_len_min=0.0)).valid is False


def test_a_check_that_could_not_be_made_is_told_on_a_valid_run() -> None:
    judged = judge(replace(SOUND, max_tokens=None))
    assert judged.valid is True
    told = "not checked: longest answer by the server's count, and requested output length not recorded"
    assert judged.reasons == (told,)


@pytest.mark.parametrize("rate", [0.0, float("inf"), -1.0])
def test_a_rate_that_is_no_rate_is_not_judged(rate: float) -> None:
    assert (
        "not checked: requested and achieved rate not recorded"
        in judge(replace(SOUND, requested_rate=rate)).reasons
    )


def test_of_several_runs_the_worst_counts_and_is_named() -> None:
    short = replace(SOUND, source="run_2.json", duration_s=5.0)
    judged = judge(SOUND, short)
    assert judged.valid is False
    assert judged.reasons == ("run_2.json: the run lasted 5.0 s, at least 60 s are needed",)
    assert judge(SOUND, RunFacts(source="run_3.json")).valid is None
    assert judge(SOUND, SOUND).valid is True


def test_the_limits_are_the_policys() -> None:
    strict = Policy(max_error_share=0.0, min_duration_s=120.0)
    assert len(judge(replace(SOUND, failures=1), policy=strict).reasons) == 2


numbers = st.none() | st.floats(allow_nan=False, min_value=-1e6, max_value=1e6)


@given(
    st.builds(
        RunFacts,
        source=st.just("x"),
        requests=st.none() | st.integers(0, 10**6),
        failures=st.none() | st.integers(0, 10**6),
        **{
            name: numbers
            for name in RunFacts.__dataclass_fields__
            if name not in ("source", "requests", "failures")
        },
    )
)
def test_any_facts_are_judged_and_anything_but_valid_has_a_reason(run: RunFacts) -> None:
    judged = judge(run)
    assert judged.valid is True or judged.reasons

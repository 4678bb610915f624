"""inference-perf stage files: mapped by definition, oddities noted, other reports refused by name."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.contrast import Metric
from app.domain.errors import Refused
from app.formats import FORMATS, Parsed, detect, parse

FILES = Path(__file__).parent / "files"
GOOD = "stage_3_lifecycle_metrics.json"
OVERLOADED = "stage_6_lifecycle_metrics.json"
EVERY = sorted(path.name for path in FILES.glob("*.json"))


def raw(name: str) -> bytes:
    return (FILES / name).read_bytes()


def read(name: str) -> Parsed:
    return parse(raw(name), name=name)


def changed(name: str, path: str, value: Any) -> bytes:
    document = json.loads(raw(name))
    *parents, last = path.split(".")
    place = document
    for part in parents:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document).encode()


def value_of(parsed: Parsed, name: str, statistic: str | None = None) -> float | None:
    found = [m for m in parsed.metrics if m.key == (name, statistic)]
    return found[0].values[0] if found else None


def names(parsed: Parsed) -> set[str]:
    return {metric.name for metric in parsed.metrics}


def test_a_sound_stage_is_mapped_whole() -> None:
    parsed = read(GOOD)
    assert (parsed.format, parsed.tool, parsed.tool_version) == ("inference-perf", "inference-perf", None)
    assert value_of(parsed, "output_throughput") == 4800.0
    assert value_of(parsed, "input_throughput") == 19200.0
    assert value_of(parsed, "total_token_throughput") == 24000.0
    assert value_of(parsed, "request_throughput") == 96.0
    for name, figures in {
        "ttft": (0.04, 0.038, 0.06, 0.09),
        "tpot": (0.02, 0.0198, 0.025, 0.031),
        "itl": (0.02, 0.019, 0.028, 0.045),
        "e2e_latency": (1.02, 1.0, 1.3, 1.6),
    }.items():
        assert tuple(value_of(parsed, name, s) for s in ("mean", "median", "p90", "p99")) == figures
    assert {m.unit for m in parsed.metrics if m.statistic} == {"s"}
    assert parsed.notes == ()
    assert parsed.config == {
        "load.rate": 100.0,
        "load.streaming": True,
        "observed.input_length": 200.0,
        "observed.output_length": 50.0,
    }


def test_run_facts_are_filled_in_full() -> None:
    run = read(GOOD).run
    assert run is not None
    assert (run.source, run.requests, run.failures) == (GOOD, 6000, 0)
    assert run.duration_s == 62.5, "the window from first send to last end, not send_duration"
    assert (run.requested_rate, run.achieved_rate, run.concurrency) == (100.0, 100.016669, None)
    assert run.schedule_delay_p99_s == 0.0019
    assert (run.ttft_min_s, run.ttft_median_s, run.ttft_p99_s) == (0.02, 0.038, 0.09)
    assert (run.e2e_min_s, run.e2e_median_s) == (0.6, 1.0)
    assert (run.output_len_min, run.output_len_mean, run.output_len_max) == (50.0, 50.0, 50.0)
    assert (run.input_len_mean, run.max_tokens) == (200.0, None)


def test_the_stated_window_comes_before_the_derived_one() -> None:
    run = parse(changed(GOOD, "benchmark_time_seconds", 63.0), name=GOOD).run
    assert run is not None
    assert run.duration_s == 63.0


def test_the_count_behind_the_throughput_is_told() -> None:
    def how(data: bytes) -> str | None:
        return parse(data, name=GOOD).metrics[0].how

    assert "the server's count" in str(how(raw(GOOD)))
    client = changed(GOOD, "successes.throughput.output_tokens_per_sec", 96.0 * 51.0)
    assert "the client's tokenizer" in str(how(client))
    assert "unknown count" in str(how(changed(GOOD, "successes.throughput.output_tokens_per_sec", 9999.0)))


def test_duration_of_an_older_file_is_the_window_behind_its_rates() -> None:
    run = read(OVERLOADED).run
    assert run is not None
    assert run.duration_s == pytest.approx(96.0)
    without = parse(changed(OVERLOADED, "successes.throughput.requests_per_sec", 0.0), name=OVERLOADED)
    assert without.run is not None
    assert without.run.duration_s == 93.75


def test_times_per_token_that_counted_empty_lines_are_left_out() -> None:
    parsed = read(OVERLOADED)
    assert names(parsed).isdisjoint({"tpot", "itl"})
    assert {"ttft", "e2e_latency", "output_throughput"} <= names(parsed)
    assert any("time_per_output_token (mean 9.90 ms)" in n and "imply 20.00 ms" in n for n in parsed.notes)


def test_gaps_of_zero_inside_a_chunk_are_no_inter_chunk_gaps() -> None:
    parsed = parse(changed(GOOD, "successes.latency.inter_token_latency.min", 0.0), name=GOOD)
    assert "itl" not in names(parsed)
    assert "tpot" in names(parsed)
    assert any("0 s" in note for note in parsed.notes)


def test_an_empty_answer_is_noted() -> None:
    parsed = read(OVERLOADED)
    assert parsed.run is not None
    assert parsed.run.output_len_min == 0
    assert any("no output token" in note for note in parsed.notes)


def test_all_requests_failed_gives_no_metric_and_no_zero() -> None:
    parsed = read("stage_0_all_failed.json")
    assert parsed.metrics == ()
    assert parsed.run is not None
    assert (parsed.run.requests, parsed.run.failures, parsed.run.ttft_min_s) == (300, 300, None)
    assert "observed.output_length" not in parsed.config
    assert any("No request succeeded" in note for note in parsed.notes)


def test_a_closed_loop_has_no_requested_rate() -> None:
    parsed = read("stage_0_closed_unary.json")
    assert parsed.run is not None
    assert (parsed.run.concurrency, parsed.run.requested_rate, parsed.run.schedule_delay_p99_s) == (
        32,
        None,
        None,
    )
    assert "load.rate" not in parsed.config
    assert parsed.config["load.concurrency"] == 32
    assert "load.arrival" not in parsed.config


def test_without_streaming_there_is_no_time_to_first_token() -> None:
    parsed = read("stage_0_closed_unary.json")
    assert names(parsed).isdisjoint({"ttft", "tpot", "itl"})
    assert "load.streaming" not in parsed.config
    assert sum("is absent" in note for note in parsed.notes) == 3


def test_zero_statistics_are_left_out_not_passed_on() -> None:
    parsed = parse(changed(GOOD, "successes.throughput.output_tokens_per_sec", 0.0), name=GOOD)
    assert "output_throughput" not in names(parsed)
    assert any("nothing was measured" in note for note in parsed.notes)
    one_request = parse(changed(GOOD, "load_summary.send_duration", 0.0), name=GOOD)
    assert one_request.run is not None
    assert one_request.run.achieved_rate is None


def test_counts_that_do_not_add_up_are_noted() -> None:
    assert any("6001" in n for n in parse(changed(GOOD, "load_summary.count", 6001), name=GOOD).notes)
    failures = parse(changed(GOOD, "failures.count", 7), name=GOOD)
    assert any(note.startswith("7 requests failed") for note in failures.notes)


OTHER_REPORTS = [
    ("summary_lifecycle_metrics.json", None, "sweep-summary"),
    ("stage_6_prometheus_metrics.json", None, "server-metrics"),
    (GOOD, "adapter_a_stage_3_lifecycle_metrics.json", "adapter-share"),
]


@pytest.mark.parametrize(("file", "name", "code"), OTHER_REPORTS)
def test_other_reports_of_the_tool_are_refused_by_name(file: str, name: str | None, code: str) -> None:
    assert detect(raw(file), name or file).format == "inference-perf"
    with pytest.raises(Refused) as caught:
        parse(raw(file), name=name or file)
    assert caught.value.code == code
    assert "stage_N_lifecycle_metrics.json" in caught.value.remedy


BROKEN = [
    ("load_summary.count", "many", "wrong-type", "load_summary.count"),
    ("load_summary.count", 10.5, "wrong-type", "load_summary.count"),
    ("load_summary.count", 1e300, "wrong-type", "load_summary.count"),
    ("load_summary.requested_rate", True, "wrong-type", "load_summary.requested_rate"),
    ("load_summary.requested_rate", -1.0, "negative", "load_summary.requested_rate"),
    ("load_summary.requested_rate", None, "sweep-summary", "load_summary.requested_rate"),
    ("successes.latency", [1], "wrong-type", "successes.latency"),
    ("successes.latency.time_to_first_token", 3.0, "wrong-type", "successes.latency.time_to_first_token"),
    (
        "successes.latency.time_to_first_token.min",
        -0.1,
        "negative",
        "successes.latency.time_to_first_token.min",
    ),
    (
        "successes.latency.time_to_first_token.p99",
        0.01,
        "not-ordered",
        "successes.latency.time_to_first_token",
    ),
    ("failures", None, "unknown-format", "failures"),
    ("failures", ..., "unknown-format", "failures"),
]


@pytest.mark.parametrize(("path", "value", "code", "field"), BROKEN)
def test_a_wrong_field_is_named(path: str, value: Any, code: str, field: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(changed(GOOD, path, value), name=GOOD)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_detection_says_why_or_what_came_closest() -> None:
    assert "load_summary" in detect(raw(GOOD), GOOD).why
    with pytest.raises(Refused, match=r"inference-perf comes closest \(2 of 3 marks\); failures is missing"):
        detect(b'{"load_summary": {}, "successes": {}}', "x.json")
    for body in (b"[]", b"{}", b"3", b"null", b'"text"'):
        with pytest.raises(Refused) as caught:
            detect(body, "x.json")
        assert caught.value.code == "unknown-format"


def test_a_stated_format_is_held_to() -> None:
    assert parse(raw(GOOD), name=GOOD, format="inference-perf") == read(GOOD)
    assert FORMATS["inference-perf"](raw(GOOD), name=GOOD) == read(GOOD)
    with pytest.raises(Refused) as caught:
        parse(b"{}", name="x", format="inference-perf")
    assert (caught.value.code, caught.value.field) == ("wrong-format", "load_summary")
    with pytest.raises(Refused, match="not a format that is read"):
        parse(raw(GOOD), name=GOOD, format="elsewhere")


def test_ways_in_which_a_file_arrives_damaged() -> None:
    good = raw(GOOD)
    assert parse(b"\xef\xbb\xbf" + good, name=GOOD) == read(GOOD)
    for body in (b"", good[:700], gzip.compress(good), good + good, good.replace(b"62.5", b"NaN")):
        with pytest.raises(Refused) as caught:
            parse(body, name=GOOD)
        assert caught.value.code in {"not-json", "not-finite"}


@given(st.sampled_from(EVERY), st.data())
@settings(max_examples=300)
def test_mutated_files_are_read_or_refused(name: str, data: st.DataObject) -> None:
    body = bytearray(raw(name))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    read_or_refuse(bytes(body))


ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53), 2**53),
    st.sampled_from([1e308, 5e-324, 0.0, -0.0, [], {}]),
    st.text(max_size=5),
)


@given(st.sampled_from(EVERY), st.data())
@settings(max_examples=500)
def test_any_value_in_any_field_is_read_or_refused(name: str, data: st.DataObject) -> None:
    document = copy.deepcopy(json.loads(raw(name)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = document
        while True:
            key = data.draw(st.sampled_from(sorted(place)))
            if not (isinstance(place[key], dict) and place[key] and data.draw(st.integers(0, 5))):
                break
            place = place[key]
        place[key] = data.draw(ODD)
    read_or_refuse(json.dumps(document).encode())


def read_or_refuse(body: bytes) -> None:
    try:
        parsed = parse(body, name=GOOD)
    except Refused:
        return
    assert all(is_a_measurement(metric) for metric in parsed.metrics)


def is_a_measurement(metric: Metric) -> bool:
    return all(0 < value < float("inf") for value in metric.values)

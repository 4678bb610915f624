"""Stage files of kubernetes-sigs/inference-perf (`stage_N_lifecycle_metrics.json`).

Times are in seconds; the 50th percentile is named `median`. What the fields mean, by the tool's source:

- throughput counts successful requests only, over a window from the first send to the last end, failures
  included; `benchmark_time_seconds` (since April 2026) is that window, else it is count / requests_per_sec.
- `send_duration` runs from the first to the last send: shorter than the run, so not its duration.
- `achieved_rate` is all requests over `send_duration`. With a `concurrency` the requested rate is nominal.
- `time_per_output_token` is (last - first) / (tokens - 1) of each request. Until spring 2026 it divided by
  the *lines* of the stream, the empty ones between events included: about two a token, so that it and
  `inter_token_latency` came out at half. Such files betray themselves (see `_unfit`).
- `output_len` is counted by the client's tokenizer over the returned text; `output_tokens`, in newer files,
  is the server's own count where it gave one.
"""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import Final

from app.domain.claim import Scalar
from app.domain.contrast import Metric, RunFacts
from app.domain.errors import Refused
from app.formats.fields import Section
from app.formats.parsed import Format, Likeness, Parsed, Source

NAME: Final = "inference-perf"
MARKS: Final = ("load_summary", "successes", "failures")

THROUGHPUT: Final = (
    ("output_throughput", "token/s", "output_tokens_per_sec"),
    ("input_throughput", "token/s", "input_tokens_per_sec"),
    ("total_token_throughput", "token/s", "total_tokens_per_sec"),
    ("request_throughput", "1/s", "requests_per_sec"),
)
LATENCY: Final = (
    ("ttft", "time_to_first_token", "first streamed token minus send time; answers of two tokens or more"),
    ("tpot", "time_per_output_token", "per request: (last token - first token) / (tokens - 1)"),
    ("itl", "inter_token_latency", "gaps between streamed tokens of all requests"),
    ("e2e_latency", "request_latency", "end of the response minus send time"),
)
STATISTICS: Final = ("mean", "median", "p90", "p99")
AGREES_WITHIN: Final = 1.67
"""Tails and weighting move a time per token away from what latency and length imply, but not twofold."""


def liken(source: Source) -> Likeness:
    """Whether the file has the three sections of a lifecycle report."""
    document = source.document()
    members = document if isinstance(document, dict) else {}
    missing = [mark for mark in MARKS if not isinstance(members.get(mark), dict)]
    return Likeness(
        found=len(MARKS) - len(missing),
        wanted=len(MARKS),
        why="it has the sections load_summary, successes and failures of a lifecycle report",
        missing=missing[0] if missing else None,
    )


def read(source: Source) -> Parsed:
    """Read one stage file.

    Raises:
        Refused: no stage file of this tool, or a report that must not be compared.
    """
    likeness = liken(source)
    if likeness.missing:
        raise Refused(
            f"This is no {NAME} report: {likeness.missing} is missing or not an object.",
            field=likeness.missing,
            remedy="Send a stage_N_lifecycle_metrics.json as the tool wrote it.",
            code="wrong-format",
        )
    root = Section(path="", members=source.document())
    load, successes, failures = (_known(root, mark) for mark in MARKS)
    _refuse_other_reports(load, successes, source.name)
    notes: list[str] = []
    run = _facts(root, load, successes, failures, source.name, notes)
    latency = successes.section("latency") or Section(path="successes.latency", members={})
    metrics = (*_throughput(successes, notes), *_latency(latency, successes, notes))
    return Parsed(
        format=NAME,
        tool=NAME,
        config=_config(run, latency),
        metrics=metrics,
        run=run,
        notes=tuple(notes),
    )


def _known(root: Section, mark: str) -> Section:
    return root.section(mark) or Section(path=mark, members={})


def _refuse_other_reports(load: Section, successes: Section, name: str) -> None:
    remedy = "Give one stage_N_lifecycle_metrics.json an arm, or the same stage of several runs."
    if not load.members and "latency" not in successes.members:
        raise Refused(
            "This is the report of the server's own Prometheus metrics, which says nothing about the load.",
            field="load_summary",
            value="{}",
            remedy=remedy,
            code="server-metrics",
        )
    if PurePath(name).name.startswith("adapter_"):
        raise Refused(
            "This report covers one adapter's requests, while its requested rate is that of the whole stage.",
            field="load_summary.requested_rate",
            value=name,
            remedy=remedy,
            code="adapter-share",
        )
    if load.number("requested_rate") is None:
        raise Refused(
            "This is a summary over all stages (no requested rate): it mixes loads and does not compare.",
            field="load_summary.requested_rate",
            remedy=remedy,
            code="sweep-summary",
        )


def _facts(
    root: Section, load: Section, successes: Section, failures: Section, name: str, notes: list[str]
) -> RunFacts:
    requests, good, failed = load.count("count"), successes.count("count"), failures.count("count")
    if requests is not None and good is not None and failed is not None and requests != good + failed:
        notes.append(
            f"load_summary counts {requests} requests, successes and failures together {good + failed}."
        )
    if not good:
        notes.append("No request succeeded: nothing is measured in this run.")
    if failed:
        notes.append(f"{failed} requests failed; latencies and throughput are of the successful ones only.")
    concurrency = load.number("concurrency") or None
    if concurrency:
        notes.append(
            "A concurrency is stated: the requested rate and the schedule delay are nominal, not judged."
        )
    delay = None if concurrency else load.distribution("schedule_delay", signed=True).get("p99")
    latency = successes.section("latency") or Section(path="successes.latency", members={})
    ttft, e2e = latency.distribution("time_to_first_token"), latency.distribution("request_latency")
    answers, prompts = _lengths(successes)
    if answers.get("min") == 0:
        notes.append("Some successful requests returned no output token at all.")
    return RunFacts(
        source=name,
        requests=requests,
        failures=failed,
        duration_s=_duration(root, load, successes),
        requested_rate=None if concurrency else load.number("requested_rate"),
        achieved_rate=None if concurrency else _achieved(load, notes),
        concurrency=concurrency,
        schedule_delay_p99_s=delay,
        ttft_min_s=ttft.get("min"),
        ttft_p99_s=ttft.get("p99"),
        ttft_median_s=ttft.get("median"),
        e2e_min_s=e2e.get("min"),
        e2e_median_s=e2e.get("median"),
        output_len_min=answers.get("min"),
        output_len_mean=answers.get("mean"),
        output_len_max=answers.get("max"),
        input_len_mean=prompts.get("mean"),
        # The tool tokenizes the returned text again: its counts can exceed what the server generated.
        lengths_by_client=True,
    )


def _achieved(load: Section, notes: list[str]) -> float | None:
    if load.number("send_duration") == 0:
        # The tool writes 0.0 when all requests were sent at once: no rate was measured.
        notes.append("send_duration is 0, so no achieved rate was measured.")
        return None
    return load.number("achieved_rate")


def _duration(root: Section, load: Section, successes: Section) -> float | None:
    stated = root.number("benchmark_time_seconds")
    if stated:
        return stated
    throughput = successes.section("throughput")
    rate = throughput.number("requests_per_sec") if throughput else None
    good = successes.count("count")
    if rate and good and math.isfinite(good / rate):
        return good / rate
    return load.number("send_duration") or None


def _lengths(successes: Section) -> tuple[dict[str, float], dict[str, float]]:
    """Distributions of output and input lengths, the server's own count before the client's."""
    answers = successes.distribution("output_tokens") or successes.distribution("output_len")
    prompts = successes.distribution("prompt_tokens") or successes.distribution("prompt_len")
    return answers, prompts


def _throughput(successes: Section, notes: list[str]) -> list[Metric]:
    section = successes.section("throughput")
    if section is None:
        notes.append("successes.throughput is absent: no throughput.")
        return []
    how = f"successful requests, first send to last end; output tokens by {_counted_by(successes, section)}"
    metrics = []
    for name, unit, key in THROUGHPUT:
        value = section.number(key)
        if value:
            metrics.append(Metric(name=name, unit=unit, values=(value,), how=how))
        else:
            state = "0, which here means that nothing was measured" if value == 0 else "absent"
            notes.append(f"{section.at(key)} is {state}: no {name}.")
    return metrics


def _counted_by(successes: Section, throughput: Section) -> str:
    """Whose count of output tokens the throughput rests on: a setting that the file does not repeat."""
    tokens, requests = throughput.number("output_tokens_per_sec"), throughput.number("requests_per_sec")
    server = successes.distribution("output_tokens").get("mean")
    client = successes.distribution("output_len").get("mean")
    if tokens and requests and server and not _close(tokens / requests, client):
        return "the server's count" if _close(tokens / requests, server) else "an unknown count"
    return "the client's tokenizer"


def _close(value: float, other: float | None) -> bool:
    return other is not None and math.isclose(value, other, rel_tol=1e-6)


def _latency(latency: Section, successes: Section, notes: list[str]) -> list[Metric]:
    statistics = {key: latency.distribution(key) for _, key, _ in LATENCY}
    unfit = _unfit(statistics, successes, notes)
    metrics = []
    for name, key, how in LATENCY:
        values = statistics[key]
        if not values:
            notes.append(f"{latency.at(key)} is absent: no {name}.")
        if name in unfit:
            continue
        zero = [statistic for statistic in STATISTICS if values.get(statistic) == 0]
        if zero:
            notes.append(f"{latency.at(key)} is 0 at {', '.join(zero)}, which is no time: left out.")
        metrics += [
            Metric(name=name, unit="s", values=(values[statistic],), statistic=statistic, how=how)
            for statistic in STATISTICS
            if values.get(statistic)
        ]
    return metrics


def _unfit(statistics: dict[str, dict[str, float]], successes: Section, notes: list[str]) -> set[str]:
    """Per-token times that do not mean what their name says in this file."""
    length = _lengths(successes)[0].get("mean", 0.0)
    end, first = (statistics[key].get("mean") for key in ("request_latency", "time_to_first_token"))
    implied = (end - first) / (length - 1) if end and first and length > 1 else 0.0
    unfit = set()
    for name, key in (("tpot", "time_per_output_token"), ("itl", "inter_token_latency")):
        stated = statistics[key].get("mean")
        if stated and implied > 0 and not 1 / AGREES_WITHIN < stated / implied < AGREES_WITHIN:
            unfit.add(name)
            notes.append(
                f"{key} (mean {stated * 1e3:.2f} ms) is left out: end-to-end time, time to first token and "
                f"output length of the same file imply {implied * 1e3:.2f} ms a token. Older versions of the "
                "tool also counted the empty lines of the stream."
            )
    gaps = statistics["inter_token_latency"]
    if gaps.get("min") == 0 and "itl" not in unfit:
        unfit.add("itl")
        notes.append(
            "inter_token_latency is left out: tokens that came in one chunk count as gaps of 0 s, "
            "so it is not the gap between chunks."
        )
    return unfit


def _config(run: RunFacts, latency: Section) -> dict[str, Scalar]:
    told: dict[str, Scalar] = {
        "load.rate": run.requested_rate,
        "load.concurrency": run.concurrency,
        "load.streaming": True if latency.section("time_to_first_token") else None,
        "observed.input_length": run.input_len_mean,
        "observed.output_length": run.output_len_mean,
    }
    return {name: value for name, value in told.items() if value is not None}


FORMAT: Final = Format(name=NAME, liken=liken, read=read)

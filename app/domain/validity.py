"""Whether a serving run measured what it set out to measure.

A run is valid when its errors are few, the load was sent at the requested rate and on time, every answer
is possible (length, order of times), and it lasted long enough. An invalid run is kept with its reasons and
can never qualify. What was not recorded is not assumed: without error share and duration nobody can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.domain.contrast import Arm, Role, RunFacts
from app.domain.policy import Policy
from app.domain.repeats import told_once


@dataclass(frozen=True, slots=True, kw_only=True)
class RunValidity:
    """The judgement over all runs of an arm.

    `reasons` says every way in which an invalid arm (`valid` is False) fails, what is missing where nobody
    can tell (`valid` is None), and what could not be checked on a valid one.
    """

    arm: Role
    valid: bool | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check came to: not possible, passed (no reasons), or failed."""

    possible: bool = True
    reasons: tuple[str, ...] = ()


NOT_RECORDED: Final = Finding(possible=False)
PASSED: Final = Finding()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One condition of a valid run. Without a `needed` one, passing the others proves nothing."""

    what: str
    judge: Callable[[RunFacts, Policy], Finding]
    needed: bool = False


def judge_runs(arm: Arm, policy: Policy) -> RunValidity:
    """Judge the runs of an arm: one invalid run makes it invalid, one that cannot be told makes it untold."""
    if not arm.runs:
        missing = "no load generator's record of a run is attached, so its validity cannot be told"
        return RunValidity(arm=arm.role, valid=None, reasons=(missing,))
    found = [(run.source, [(check, check.judge(run, policy)) for check in CHECKS]) for run in arm.runs]
    failed = told_once([(name, [r for _, finding in all_ for r in finding.reasons]) for name, all_ in found])
    absent = [(name, [check for check, finding in all_ if not finding.possible]) for name, all_ in found]
    untold = told_once(
        [(name, [f"{c.what} not recorded" for c in all_ if c.needed]) for name, all_ in absent]
    )
    unchecked = told_once(
        [
            (name, [f"not checked: {c.what} not recorded" for c in all_ if not c.needed])
            for name, all_ in absent
        ]
    )
    if failed:
        return RunValidity(arm=arm.role, valid=False, reasons=failed)
    if untold:
        return RunValidity(arm=arm.role, valid=None, reasons=untold + unchecked)
    return RunValidity(arm=arm.role, valid=True, reasons=unchecked)


def _failed(reason: str) -> Finding:
    return Finding(reasons=(reason,))


def _errors(run: RunFacts, policy: Policy) -> Finding:
    if run.requests is None or run.failures is None:
        return NOT_RECORDED
    if run.requests <= 0:
        return _failed("no request was sent")
    share = run.failures / run.requests
    if share <= policy.max_error_share:
        return PASSED
    return _failed(
        f"{run.failures} of {run.requests} requests failed "
        f"({share:.2%}, at most {policy.max_error_share:.2%})"
    )


def _rate(run: RunFacts, policy: Policy) -> Finding:
    requested, achieved = run.requested_rate, run.achieved_rate
    if requested is None or achieved is None or not math.isfinite(requested) or requested <= 0:
        # In a closed loop there is no rate to keep up with.
        return NOT_RECORDED if run.concurrency is None else PASSED
    share = achieved / requested
    if share >= policy.min_achieved_share:
        return PASSED
    # Two digits, unless they would round a failing share up to the limit.
    digits = 2 if round(share, 2) < policy.min_achieved_share else 4
    return _failed(
        f"achieved rate {share:.{digits}f} of the requested ({achieved:.1f} of {requested:.1f} requests/s)"
    )


def _delay(run: RunFacts, policy: Policy) -> Finding:
    delay, ttft = run.schedule_delay_p99_s, run.ttft_median_s
    if run.concurrency is not None:
        # In a closed loop nothing is scheduled.
        return PASSED
    if delay is None or ttft is None:
        return NOT_RECORDED
    limit = policy.max_delay_of_ttft * ttft
    if delay <= limit:
        return PASSED
    return _failed(
        f"p99 schedule delay {_seconds(delay)} is above {policy.max_delay_of_ttft:.0%} of the median time to "
        f"first token ({_seconds(ttft)})"
    )


def _length(run: RunFacts, policy: Policy) -> Finding:
    if run.output_len_max is None or run.max_tokens is None or run.lengths_by_client:
        # Text tokenized again by the client says little about how many tokens the server generated.
        return NOT_RECORDED
    if run.output_len_max <= run.max_tokens:
        return PASSED
    return _failed(
        f"the longest answer has {run.output_len_max:g} tokens, at most {run.max_tokens:g} were requested"
    )


def _empty(run: RunFacts, policy: Policy) -> Finding:
    if run.output_len_min is None:
        return NOT_RECORDED
    if run.output_len_min > 0:
        return PASSED
    return _failed("some requests that count as successes returned 0 output tokens")


def _order(run: RunFacts, policy: Policy) -> Finding:
    first, end = run.ttft_median_s, run.e2e_median_s
    if run.ttft_min_s is None and (first is None or end is None):
        return NOT_RECORDED
    reasons = []
    if run.ttft_min_s is not None and run.ttft_min_s < 0:
        reasons.append(f"the shortest time to first token is negative ({_seconds(run.ttft_min_s)})")
    if first is not None and end is not None and first > end:
        reasons.append(
            f"the median time to first token {_seconds(first)} is above the median end-to-end time "
            f"{_seconds(end)}"
        )
    elif _min_above_min(run):
        reasons.append(
            f"the shortest time to first token {_seconds(run.ttft_min_s)} is above the shortest end-to-end "
            f"time {_seconds(run.e2e_min_s)}"
        )
    return Finding(reasons=tuple(reasons))


def _min_above_min(run: RunFacts) -> bool:
    """Only where every answer has a first token: an empty one ends at once and has none."""
    if run.ttft_min_s is None or run.e2e_min_s is None or run.output_len_min is None:
        return False
    return run.output_len_min >= 2 and run.ttft_min_s > run.e2e_min_s


def _duration(run: RunFacts, policy: Policy) -> Finding:
    if run.duration_s is None:
        return NOT_RECORDED
    if run.duration_s >= policy.min_duration_s:
        return PASSED
    return _failed(f"the run lasted {run.duration_s:.1f} s, at least {policy.min_duration_s:g} s are needed")


def _requests(run: RunFacts, policy: Policy) -> Finding:
    if run.concurrency is None:
        # In an open loop nothing caps the requests in flight; the duration alone is judged.
        return PASSED if run.requested_rate is not None else NOT_RECORDED
    if run.requests is None:
        return NOT_RECORDED
    needed = policy.min_requests_per_slot * run.concurrency
    if run.requests >= needed:
        return PASSED
    return _failed(
        f"{run.requests} requests at concurrency {run.concurrency:g}: at least {needed:g} are needed "
        f"({policy.min_requests_per_slot:g} a slot)"
    )


def _seconds(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value * 1e3:.1f} ms" if abs(value) < 1 else f"{value:.2f} s"


CHECKS: Final = (
    Check(what="requests and failures", judge=_errors, needed=True),
    Check(what="requested and achieved rate", judge=_rate),
    Check(what="p99 schedule delay and median time to first token", judge=_delay),
    Check(what="longest answer by the server's count, and requested output length", judge=_length),
    Check(what="shortest answer", judge=_empty),
    Check(what="times to first token and end to end", judge=_order),
    Check(what="duration", judge=_duration, needed=True),
    Check(what="concurrency and number of requests", judge=_requests),
)

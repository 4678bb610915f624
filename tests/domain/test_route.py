"""Routing: each rule, each rule that holds back, their boundaries, and the promise of `would_raise`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.case import Change, State, Strength, Verb
from app.domain.policy import Policy
from app.domain.route import Ears, Route, Routing, decisions_of, route
from app.domain.verdict import Verdict

POLICY = Policy()
NOON = datetime(2026, 8, 12, 10, 0, tzinfo=UTC)
"""Noon in Vienna."""
STILL = Change(
    price_before=0.5,
    price_after=0.5,
    state_before=State.ACTIVE,
    state_after=State.ACTIVE,
    verdict_before=Verdict.OPEN,
    verdict_after=Verdict.OPEN,
)
SUPPORTED = replace(STILL, price_after=0.92, state_after=State.REPRICED, verdict_after=Verdict.SUPPORTED)
FIRST = replace(STILL, first_qualifying=True)
EXPIRED = replace(STILL, state_after=State.EXPIRED)
RANK = list(Route).index
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def ears(**changes: Any) -> Ears:
    return replace(Ears(owner="scott", zone="Europe/Vienna", relevance=Strength.HIGH), **changes)


def routed(change: Change, at: datetime = NOON, policy: Policy = POLICY, **changes: Any) -> Routing:
    return route("a-case", change, at, ears(**changes), policy)


def moved(before: float, after: float) -> Change:
    return replace(STILL, price_before=before, price_after=after)


@pytest.mark.parametrize(
    ("change", "rule", "expected"),
    [
        (SUPPORTED, "verdict-change", Route.INTERRUPT),
        (
            replace(SUPPORTED, verdict_before=Verdict.SUPPORTED, verdict_after=Verdict.OPEN),
            "verdict-change",
            Route.INTERRUPT,
        ),
        (FIRST, "first-qualifying", Route.INTERRUPT),
        (replace(FIRST, state_after=State.REPRICED), "first-qualifying", Route.INTERRUPT),
        (EXPIRED, "state-change", Route.DIGEST),
        (moved(0.50, 0.60), "price-move", Route.DIGEST),
        (moved(0.60, 0.50), "price-move", Route.DIGEST),
        (moved(0.70, 0.80), "price-move", Route.DIGEST),
        (moved(0.50, 0.599), "nothing-consequential", Route.SILENT),
        (STILL, "nothing-consequential", Route.SILENT),
    ],
)
def test_each_rule(change: Change, rule: str, expected: Route) -> None:
    got = routed(change)
    assert (got.rule, got.route, got.held_back) == (rule, expected, ())


@pytest.mark.parametrize(
    ("relevance", "expected"),
    [
        (Strength.NONE, Route.DIGEST),
        (Strength.LOW, Route.DIGEST),
        (Strength.MEDIUM, Route.INTERRUPT),
        (Strength.HIGH, Route.INTERRUPT),
    ],
)
def test_weak_grounding_lowers_an_interrupt(relevance: Strength, expected: Route) -> None:
    got = routed(SUPPORTED, relevance=relevance)
    assert got.route is expected
    assert [h.rule for h in got.held_back] == (["weak-grounding"] if expected is Route.DIGEST else [])


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "moment", "quiet"),
    [
        # Vienna in summer is UTC+2: quiet from 20:00 to 05:00 UTC, across midnight
        ("Europe/Vienna", "2026-08-12T19:59:59", False),
        ("Europe/Vienna", "2026-08-12T20:00:00", True),
        ("Europe/Vienna", "2026-08-12T22:00:00", True),
        ("Europe/Vienna", "2026-08-13T04:59:59", True),
        ("Europe/Vienna", "2026-08-13T05:00:00", False),
        # in winter UTC+1
        ("Europe/Vienna", "2026-12-12T20:59:59", False),
        ("Europe/Vienna", "2026-12-12T21:00:00", True),
        ("Europe/Vienna", "2026-12-13T05:59:59", True),
        ("Europe/Vienna", "2026-12-13T06:00:00", False),
        # clocks go forward on 29 March 2026 at 01:00 UTC, back on 25 October at 01:00 UTC
        ("Europe/Vienna", "2026-03-29T04:59:59", True),
        ("Europe/Vienna", "2026-03-29T05:00:00", False),
        ("Europe/Vienna", "2026-03-28T05:30:00", True),
        ("Europe/Vienna", "2026-10-25T05:30:00", True),
        ("Europe/Vienna", "2026-10-25T06:00:00", False),
        ("Europe/Vienna", "2026-10-24T05:00:00", False),
        # New York: forward on 8 March 2026 at 07:00 UTC, back on 1 November at 06:00 UTC
        ("America/New_York", "2026-03-07T11:59:59", True),
        ("America/New_York", "2026-03-07T12:00:00", False),
        ("America/New_York", "2026-03-08T10:59:59", True),
        ("America/New_York", "2026-03-08T11:00:00", False),
        ("America/New_York", "2026-10-31T11:00:00", False),
        ("America/New_York", "2026-11-01T11:30:00", True),
        ("America/New_York", "2026-11-01T12:00:00", False),
        ("America/New_York", "2026-08-12T01:59:59", False),
        ("America/New_York", "2026-08-12T02:00:00", True),
    ],
)
def test_quiet_hours_are_the_owners(zone: str, moment: str, quiet: bool) -> None:
    got = routed(SUPPORTED, at(moment), zone=zone)
    assert [h.rule for h in got.held_back] == (["quiet-hours"] if quiet else [])
    assert got.route is (Route.DIGEST if quiet else Route.INTERRUPT)


@pytest.mark.parametrize(("hour", "quiet"), [(11, False), (12, True), (13, True), (14, False)])
def test_quiet_hours_within_one_day(hour: int, quiet: bool) -> None:
    policy = replace(POLICY, quiet_from_hour=12, quiet_until_hour=14)
    got = routed(SUPPORTED, at(f"2026-08-12T{hour - 2:02d}:30:00"), policy)
    assert bool(got.held_back) is quiet


def test_quiet_hours_are_told_with_the_zone() -> None:
    got = routed(SUPPORTED, at("2026-08-12T21:05:00"))
    assert got.held_back[0].reason == "it is 23:05 in Europe/Vienna, within quiet hours 22:00–07:00"


@pytest.mark.parametrize(
    ("today", "expected"),
    [(0, Route.INTERRUPT), (2, Route.INTERRUPT), (3, Route.DIGEST), (4, Route.DIGEST)],
)
def test_the_interrupt_budget(today: int, expected: Route) -> None:
    assert routed(SUPPORTED, interrupts_today=today).route is expected


def test_every_rule_that_holds_back_is_named() -> None:
    got = routed(SUPPORTED, at("2026-08-12T23:00:00"), interrupts_today=3, relevance=Strength.NONE)
    assert [h.rule for h in got.held_back] == ["weak-grounding", "quiet-hours", "interrupt-budget"]
    assert got.would_raise == (
        "without weak-grounding and quiet-hours and interrupt-budget this would have interrupted"
    )


@pytest.mark.parametrize("change", [EXPIRED, moved(0.3, 0.5)])
def test_a_digest_wakes_nobody_and_is_not_lowered_at_night(change: Change) -> None:
    got = routed(change, at("2026-08-12T23:00:00"), relevance=Strength.NONE, interrupts_today=9)
    assert (got.route, got.held_back) == (Route.DIGEST, ())


# --- duplicates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [SUPPORTED, FIRST, EXPIRED, moved(0.3, 0.5)])
@pytest.mark.parametrize(
    ("age", "again"),
    [
        (timedelta(0), True),
        (timedelta(hours=6) - timedelta(seconds=1), True),
        (timedelta(hours=6), False),
    ],
)
def test_the_same_again_inside_the_window_is_silent(change: Change, age: timedelta, again: bool) -> None:
    first = routed(change)
    got = routed(change, NOON + age, recent={first.key: NOON})
    assert (got.route is Route.SILENT) is again
    assert ("duplicate" in [h.rule for h in got.held_back]) is again
    if again:
        assert got.held_back[-1].reason == "the same alert went out at 2026-08-12 10:00 UTC"


def test_a_verdict_that_comes_back_is_no_duplicate_of_its_first_coming() -> None:
    """The recipient last heard that it was open again: being supported is news."""
    there, back = SUPPORTED, replace(SUPPORTED, verdict_before=Verdict.SUPPORTED, verdict_after=Verdict.OPEN)
    recent: dict[str, datetime] = {}
    for step, change in enumerate((there, back, there, back)):
        moment = NOON + timedelta(minutes=step)
        got = routed(change, moment, recent=dict(recent))
        assert got.route is Route.INTERRUPT
        recent[got.key] = moment


def test_a_price_that_moves_on_is_no_duplicate() -> None:
    first = routed(moved(0.30, 0.45))
    got = routed(moved(0.45, 0.30), NOON + timedelta(minutes=1), recent={first.key: NOON})
    assert got.route is Route.DIGEST


def test_another_cases_alert_is_no_duplicate() -> None:
    key = route("another-case", EXPIRED, NOON, ears(), POLICY).key
    assert routed(EXPIRED, recent={key: NOON}).route is Route.DIGEST


# --- what would raise it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (routed(SUPPORTED), None),
        (routed(SUPPORTED, interrupts_today=3), "without interrupt-budget this would have interrupted"),
        (routed(EXPIRED), "a change of verdict or a first qualifying result would have interrupted"),
        (
            routed(EXPIRED, at("2026-08-12T23:00:00")),
            "a change of verdict or a first qualifying result, without quiet-hours, would have interrupted",
        ),
        (routed(STILL), "at price ≥ 0.60 or at price ≤ 0.40 this would have gone to the digest"),
        (routed(moved(0.95, 0.95)), "at price ≤ 0.85 this would have gone to the digest"),
        (routed(moved(0.05, 0.05)), "at price ≥ 0.15 this would have gone to the digest"),
        # rounded away from the price before, never towards it
        (
            routed(moved(0.3515, 0.3515)),
            "at price ≥ 0.46 or at price ≤ 0.25 this would have gone to the digest",
        ),
        (
            routed(STILL, policy=replace(POLICY, digest_price_move=0.7)),
            "a change of state would have gone to the digest",
        ),
        (
            routed(EXPIRED, recent={routed(EXPIRED).key: NOON}),
            "without duplicate this would have gone to the digest",
        ),
        (
            routed(SUPPORTED, recent={routed(SUPPORTED).key: NOON}),
            "without duplicate this would have interrupted",
        ),
    ],
)
def test_would_raise(got: Routing, words: str | None) -> None:
    assert got.would_raise == words


prices = st.floats(0, 1)
changes = st.builds(
    Change,
    price_before=prices,
    price_after=prices,
    state_before=st.sampled_from(State),
    state_after=st.sampled_from(State),
    verdict_before=st.sampled_from(Verdict),
    verdict_after=st.sampled_from(Verdict),
    first_qualifying=st.booleans(),
)
quiet_changes = st.builds(
    lambda change, price: replace(STILL, price_before=price, price_after=price), changes, prices
)
moments = st.integers(0, 365 * 24 * 60).map(lambda minutes: NEW_YEAR + timedelta(minutes=minutes))
listeners = st.builds(
    Ears,
    owner=st.just("scott"),
    zone=st.sampled_from(["Europe/Vienna", "America/New_York", "Australia/Brisbane", "UTC"]),
    relevance=st.sampled_from(Strength),
    interrupts_today=st.integers(0, 5),
)


def without(rules: list[str], who: Ears, policy: Policy) -> tuple[Ears, Policy]:
    """The recipient and the policy with the named rules out of the way."""
    lifted: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "weak-grounding": ({"relevance": Strength.HIGH}, {}),
        "quiet-hours": ({}, {"quiet_from_hour": 0, "quiet_until_hour": 0}),
        "interrupt-budget": ({"interrupts_today": 0}, {}),
        "duplicate": ({"recent": {}}, {}),
    }
    for name in rules:
        who = replace(who, **lifted[name][0])
        policy = replace(policy, **lifted[name][1])
    return who, policy


@settings(max_examples=300, deadline=None)
@given(st.one_of(changes, quiet_changes), moments, listeners, st.booleans())
def test_making_the_change_that_is_named_raises_the_route(
    change: Change, moment: datetime, who: Ears, repeated: bool
) -> None:
    if repeated:
        key = route("a-case", change, moment, who, POLICY).key
        who = replace(who, recent={key: moment - timedelta(hours=1)})
    got = route("a-case", change, moment, who, POLICY)
    words = got.would_raise
    if words is None:
        assert got.route is Route.INTERRUPT
        return
    named = re.findall(r"weak-grounding|quiet-hours|interrupt-budget|duplicate", words)
    other, policy = without(named, who, POLICY)
    tried = [change]
    if words.startswith("at price"):
        tried = [replace(change, price_after=float(p)) for p in re.findall(r"\d\.\d\d", words)]
    elif words.startswith("a change of verdict"):
        after = next(v for v in Verdict if v is not change.verdict_before)
        tried = [replace(change, verdict_after=after), replace(change, first_qualifying=True)]
    for attempt in tried:
        raised = route("a-case", attempt, moment, other, policy)
        assert RANK(raised.route) > RANK(got.route), words
        if "interrupted" in words:
            assert raised.route is Route.INTERRUPT
        if "digest" in words:
            assert raised.route is Route.DIGEST


@settings(max_examples=200, deadline=None)
@given(changes, moments, listeners)
def test_a_route_is_only_ever_lowered_and_each_lowering_is_told(
    change: Change, moment: datetime, who: Ears
) -> None:
    got = route("a-case", change, moment, who, POLICY)
    bare, policy = without(["weak-grounding", "quiet-hours", "interrupt-budget"], who, POLICY)
    loudest = route("a-case", change, moment, bare, policy)
    assert RANK(got.route) <= RANK(loudest.route)
    assert bool(got.held_back) is (got.route is not loudest.route)
    for held in got.held_back:
        assert held.reason in got.reason


def test_the_trace_entries_hold_what_the_routing_was_computed_from() -> None:
    who = ears(interrupts_today=3, recent={"x": NOON})
    got = route("a-case", SUPPORTED, NOON, who, POLICY)
    first, second = decisions_of(got, NOON, who)
    assert (first.verb, second.verb) == (Verb.ALERT_ROUTE, Verb.ALERT_DIGEST)
    assert first.facts == second.facts
    facts = first.facts
    assert (facts["route"], facts["rule"], facts["key"]) == (got.route, got.rule, got.key)
    assert facts["held_back"] == [{"rule": h.rule, "reason": h.reason} for h in got.held_back]
    assert facts["ears"]["interrupts_today"] == 3
    assert facts["ears"]["recent"] == {"x": NOON.isoformat()}
    assert "3 interrupts went out today, the budget is 3" in first.reason
    assert second.reason.endswith("Without interrupt-budget this would have interrupted.")


@pytest.mark.parametrize(
    ("change", "verb"),
    [(SUPPORTED, Verb.ALERT_INTERRUPT), (EXPIRED, Verb.ALERT_DIGEST), (STILL, Verb.ALERT_SILENT)],
)
def test_the_second_entry_says_what_it_came_to(change: Change, verb: Verb) -> None:
    got = routed(change)
    assert decisions_of(got, NOON, ears())[1].verb is verb


@pytest.mark.parametrize("before", [0.50000001, 0.49999999, 0.9999999, 1e-9, 0.1, 0.9, 0.899999999])
def test_what_would_raise_a_price_is_told_whatever_its_last_digits(before: float) -> None:
    change = moved(before, before)
    assert route(
        "a-case", change, NOON, Ears(owner="o", zone="UTC", relevance=Strength.HIGH), POLICY
    ).would_raise

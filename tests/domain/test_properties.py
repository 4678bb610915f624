"""What must hold for any evidence and any sequence of events."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from builders import (
    CLAIM,
    OPENED,
    POLICY,
    SOUND_RUN,
    finding,
    judged,
    metric,
    opened,
    record,
    result,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.domain.assess import select, synthesize
from app.domain.case import Case, EvidenceRecorded, EvidenceWithdrawn, HorizonPassed, Outcome, State, Verb
from app.domain.contrast import RunFacts
from app.domain.decide import decide
from app.domain.evidence import Criterion, Evidence, EvidenceKind, Status
from app.domain.verdict import Verdict
from app.domain.verdict import rule as verdict_rule

MONOTONE_TOLERANCE = 1e-3
"""Relative; the same as for the price's envelope, see test_synthesis_properties."""

spreads = st.floats(0.001, 0.2).map(lambda d: (1 - d, 1.0, 1 + d))
ratios = st.floats(0.3, 3.0)
names = st.sampled_from(["a", "b", "c", "d"])


@st.composite
def results(draw: st.DrawFn, name: str | None = None) -> Evidence:
    """A qualifying result, or one with something missing, unmet or invalid."""
    changes = draw(
        st.sampled_from(
            [
                {},
                {},
                {},
                {"publisher": None},
                {"command": None},
                {"treat_run": replace(SOUND_RUN, achieved_rate=60.0)},
                {"treat_run": None},
                {"treatment": {"load.rate": 9.0}},
                {"treatment": {"effective.weights_format": "marlin"}},
                {"treatment": {"quantization.weights": "excluded"}},
            ]
        )
    )
    return result(draw(ratios), name=name or draw(names), spread=draw(spreads), **changes)


batches = st.lists(results(), min_size=1, max_size=5)


def numbered(evidence: list[Evidence]) -> list[tuple[int, Evidence]]:
    return list(enumerate(evidence, start=1))


def after_all(evidence: list[Evidence]) -> Case:
    case = opened().case
    for item in evidence:
        case = record(case, item).case
    return case


@settings(max_examples=40, deadline=None)
@given(batches, st.integers(0, 4))
def test_a_copy_of_what_is_there_moves_nothing(evidence: list[Evidence], index: int) -> None:
    case = after_all(evidence)
    copy = replace(evidence[index % len(evidence)], ref="a copy")
    got = record(case, copy)
    assert [d.verb for d in got.decisions] == [Verb.OBSERVE]
    assert (got.case.price, got.case.verdict, got.case.state) == (case.price, case.verdict, case.state)
    assert (got.case.due_at, got.case.last_material_at) == (case.due_at, case.last_material_at)
    assert got.interpretations == ()


@settings(max_examples=40, deadline=None)
@given(batches, st.integers(0, 4))
def test_deciding_twice_gives_the_same(evidence: list[Evidence], index: int) -> None:
    case = after_all(evidence)
    event = EvidenceRecorded(at=OPENED, number=9, evidence=evidence[index % len(evidence)])
    assert decide(case, event, POLICY) == decide(case, event, POLICY)


@settings(max_examples=40, deadline=None)
@given(batches, st.randoms(use_true_random=False))
def test_the_order_of_evidence_does_not_matter(evidence: list[Evidence], shuffle: random.Random) -> None:
    items = [judged(item, number) for number, item in numbered(evidence)]
    other = [*items]
    shuffle.shuffle(other)
    assert synthesize(other, CLAIM, POLICY) == synthesize(items, CLAIM, POLICY)
    assert select(other) == select(items)
    price = synthesize(items, CLAIM, POLICY).price
    for previous in Verdict:
        assert verdict_rule(price, price, other, previous, POLICY) == verdict_rule(
            price, price, items, previous, POLICY
        )


@settings(max_examples=25, deadline=None)
@given(batches, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter_for_the_price(
    evidence: list[Evidence], shuffle: random.Random
) -> None:
    other = [*evidence]
    shuffle.shuffle(other)
    one, two = after_all(evidence), after_all(other)
    assert one.price == pytest.approx(two.price, rel=1e-12)
    assert one.uncertainty is two.uncertainty


@settings(max_examples=40, deadline=None)
@given(results(name="a"), results(name="b"), st.integers(1, 6))
def test_echoes_of_one_root_count_once(first: Evidence, second: Evidence, copies: int) -> None:
    once = [judged(first, 1), judged(second, 2)]
    echo = replace(first, ref="echo", title="echo")
    many = once + [judged(echo, 3 + n) for n in range(copies)]
    assert synthesize(many, CLAIM, POLICY) == synthesize(once, CLAIM, POLICY)
    assert len(select(many)) == len(select(once))


@settings(max_examples=40, deadline=None)
@given(ratios, spreads, st.sampled_from(["ktoken/s", "token/minute", "Mtok/s"]))
def test_scaling_a_unit_changes_neither_price_nor_criteria(
    ratio: float, spread: tuple[float, ...], unit: str
) -> None:
    scale = {"ktoken/s": 1e-3, "token/minute": 60.0, "Mtok/s": 1e-6}[unit]
    plain = result(ratio, spread=spread)
    scaled = result(
        ratio,
        base_metrics=[
            metric("output_throughput", *(1000 * scale * s for s in spread), unit=unit),
            plain.arms[0].metrics[1],
        ],
        treat_metrics=[
            metric("output_throughput", *(1000 * ratio * scale * s for s in spread), unit=unit),
            plain.arms[1].metrics[1],
        ],
    )
    one, two = judged(plain), judged(scaled)
    assert one.criteria == two.criteria
    assert synthesize([two], CLAIM, POLICY).price == pytest.approx(
        synthesize([one], CLAIM, POLICY).price, rel=1e-6
    )


@settings(max_examples=60, deadline=None)
@given(ratios, st.floats(1.0, 10.0), spreads, st.lists(results(name="b"), max_size=1))
def test_a_larger_qualifying_effect_never_lowers_the_price(
    ratio: float, rise: float, spread: tuple[float, ...], beside: list[Evidence]
) -> None:
    others = [judged(item, 2 + n) for n, item in enumerate(beside)]
    low = judged(result(ratio, spread=spread))
    high = judged(result(ratio * rise, spread=spread))
    assert low.qualifying
    assert high.qualifying
    before = synthesize([low, *others], CLAIM, POLICY).price
    after = synthesize([high, *others], CLAIM, POLICY).price
    assert after >= before * (1 - MONOTONE_TOLERANCE)


unpooled = st.sampled_from(
    [
        {"treatment": {"load.rate": 9.0}},
        {"treatment": {"effective.weights_format": "marlin"}},
        {"baseline": {"engine.prefix_caching": True}, "treatment": {"engine.prefix_caching": "false"}},
        {"treat_run": replace(SOUND_RUN, failures=600)},
        {"base_run": replace(SOUND_RUN, duration_s=5.0)},
    ]
)


@settings(max_examples=40, deadline=None)
@given(batches, ratios, unpooled)
def test_evidence_that_is_not_pooled_never_moves_the_price(
    evidence: list[Evidence], ratio: float, change: dict[str, object]
) -> None:
    case = after_all(evidence)
    got = record(case, result(ratio, name="new", **change))
    assert not got.assessments[-1].pooled
    assert not got.assessments[-1].qualifying
    assert got.case.price == case.price
    assert got.case.verdict is case.verdict
    assert [d.verb for d in got.decisions] == [Verb.OBSERVE]


invalid_runs = st.builds(
    RunFacts,
    source=st.just("run"),
    requests=st.just(6000),
    failures=st.integers(61, 6000),
    duration_s=st.floats(0, 1e4),
    requested_rate=st.floats(1, 1e3),
    achieved_rate=st.floats(0, 1e3),
)


@settings(max_examples=60, deadline=None)
@given(
    ratios,
    invalid_runs,
    st.booleans(),
    st.lists(st.sampled_from(Criterion).map(lambda c: finding(c, Status.MET)), max_size=8),
)
def test_an_invalid_run_never_qualifies_whatever_an_audit_says(
    ratio: float, run: RunFacts, base: bool, findings: list[object]
) -> None:
    item = result(ratio, **{"base_run" if base else "treat_run": run})
    got = judged(item, findings=findings)  # type: ignore[arg-type]  # a list of findings
    assert not got.qualifying
    assert not got.pooled


@settings(deadline=None)
@given(st.sampled_from(Verdict), st.lists(st.floats(0.8, 0.8999), min_size=2, max_size=20))
def test_no_sequence_of_prices_makes_the_verdict_flap_in_the_upper_band(
    start: Verdict, prices: list[float]
) -> None:
    assert flaps(start, prices) <= 1
    if start is Verdict.SUPPORTED:
        assert flaps(start, prices) == 0


@settings(deadline=None)
@given(st.sampled_from(Verdict), st.lists(st.floats(0.1001, 0.2), min_size=2, max_size=20))
def test_no_sequence_of_prices_makes_the_verdict_flap_in_the_lower_band(
    start: Verdict, prices: list[float]
) -> None:
    assert flaps(start, prices) <= 1
    if start is Verdict.REFUTED:
        assert flaps(start, prices) == 0


def flaps(start: Verdict, prices: list[float]) -> int:
    """How often the verdict changes along a sequence of prices."""
    items = [judged(result())]
    verdict, changes = start, 0
    for price in prices:
        ruling = verdict_rule(price, price, items, verdict, POLICY)
        changes += ruling.verdict is not verdict
        verdict = ruling.verdict
    return changes


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_verdict_changes_only_by_crossing_a_limit(prices: list[float]) -> None:
    items = [judged(result())]
    verdict = Verdict.OPEN
    for price in prices:
        after = verdict_rule(price, price, items, verdict, POLICY).verdict
        if verdict is Verdict.OPEN and after is Verdict.SUPPORTED:
            assert price >= 0.90
        if verdict is Verdict.SUPPORTED and after is not Verdict.SUPPORTED:
            assert price < 0.80
        if verdict is Verdict.REFUTED and after is not Verdict.REFUTED:
            assert price > 0.20
        verdict = after


class CaseLife(RuleBasedStateMachine):
    """Any sequence of results, echoes, withdrawals and looks at the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.case: Case
        self.now = OPENED
        self.evidence: dict[int, Evidence] = {}
        self.gone: set[int] = set()

    @initialize()
    def open(self) -> None:
        self.case = opened().case

    def take(self, outcome: Outcome) -> None:
        before, after = self.case, outcome.case
        change = outcome.change
        assert (change.state_before, change.state_after) == (before.state, after.state)
        assert (change.price_before, change.price_after) == (before.price, after.price)
        if not outcome.decisions:
            assert after == before
        for item in outcome.decisions:
            assert item.facts["price"] == {"before": before.price, "after": after.price}
            assert item.facts["verdict"] == {"before": str(before.verdict), "after": str(after.verdict)}
            assert item.reason.endswith(".")
        qualifying = [a for a in after.assessments if a.qualifying]
        if qualifying and after.verdict is not Verdict.MIXED:
            if before.verdict is Verdict.SUPPORTED and after.price >= 0.80:
                assert after.verdict is Verdict.SUPPORTED
            if before.verdict is Verdict.REFUTED and after.price <= 0.20:
                assert after.verdict is Verdict.REFUTED
        self.case = after

    @rule(item=results(), wait=st.integers(0, 30))
    def post(self, item: Evidence, wait: int) -> None:
        self.now += timedelta(hours=wait)
        number = len(self.evidence) + 1
        item = replace(item, occurred_at=self.now)
        self.evidence[number] = item
        event = EvidenceRecorded(at=self.now, number=number, evidence=item)
        outcome = decide(self.case, event, POLICY)
        if outcome.assessments[-1].qualifying:
            assert outcome.case.state is not State.EXPIRED or self.case.state is State.EXPIRED
        self.take(outcome)

    @precondition(lambda self: self.evidence.keys() - self.gone)
    @rule(data=st.data())
    def echo(self, data: st.DataObject) -> None:
        source = self.evidence[data.draw(st.sampled_from(sorted(self.evidence.keys() - self.gone)))]
        number = len(self.evidence) + 1
        item = replace(source, ref=f"echo {number}", title=f"echo {number}")
        self.evidence[number] = item
        before = self.case
        outcome = decide(before, EvidenceRecorded(at=self.now, number=number, evidence=item), POLICY)
        assert [d.verb for d in outcome.decisions] == [Verb.OBSERVE]
        self.take(outcome)
        assert (self.case.price, self.case.verdict, self.case.state, self.case.due_at) == (
            before.price,
            before.verdict,
            before.state,
            before.due_at,
        )

    @precondition(lambda self: self.evidence.keys() - self.gone)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.evidence.keys() - self.gone)))
        self.gone.add(number)
        outcome = decide(
            self.case,
            EvidenceWithdrawn(at=self.now, number=number, evidence=self.evidence[number], reason="gone"),
            POLICY,
        )
        assert [d.verb for d in outcome.decisions] == [Verb.CORRECT]
        self.take(outcome)

    @rule(hours=st.integers(0, 60), deaf=st.integers(0, 10))
    def look(self, hours: int, deaf: int) -> None:
        self.now += timedelta(hours=hours)
        event = HorizonPassed(at=self.now, deaf=timedelta(hours=deaf))
        before = self.case
        outcome = decide(before, event, POLICY)
        if outcome.case.state is State.EXPIRED and before.state is not State.EXPIRED:
            assert self.now >= before.due_at
            assert not any(a.qualifying for a in before.assessments)
        self.take(outcome)
        assert decide(self.case, event, POLICY).decisions == ()

    @invariant()
    def the_price_is_that_of_the_living_evidence(self) -> None:
        if not hasattr(self, "case"):
            return
        items = [judged(item, number) for number, item in self.evidence.items() if number not in self.gone]
        assert self.case.price == pytest.approx(synthesize(items, CLAIM, POLICY).price, rel=1e-12)
        assert 0 <= self.case.price <= 1

    @invariant()
    def the_verdict_rests_on_a_qualifying_result(self) -> None:
        if hasattr(self, "case") and self.case.verdict is not Verdict.OPEN:
            assert any(a.qualifying for a in self.case.assessments)


TestCaseLife = CaseLife.TestCase
TestCaseLife.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)


def test_an_echo_of_a_result_is_of_its_own_kind_and_changes_nothing() -> None:
    """A post that repeats a result in words, without any raw material, does not displace it."""
    item = result(1.3)
    case = record(opened().case, item).case
    echo = replace(item, kind=EvidenceKind.ECHO, ref="echo", arms=(), validity=(), command=None)
    got = record(case, echo)
    assert [d.verb for d in got.decisions] == [Verb.OBSERVE]
    assert got.case.price == case.price

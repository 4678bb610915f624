"""Decisions: what each event leads to, in the order of a case's life, with reasons that hold their facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders import (
    CLAIM,
    KERNEL_CLAIM,
    OPENED,
    POLICY,
    audit,
    disclosure,
    finding,
    opened,
    record,
    result,
)

from app.domain.case import Case, EvidenceRecorded, EvidenceWithdrawn, HorizonPassed, Outcome, State, Verb
from app.domain.decide import decide
from app.domain.evidence import Criterion, Evidence, EvidenceKind, Status
from app.domain.verdict import Uncertainty, Verdict

HOUR = timedelta(hours=1)


def verbs(outcome: Outcome) -> list[Verb]:
    return [item.verb for item in outcome.decisions]


def look(case: Case, at: datetime, deaf: timedelta = timedelta(0)) -> Outcome:
    return decide(case, HorizonPassed(at=at, deaf=deaf), POLICY)


def withdraw(
    case: Case,
    number: int,
    *again: tuple[int, Evidence],
    at: datetime = OPENED + HOUR,
    evidence: Evidence | None = None,
) -> Outcome:
    event = EvidenceWithdrawn(
        at=at, number=number, evidence=evidence or result(), reason="retracted", again=again
    )
    return decide(case, event, POLICY)


def agree_with_facts(outcome: Outcome) -> None:
    """Numbers in a reason are those of the facts, and the facts are those of the case."""
    for item in outcome.decisions:
        facts = item.facts
        assert facts["price"]["after"] == outcome.case.price == outcome.change.price_after
        assert facts["state"]["after"] == outcome.case.state == outcome.change.state_after
        assert facts["verdict"]["after"] == outcome.case.verdict == outcome.change.verdict_after
        assert facts["uncertainty"]["after"] == outcome.case.uncertainty
        assert facts["state"]["before"] == outcome.change.state_before or item.verb is Verb.CREATE
        if item.verb in (Verb.REPRICE, Verb.CORRECT) and "Price" in item.reason:
            before, after = facts["price"]["before"], facts["price"]["after"]
            assert f"Price {before:.2f} → {after:.2f}" in item.reason
            assert f"verdict {facts['verdict']['after']}" in item.reason
        if "evidence" in facts and item.verb is not Verb.CREATE:
            assert f"Evidence {facts['evidence']} " in item.reason
    for told in outcome.interpretations:
        assert f"Price {outcome.case.price:.2f}" in told.text


# --- create ----------------------------------------------------------------------------------------------


def test_create_without_evidence() -> None:
    got = opened()
    assert verbs(got) == [Verb.CREATE]
    assert got.case.price == pytest.approx(0.3515, abs=5e-4)
    assert (got.case.state, got.case.verdict, got.case.uncertainty) == (
        State.ACTIVE,
        Verdict.OPEN,
        Uncertainty.HIGH,
    )
    assert got.case.due_at == OPENED + timedelta(hours=48)
    assert got.decisions[0].reason == "Case opened with no evidence yet: price 0.35, horizon 48 h."
    agree_with_facts(got)


def test_create_with_the_disclosure() -> None:
    got = opened(disclosure(), claim=KERNEL_CLAIM)
    assert 0.45 < got.case.price < 0.65
    assert got.case.uncertainty is Uncertainty.HIGH
    assert got.case.verdict is Verdict.OPEN
    assert got.decisions[0].facts["evidence"] == 1
    agree_with_facts(got)


def test_an_event_without_a_case_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="HorizonPassed needs a case"):
        decide(None, HorizonPassed(at=OPENED), POLICY)


# --- observe and reprice ---------------------------------------------------------------------------------


def test_a_copy_of_what_is_known_is_repetitive_and_moves_nothing() -> None:
    before = opened(disclosure(), claim=KERNEL_CLAIM).case
    got = record(before, disclosure(kind=EvidenceKind.ECHO, ref="echo", title="echo"))
    assert verbs(got) == [Verb.OBSERVE]
    assert got.decisions[0].reason == (
        "Evidence 2 (echo) changes nothing material: it repeats evidence from the same root."
    )
    assert got.interpretations == ()
    after = got.case
    assert (after.price, after.verdict, after.state) == (before.price, before.verdict, before.state)
    assert (after.due_at, after.last_material_at) == (before.due_at, before.last_material_at)
    agree_with_facts(got)


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (disclosure(root="r", contrasts=()), "it reports no effect"),
        (result(2.0), "not pooled: factor_isolated unmet: the arms differ in weights.format"),
        (audit("nothing"), "its findings move neither the price nor the best status of any criterion"),
    ],
)
def test_observing_says_why(evidence: Evidence, words: str) -> None:
    got = record(opened(disclosure(), claim=KERNEL_CLAIM).case, evidence)
    assert verbs(got) == [Verb.OBSERVE]
    assert words in got.decisions[0].reason
    assert got.case.price == got.change.price_before


def test_a_qualifying_result_reprices() -> None:
    got = record(opened(disclosure()).case, result(1.3), at=OPENED + 5 * HOUR)
    assert verbs(got) == [Verb.REPRICE]
    assert got.case.state is State.REPRICED
    assert got.case.verdict is Verdict.SUPPORTED
    assert got.change.first_qualifying
    assert got.case.last_material_at == OPENED + 5 * HOUR
    assert got.case.due_at == OPENED + 53 * HOUR
    assert "it is the first result that meets every criterion" in got.decisions[0].reason
    assert len(got.interpretations) == 1
    agree_with_facts(got)


def test_the_second_qualifying_result_is_not_the_first() -> None:
    case = record(opened().case, result(1.3, name="a")).case
    assert not record(case, result(1.35, name="b")).change.first_qualifying


def test_a_move_below_two_hundredths_is_observed_and_at_two_hundredths_repriced() -> None:
    case = opened().case
    moved = record(case, result(1.3, name="x", command=None, publisher=None))
    assert moved.change.price_move > 0.02
    assert verbs(moved) == [Verb.REPRICE]
    assert f"the price moves by {moved.change.price_after - moved.change.price_before:+.2f}" in (
        moved.decisions[0].reason
    )
    policy = replace(POLICY, material_price_move=moved.change.price_move + 1e-6)
    event = EvidenceRecorded(at=OPENED + HOUR, number=1, evidence=result(1.3, command=None, publisher=None))
    assert verbs(decide(case, event, policy)) == [Verb.OBSERVE]


def test_a_criterion_that_moves_is_material_even_without_a_price() -> None:
    case = opened(result(1.3, name="a", command=None, publisher=None)).case
    named = result(1.3, name="b", command=None)
    event = EvidenceRecorded(at=OPENED + HOUR, number=2, evidence=named)
    got = decide(case, event, replace(POLICY, material_price_move=1.0))
    assert verbs(got) == [Verb.REPRICE]
    assert got.decisions[0].facts["why"] == "the criterion independent moved"


# --- expiry ----------------------------------------------------------------------------------------------


def test_the_seeds_case_expires_in_its_very_hour_and_not_before() -> None:
    case = opened(disclosure(), claim=KERNEL_CLAIM).case
    hour = datetime(2026, 8, 10, 20, tzinfo=UTC)
    while hour < datetime(2026, 8, 12, 20, tzinfo=UTC):
        assert look(case, hour).decisions == ()
        hour += HOUR
    got = look(case, hour)
    assert hour == datetime(2026, 8, 12, 20, tzinfo=UTC)
    assert verbs(got) == [Verb.EXPIRE]
    assert got.case.state is State.EXPIRED
    assert got.case.price == case.price
    assert got.decisions[0].reason.startswith(
        "No independent end-to-end validation came within 48 h of the last material event "
        "(2026-08-10 19:28 UTC). The closest evidence (1, NVFP4 block-scaled GEMM) lacks independent, "
        "end_to_end"
    )
    agree_with_facts(got)
    assert look(got.case, hour + HOUR).decisions == ()


def test_expiry_falls_due_to_the_second() -> None:
    case = opened().case
    assert look(case, case.due_at - timedelta(microseconds=1)).decisions == ()
    assert verbs(look(case, case.due_at)) == [Verb.EXPIRE]


def test_a_repetitive_item_does_not_put_expiry_off() -> None:
    case = opened(disclosure(), claim=KERNEL_CLAIM).case
    case = record(case, disclosure(ref="echo"), at=OPENED + 40 * HOUR).case
    assert verbs(look(case, OPENED + 49 * HOUR)) == [Verb.EXPIRE]


def test_a_material_item_does() -> None:
    case = record(opened(disclosure()).case, result(1.3, command=None), at=OPENED + 40 * HOUR).case
    assert look(case, OPENED + 87 * HOUR).decisions == ()
    assert verbs(look(case, OPENED + 88 * HOUR)) == [Verb.EXPIRE]


def test_a_case_with_a_qualifying_result_never_expires() -> None:
    case = record(opened().case, result(1.15)).case
    for days in (2, 20, 2000):
        assert look(case, OPENED + timedelta(days=days)).decisions == ()


def test_expiry_is_withheld_while_nobody_could_have_heard_and_once_only() -> None:
    case = opened().case
    deaf = timedelta(hours=5)
    due = case.due_at
    got = look(case, due, deaf)
    assert verbs(got) == [Verb.OBSERVE]
    assert got.case.state is State.ACTIVE
    assert got.case.due_at == due + deaf
    assert "for 5 h of the horizon the service was not listening" in got.decisions[0].reason
    assert f"{due + deaf:%Y-%m-%d %H:%M} UTC" in got.decisions[0].reason
    agree_with_facts(got)
    # the same five hours are told again at the next look; they extend nothing twice
    assert look(got.case, due + 4 * HOUR, deaf).decisions == ()
    assert verbs(look(got.case, due + 5 * HOUR, deaf)) == [Verb.EXPIRE]


def test_deafness_during_the_extension_extends_further() -> None:
    first = look(opened().case, OPENED + 48 * HOUR, 5 * HOUR).case
    second = look(first, OPENED + 53 * HOUR, 7 * HOUR)
    assert verbs(second) == [Verb.OBSERVE]
    assert second.case.due_at == OPENED + 55 * HOUR


def test_deafness_that_lies_long_back_does_not_hold_a_pass_up() -> None:
    assert verbs(look(opened().case, OPENED + 60 * HOUR, 5 * HOUR)) == [Verb.EXPIRE]


# --- after expiry ----------------------------------------------------------------------------------------


def expired(*evidence: Evidence, claim: Any = CLAIM) -> Case:
    return look(opened(*evidence, claim=claim).case, datetime(2026, 8, 12, 20, tzinfo=UTC)).case


def test_a_qualifying_result_revives_and_reprices() -> None:
    at = OPENED + timedelta(days=20)
    got = record(expired(disclosure()), result(1.3, occurred_at=at), at=at)
    assert verbs(got) == [Verb.REVIVE, Verb.REPRICE]
    assert got.case.state is State.REPRICED
    assert got.case.due_at == at + timedelta(hours=48)
    assert (got.change.state_before, got.change.state_after) == (State.EXPIRED, State.REPRICED)
    agree_with_facts(got)


def test_what_does_not_qualify_is_priced_where_it_lies() -> None:
    at = OPENED + timedelta(days=20)
    before = expired(disclosure())
    got = record(before, result(1.3, command=None, occurred_at=at), at=at)
    assert verbs(got) == [Verb.REPRICE]
    assert got.case.state is State.EXPIRED
    assert got.case.price > before.price
    assert (got.case.due_at, got.case.last_material_at) == (before.due_at, before.last_material_at)


def test_pricing_an_expired_case_opens_no_new_horizon() -> None:
    """A second item within two days of the first came after the horizon all the same."""
    day = OPENED + timedelta(days=20)
    case = record(expired(disclosure()), result(1.3, name="x", command=None, occurred_at=day), at=day).case
    later = day + timedelta(days=1)
    got = record(case, result(1.0, name="y", command=None, occurred_at=later), at=later)
    assert verbs(got) == [Verb.REPRICE]
    assert got.case.state is State.EXPIRED


def test_late_evidence_takes_an_expiry_back() -> None:
    measured, at = OPENED + 40 * HOUR, OPENED + 60 * HOUR
    got = record(expired(), result(1.3, command=None, occurred_at=measured), at=at)
    assert verbs(got) == [Verb.CORRECT, Verb.REPRICE]
    assert got.case.state is State.REPRICED
    assert got.case.last_material_at == measured
    assert got.case.due_at == measured + 48 * HOUR
    assert "arrived late: its own time, 2026-08-12 11:28 UTC" in got.decisions[0].reason
    agree_with_facts(got)
    assert verbs(look(got.case, measured + 48 * HOUR)) == [Verb.EXPIRE]


@pytest.mark.parametrize("hours", [-1, 0, 49])
def test_evidence_from_outside_the_horizon_takes_nothing_back(hours: int) -> None:
    item = result(1.3, command=None, occurred_at=OPENED + hours * HOUR)
    got = record(expired(), item, at=OPENED + 60 * HOUR)
    assert verbs(got) == [Verb.REPRICE]
    assert got.case.state is State.EXPIRED


def test_an_imported_expired_case_has_no_horizon_left() -> None:
    case = opened(disclosure(), imported_state=State.EXPIRED, imported_entries=12).case
    assert case.state is State.EXPIRED
    assert look(case, OPENED + timedelta(days=9)).decisions == ()
    got = record(case, result(1.3, command=None, occurred_at=OPENED + HOUR), at=OPENED + 2 * HOUR)
    assert got.case.state is State.EXPIRED
    assert verbs(got) == [Verb.REPRICE]
    revived = record(case, result(1.3), at=OPENED + 2 * HOUR)
    assert verbs(revived) == [Verb.REVIVE, Verb.REPRICE]


# --- withdrawal ------------------------------------------------------------------------------------------


def test_a_withdrawal_corrects_and_gives_the_old_price_back() -> None:
    before = opened(disclosure()).case
    case = record(before, result(1.3)).case
    got = withdraw(case, 2)
    assert verbs(got) == [Verb.CORRECT]
    assert got.case.price == before.price
    assert got.case.verdict is Verdict.OPEN
    assert got.decisions[0].reason.startswith("Evidence 2 was withdrawn: retracted. Price 0.")
    agree_with_facts(got)


def test_after_its_only_qualifying_result_is_withdrawn_a_case_can_expire_again() -> None:
    case = withdraw(record(opened().case, result(1.3)).case, 1).case
    assert verbs(look(case, OPENED + 50 * HOUR)) == [Verb.EXPIRE]


# --- audits ----------------------------------------------------------------------------------------------


def test_an_audit_overrides_and_its_withdrawal_restores() -> None:
    item = result(1.3)
    case = record(opened().case, item).case
    bad = audit(item.root, finding(Criterion.FACTOR_ISOLATED, Status.UNMET, "another branch was built"))
    got = record(case, bad, again=((1, item),))
    assert verbs(got) == [Verb.REPRICE]
    assert got.case.verdict is Verdict.OPEN
    assert got.case.price == pytest.approx(0.3515, abs=5e-4)
    assert "the verdict goes from supported to open" in got.decisions[0].reason
    assert [a.number for a in got.assessments] == [1, 2]
    agree_with_facts(got)
    back = withdraw(got.case, 2, (1, item))
    assert verbs(back) == [Verb.CORRECT]
    assert (back.case.price, back.case.verdict) == (case.price, case.verdict)
    assert back.case.audits == ()
    agree_with_facts(back)


def test_of_two_audits_the_later_speaks_and_its_withdrawal_lets_the_first_speak() -> None:
    item = result(1.3)
    case = record(opened().case, item).case
    first = audit(item.root, finding(Criterion.WORKLOAD_MATCHED, Status.UNMET))
    second = audit(item.root, finding(Criterion.WORKLOAD_MATCHED, Status.MET), ref="2")
    case = record(case, first, again=((1, item),)).case
    assert case.verdict is Verdict.OPEN
    case = record(case, second, again=((1, item),)).case
    assert case.verdict is Verdict.SUPPORTED
    assert withdraw(case, 3, (1, item)).case.verdict is Verdict.OPEN


def test_an_audit_holds_for_what_comes_later_from_the_same_root() -> None:
    case = opened(audit("lab", finding(Criterion.FACTOR_ISOLATED, Status.UNMET))).case
    got = record(case, result(1.3, name="lab"))
    assert verbs(got) == [Verb.OBSERVE]
    assert "not pooled: factor_isolated unmet" in got.decisions[0].reason


def test_an_audit_of_another_root_changes_nothing() -> None:
    case = record(opened().case, result(1.3)).case
    got = record(case, audit("another", finding(Criterion.FACTOR_ISOLATED, Status.UNMET)))
    assert verbs(got) == [Verb.OBSERVE]


# --- independence goes with the root ---------------------------------------------------------------------


def test_a_result_under_the_claimants_address_does_not_qualify() -> None:
    case = opened(disclosure()).case
    got = record(case, result(1.3, name=disclosure().root))
    assert got.case.verdict is Verdict.OPEN
    (own,) = got.assessments
    assert own.status(Criterion.INDEPENDENT) is Status.UNMET


def test_the_standing_counts_roots_and_not_copies() -> None:
    case = record(opened().case, result(1.3)).case
    copy = record(case, result(1.0, name="a"), number=2)
    assert "1 qualifying of 1 pooled effect." in copy.interpretations[0].text
    assert sum(item.qualifying for item in copy.case.assessments) == 2

"""The sentence that a case page opens with, for every kind of case."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from app.domain.case import State, Verb
from app.domain.evidence import Criterion, Status
from app.domain.verdict import Uncertainty, Verdict
from app.store.records import CaseRecord, DecisionRecord
from app.web.answer import NEEDS, answer, settling

from .conftest import DIAL, POLICY, Site


def told(site: Site, slug: str = "fast-kernel-claim", **changes: Any) -> str:
    """The whole answer, its summary changed."""
    facts = site.facts(slug)
    record = replace(facts.record, summary=replace(facts.record.summary, **changes))
    found = answer(record, facts.evidence, facts.decisions.items, DIAL, POLICY)
    return f"{found.lead} {found.standing} {found.next}".replace("\u00a0", " ")


def test_expired_and_imported(site: Site) -> None:
    assert told(site, price=0.5) == (
        "Not shown end to end. Price 0.50, the probability that it improves output throughput at serving "
        "level by at least 10 %; high uncertainty. Expired 13 Aug 2026, before it was imported here, "
        "because no result that meets every criterion came. To settle it: an independent serving-level "
        "comparison on RTX Pro 6000 Blackwell that changes gemm.kernel alone, with one workload in both "
        "arms, quality reported for both arms, the cost of quantization counted, valid, repeated runs and "
        "raw output, command and versions attached."
    )


def test_expired_by_our_own_rules(site: Site) -> None:
    facts = site.facts()
    own = DecisionRecord(
        number=99,
        verb=Verb.EXPIRE,
        at=datetime(2026, 8, 20, 3, tzinfo=UTC),
        recorded_at=datetime(2026, 8, 20, 3, tzinfo=UTC),
        reason="nothing came",
        facts={},
        input_hash="0" * 64,
        policy_version="1",
        imported=False,
    )
    decisions = (own, *facts.decisions.items)
    found = answer(facts.record, facts.evidence, decisions, DIAL, POLICY)
    assert (
        "Expired 20 Aug 2026 because no result that meets every criterion came within 48 h of"
        in found.standing.replace("\u00a0", " ")
    )


def test_open_without_evidence(told_site: Site) -> None:
    assert told(told_site, "empty-case") == (
        "Not shown end to end. Price 0.35, the probability that it improves output throughput at serving "
        "level by at least 10 %; high uncertainty. Active, expires 2 Sep 2026, 06:30 unless evidence comes. "
        "To settle it: an independent serving-level comparison on RTX Pro 6000 Blackwell that changes "
        "gemm.kernel alone and meets all eight criteria; nobody has reported a measured effect yet."
    )


def test_a_horizon_that_ended_and_was_not_yet_judged(told_site: Site) -> None:
    when = datetime(2026, 8, 31, tzinfo=UTC)
    words = told(told_site, "empty-case", due_at=when)
    assert "Active, its horizon ended 31 Aug 2026, 10:00 and the next hourly pass decides." in words


def test_repriced(site: Site) -> None:
    when = datetime(2026, 8, 31, tzinfo=UTC)
    words = told(site, state=State.REPRICED, last_material_at=when, due_at=when + timedelta(hours=48))
    assert "Repriced 31 Aug 2026 on new evidence, expires 2 Sep 2026, 10:00 unless more comes" in words


def test_supported(site: Site) -> None:
    words = told(
        site,
        verdict=Verdict.SUPPORTED,
        state=State.REPRICED,
        price=0.93,
        uncertainty=Uncertainty.LOW,
        last_material_at=datetime(2026, 8, 31, tzinfo=UTC),
    )
    assert words == (
        "Shown end to end: it holds. Price 0.93, the probability that it improves output throughput at "
        "serving level by at least 10 %; low uncertainty. Repriced since 31 Aug 2026. It would be open "
        "again if new evidence brought the price under 0.80."
    )


def test_refuted(site: Site) -> None:
    words = told(site, verdict=Verdict.REFUTED, state=State.REPRICED, price=0.04)
    assert words.startswith("Shown end to end: it does not hold. Price 0.04, ")
    assert words.endswith("It would be open again if new evidence brought the price over 0.20.")


def test_mixed(site: Site) -> None:
    words = told(site, verdict=Verdict.MIXED, state=State.REPRICED)
    assert words.startswith("Qualifying results contradict each other. ")
    assert words.endswith("then repeat the comparison on both sides of it.")


def test_a_qualifying_result_that_leaves_the_price_between(told_site: Site) -> None:
    facts = told_site.facts()
    best = facts.evidence[-1]
    assert best.assessment is not None
    rows = tuple(replace(row, status=Status.MET) for row in best.assessment.criteria)
    qualifying = replace(best, assessment=replace(best.assessment, qualifying=True, criteria=rows))
    found = answer(facts.record, (qualifying,), (), DIAL, POLICY)
    assert found.lead == "Tested end to end, not settled."
    assert "expires" not in found.standing
    assert found.next == (
        "To settle it: more runs like evidence 4, until the price is at least 0.90 or at most 0.10."
    )


def test_a_withdrawn_item_settles_nothing(told_site: Site) -> None:
    facts = told_site.facts()
    gone = tuple(replace(item, withdrawn="retracted") for item in facts.evidence)
    found = answer(facts.record, gone, (), DIAL, POLICY)
    assert found.next.endswith("nobody has reported a measured effect yet.")


def test_what_is_met_is_not_asked_for_again(told_site: Site) -> None:
    record: CaseRecord = told_site.facts().record
    best = told_site.facts().evidence[-1].assessment
    assert settling(record.claim, best) == (
        "a serving-level comparison on RTX Pro 6000 Blackwell that changes gemm.kernel alone, with "
        "valid, repeated runs and raw output, command and versions attached"
    )


def test_every_criterion_is_asked_for() -> None:
    in_the_sentence = {Criterion.INDEPENDENT, Criterion.END_TO_END, Criterion.FACTOR_ISOLATED}
    assert set(Criterion) - set(NEEDS) == in_the_sentence

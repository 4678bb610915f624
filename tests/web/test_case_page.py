"""Every section of a case page, filled and empty, drawn with undefined names refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.domain.case import State
from app.domain.contrast import Attachment
from app.domain.evidence import Criterion, EvidenceKind, Finding, Publisher, Relation, Status
from app.domain.validity import RunValidity
from app.domain.verdict import Verdict
from app.services.judge import Owner
from app.store.records import EvidenceRecord, Page
from app.web.case_page import CaseFacts, CaseWish, case_context
from app.web.render import shell, text_of

from .conftest import DIAL, POLICY, Site

OWNER = Owner(name="Scott", zone="Australia/Sydney")


def drawn(facts: CaseFacts, **wish: Any) -> str:
    """The page as text."""
    around = shell("Title", "cases", DIAL, OWNER)
    return text_of(case_context(facts, CaseWish(**wish), around, DIAL, POLICY, "http://here"))


def with_summary(facts: CaseFacts, **changes: Any) -> CaseFacts:
    """The facts, the case's summary changed."""
    return replace(facts, record=replace(facts.record, summary=replace(facts.record.summary, **changes)))


def with_item(facts: CaseFacts, index: int, **changes: Any) -> CaseFacts:
    """The facts, one item's evidence changed."""
    items = list(facts.evidence)
    items[index] = replace(items[index], evidence=replace(items[index].evidence, **changes))
    return replace(facts, evidence=tuple(items))


def test_nothing_at_all(told_site: Site) -> None:
    facts = told_site.facts("empty-case")
    bare = replace(facts, prices=(), interpretations=(), decisions=Page(items=(), next_cursor=None))
    text = drawn(bare)
    for words in (
        "No effect on the claim’s metric is reported yet",
        "No price yet",
        "Nobody has reported a measured effect yet",
        "met when the arms differ in the claim&#39;s factor",
        "No summary was given",
        "Not grounded in any notes yet",
        "No evidence yet",
        "Nothing was interpreted yet",
        "Nothing was decided yet",
    ):
        assert words in text
    assert "Imported standing" not in text


def test_a_claim_that_quotes_nothing(told_site: Site) -> None:
    facts = told_site.facts()
    claim = replace(facts.record.claim, effects=(), note=None, claimants=(), workload={"hardware.gpu": None})
    text = drawn(replace(facts, record=replace(facts.record, claim=claim)))
    assert "The case quotes no figure." in text
    assert "not stated" in text


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("heat", [None, "low", "medium", "high"])
def test_every_standing(told_site: Site, verdict: Verdict, state: State, heat: str | None) -> None:
    text = drawn(with_summary(told_site.facts(), verdict=verdict, state=state, heat=heat))
    assert f"<span>{verdict}</span>" in text
    assert f"<span>{state}</span>" in text
    assert (f"<span>{heat} heat</span>" if heat else "<span>never measured</span>") in text


def test_a_withdrawn_item_keeps_its_place_and_says_why(told_site: Site) -> None:
    facts = told_site.facts()
    items = (replace(facts.evidence[0], withdrawn="its author retracted it"), *facts.evidence[1:])
    text = drawn(replace(facts, evidence=items))
    assert "Withdrawn, no longer counted: its author retracted it" in text
    assert 'class="item withdrawn" id="evidence-1"' in text


def test_an_item_that_was_not_judged(told_site: Site) -> None:
    facts = told_site.facts()
    items = tuple(replace(item, assessment=None) for item in facts.evidence)
    text = drawn(replace(facts, evidence=items))
    assert "not judged" in text


def test_an_audit_names_what_it_examines_and_the_lines_it_rests_on(told_site: Site) -> None:
    facts = told_site.facts()
    base = facts.evidence[0]
    finding = Finding(
        criterion=Criterion.MEASURED_SOUNDLY,
        status=Status.UNMET,
        reason="the timer starts after the launch",
        lines=("bench.py:41",),
    )
    audit = EvidenceRecord(
        number=5,
        evidence=replace(
            base.evidence,
            kind=EvidenceKind.AUDIT,
            audits=base.evidence.root,
            findings=(finding,),
            contrasts=(),
            arms=(),
            canonical_anchor=False,
            url="ftp://example.org/lines",
            publisher=Publisher(name="Reader", url="javascript:alert(1)", relation=Relation.INDEPENDENT),
        ),
        assessment=None,
        recorded_at=base.recorded_at,
        actor="owner",
        withdrawn=None,
    )
    text = drawn(replace(facts, evidence=(*facts.evidence, audit)))
    assert "of evidence 1" in text
    assert "<code>bench.py:41</code>" in text
    assert "Address, not a web link: <code>ftp://example.org/lines</code>" in text
    assert "by Reader (independent)" in text


def test_an_item_without_publisher_level_or_arms(told_site: Site) -> None:
    facts = with_item(told_site.facts(), 1, publisher=None, level=None, url=None)
    assert "publisher not stated" in drawn(facts)


def test_an_item_without_a_time_of_its_own_does_not_pretend_to_one(told_site: Site) -> None:
    facts = told_site.facts()
    assert ">undated<" not in drawn(facts)
    assert ">undated<" in drawn(with_item(facts, 2, dated=False))


def test_runs_files_and_flags(told_site: Site) -> None:
    facts = told_site.facts()
    evidence = facts.evidence[3].evidence
    file = Attachment(name="a.json", format="inference-perf", sha256="ab" * 32, size=3400)
    arms = tuple(replace(arm, attachments=(file,), notes=("a note",)) for arm in evidence.arms)
    validity = (
        RunValidity(arm=arms[0].role, valid=True, reasons=()),
        RunValidity(arm=arms[1].role, valid=False, reasons=("too short", "too few")),
    )
    contrasts = tuple(replace(c, flags=("check the units",)) for c in evidence.contrasts)
    text = drawn(with_item(facts, 3, arms=arms, validity=validity, contrasts=contrasts))
    assert f'href="/files/{"ab" * 32}"' in text
    assert "3.4 kB" in text
    assert "too short; too few" in text
    assert "check the units" in text
    assert "baseline: a note" in text


def test_a_reason_that_many_contrasts_share_is_told_once(told_site: Site) -> None:
    text = drawn(told_site.facts())
    assert text.count("another metric than the claim&#39;s (output_throughput)") == 1


def test_the_trace_continues_elsewhere(told_site: Site) -> None:
    facts = told_site.facts()
    page = replace(facts, decisions=replace(facts.decisions, next_cursor="abc"))
    text = drawn(page, verb="create", before="xyz")
    assert 'href="?verb=create&amp;before=abc#trace"' in text
    assert ">Newest</a>" in text


def test_an_expired_case_says_since_when(site: Site) -> None:
    text = drawn(site.facts())
    assert '<dt>Expired</dt><dd><time datetime="2026-08-12T20:32:00Z"' in text
    assert "<dt>Opened</dt>" in text


def test_the_horizon_of_a_case_that_waits(told_site: Site) -> None:
    facts = told_site.facts("empty-case")
    assert "<dt>Horizon ends</dt>" in drawn(facts)
    assert "<dt>Horizon ended</dt>" in drawn(with_summary(facts, due_at=DIAL.now))


def test_a_qualifying_result_ends_the_waiting(told_site: Site) -> None:
    facts = with_summary(told_site.facts(), state=State.REPRICED)
    item = facts.evidence[3]
    assert item.assessment is not None
    qualifying = replace(item, assessment=replace(item.assessment, qualifying=True))
    text = drawn(replace(facts, evidence=(*facts.evidence[:3], qualifying)))
    assert "does not end" in text
    assert "<span>qualifies</span>" in text


def test_a_notice_after_sending(told_site: Site) -> None:
    facts = told_site.facts()
    assert "Recorded as evidence 4." in drawn(facts, recorded=4)
    assert "Nothing was decided again." in drawn(facts, recorded=4, again=True)
    assert 'class="notice"' not in drawn(facts, recorded=5)

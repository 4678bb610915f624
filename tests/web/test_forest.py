"""The forest plot: what is counted, what is not and why, on one axis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.web.forest import BIG, SMALL, forest

from .conftest import POLICY, Site
from .sample import result_document


def test_without_evidence_there_is_the_prior_alone(told_site: Site) -> None:
    facts = told_site.facts("empty-case")
    found = forest(facts.record.claim, facts.evidence, POLICY)
    assert found.rows == ()
    assert found.posterior.name == "Prior alone"
    assert found.price == "0.35"
    assert found.classical is None
    assert "at least two" in found.classical_why
    assert found.at_one < found.at_delta


def test_a_contrast_that_measures_something_else_is_greyed_with_its_reason(site: Site) -> None:
    facts = site.facts()
    found = forest(facts.record.claim, facts.evidence, POLICY)
    counted, greyed = found.rows
    assert (counted.number, counted.counted_span is not None, counted.weight) == (1, True, "100 %")
    assert counted.side == BIG
    assert (greyed.number, greyed.counted, greyed.weight, greyed.side) == (3, "", "", SMALL)
    assert greyed.reason.startswith("factor isolated unmet: the arms differ in weights.format")
    assert greyed.measured == "2.00× [1.63,\u00a02.45]"


def test_a_lower_level_is_shown_as_measured_and_as_counted(site: Site) -> None:
    facts = site.facts()
    row = forest(facts.record.claim, facts.evidence, POLICY).rows[0]
    assert row.counted_span is not None
    assert row.counted_span.mid < row.measured_span.mid
    assert row.counted_span.width > row.measured_span.width


def test_counted_rows_come_first_and_their_weights_sum_to_one(told_site: Site) -> None:
    facts = told_site.facts()
    found = forest(facts.record.claim, facts.evidence, POLICY)
    assert [row.number for row in found.rows] == [1, 4, 3]
    assert sum(int(row.weight.split()[0]) for row in found.rows[:2]) == 100
    assert found.folded == 2
    assert found.posterior.name == "Posterior"
    assert found.classical is not None
    assert "2 effects" in found.classical.note


def test_two_items_of_one_root_are_counted_once(told_site: Site) -> None:
    facts = told_site.facts()
    first = facts.evidence[0]
    assert first.assessment is not None
    again = replace(first, number=9, assessment=replace(first.assessment, number=9))
    found = forest(facts.record.claim, (*facts.evidence, again), POLICY)
    row = next(row for row in found.rows if row.number == 9)
    assert row.reason == "goes back to the same source as another row: counted once"


def test_withdrawn_evidence_is_not_drawn(told_site: Site) -> None:
    facts = told_site.facts()
    gone = tuple(replace(item, withdrawn="retracted") for item in facts.evidence)
    assert forest(facts.record.claim, gone, POLICY).rows == ()


@pytest.mark.parametrize("factor", [0.012, 95.0])
def test_extreme_results_are_drawn(site: Site, factor: float) -> None:
    arms = result_document()["arms"]
    arms[1]["metrics"][0]["values"] = [1000 * factor, 1010 * factor, 990 * factor]
    site.record(arms=arms)
    facts = site.facts()
    found = forest(facts.record.claim, facts.evidence, POLICY)
    assert all(3 <= row.measured_span.low <= row.measured_span.high <= 97 for row in found.rows)
    assert 3 <= found.at_one <= 97

"""Prices with their decisions pinned, and the decision trace under its filter."""

from __future__ import annotations

from datetime import timedelta

from app.web.history import price_chart, trace

from .conftest import DIAL, POLICY, Site


def test_no_price_no_chart(told_site: Site) -> None:
    assert price_chart((), told_site.facts().decisions.items, DIAL, POLICY) is None


def test_prices_and_what_moved_them(told_site: Site) -> None:
    facts = told_site.facts()
    found = price_chart(facts.prices, facts.decisions.items, DIAL, POLICY)
    assert found is not None
    assert [row.verb for row in found.rows] == ["reprice", "create"]
    assert found.rows[0].move.startswith("+0.")
    assert found.rows[1].move == ""
    assert all(row.decision is not None for row in found.rows)
    own = [pin for pin in found.pins if not pin.imported]
    assert [pin.label for pin in own] == ["create", "reprice"]
    assert found.end_y == own[-1].y
    assert len(found.strokes) == 3


def test_imported_decisions_stand_on_the_floor_and_near_ones_become_one(told_site: Site) -> None:
    facts = told_site.facts()
    found = price_chart(facts.prices, facts.decisions.items, DIAL, POLICY)
    assert found is not None
    old = [pin for pin in found.pins if pin.imported]
    assert [(pin.count, pin.y) for pin in old] == [(2, found.floor_y), (1, found.floor_y)]
    assert "imported" in old[0].title
    assert "UTC+10:00" in old[0].title


def test_one_price_at_one_moment_is_drawn(told_site: Site) -> None:
    facts = told_site.facts("empty-case")
    assert len(facts.prices) == 1
    dial = type(DIAL)(zone="UTC", now=facts.prices[0].at)
    found = price_chart(facts.prices, facts.decisions.items, dial, POLICY)
    assert found is not None
    assert found.end_x == 50.0


def test_trace_is_newest_first_and_numbers_its_entries(told_site: Site) -> None:
    facts = told_site.facts()
    found = trace(facts.decisions.items, DIAL)
    numbers = [entry.number for entry in found.entries]
    assert numbers == sorted(numbers, reverse=True)
    assert (found.total, found.hidden) == (len(numbers), 0)
    assert found.entries[0].policy.startswith("1:")
    assert '"price"' in next(entry.facts for entry in found.entries if entry.verb == "reprice")


def test_trace_filters(told_site: Site) -> None:
    facts = told_site.facts()
    imported = trace(facts.decisions.items, DIAL, origin="imported")
    assert {entry.imported for entry in imported.entries} == {True}
    assert imported.hidden == imported.total - len(imported.entries)
    assert [entry.cut for entry in imported.entries if entry.verb == "reprice"] == [True]
    own = trace(facts.decisions.items, DIAL, origin="own", verb="create")
    assert [entry.verb for entry in own.entries] == ["create"]
    nothing = trace(facts.decisions.items, DIAL, verb="<b>")
    assert nothing.entries == ()
    assert "<b>" in nothing.verbs


def test_imported_entries_keep_their_own_time(told_site: Site) -> None:
    facts = told_site.facts()
    entry = next(item for item in trace(facts.decisions.items, DIAL, origin="imported").entries)
    assert entry.at.minute == "13 Aug 2026, 06:32"
    assert timedelta(0) < DIAL.now - facts.record.recorded_at

"""Facts and plain words about a case, as decisions and interpretations carry them."""

from __future__ import annotations

from typing import Any

from app.domain.assess import closest, select
from app.domain.case import Case, CaseOpened, Change
from app.domain.evidence import Status


def change_of(before: Case, after: Case, *, first_qualifying: bool = False) -> Change:
    """What happened to a case between two moments."""
    return Change(
        price_before=before.price,
        price_after=after.price,
        state_before=before.state,
        state_after=after.state,
        verdict_before=before.verdict,
        verdict_after=after.verdict,
        first_qualifying=first_qualifying,
    )


def facts_of(before: Case, after: Case) -> dict[str, Any]:
    """The facts that every decision carries."""
    return {
        "price": {"before": before.price, "after": after.price},
        "state": {"before": str(before.state), "after": str(after.state)},
        "verdict": {"before": str(before.verdict), "after": str(after.verdict)},
        "uncertainty": {"before": str(before.uncertainty), "after": str(after.uncertainty)},
    }


def hours_of(case: Case) -> str:
    """The horizon in hours."""
    return f"{case.claim.horizon.total_seconds() / 3600:g}"


def standing(case: Case) -> str:
    """Where the case stands, in one or two sentences."""
    pooled = len(select(case.assessments))
    qualifying = len({item.root for item in case.assessments if item.qualifying})
    return (
        f"Price {case.price:.2f} that the true effect at {case.claim.settles_at} level is at least "
        f"{case.claim.delta:+.0%}, {case.uncertainty} uncertainty; {qualifying} qualifying of {pooled} "
        f"pooled effect{'s' if pooled != 1 else ''}."
    )


def lacking(case: Case) -> str:
    """What the closest evidence lacks."""
    best = closest(case.assessments)
    if best is None:
        return "Nobody reported a measured effect."
    open_rows = [str(row.criterion) for row in best.criteria if row.status is not Status.MET]
    return f"The closest evidence ({best.number}, {best.title}) lacks {', '.join(open_rows)}."


def opening_words(event: CaseOpened, case: Case) -> str:
    """How a case begins."""
    count = len(event.evidence)
    items = "no evidence yet" if not count else f"{count} item{'s' if count > 1 else ''} of evidence"
    if event.imported_state is None:
        return f"Case opened with {items}: price {case.price:.2f}, horizon {hours_of(case)} h."
    return (
        f"Case imported in state {event.imported_state} with {event.imported_entries} entries of earlier "
        f"history, kept as they were written. Judged by this service's rules on {items}: "
        f"price {case.price:.2f}."
    )

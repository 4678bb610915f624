"""The answer that a case page opens with: plain sentences that a busy person can act on, built from facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.assess import Assessment, closest
from app.domain.case import State, Verb
from app.domain.claim import Claim
from app.domain.evidence import Criterion, Status
from app.domain.policy import Policy
from app.domain.verdict import Verdict
from app.store.records import CaseRecord, DecisionRecord, EvidenceRecord
from app.web.times import Dial
from app.web.words import percent, unbroken, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known (`lead`), how sure and since when (`standing`), what would change it (`next`)."""

    lead: str
    standing: str
    next: str


def answer(
    record: CaseRecord,
    evidence: Sequence[EvidenceRecord],
    decisions: Sequence[DecisionRecord],
    dial: Dial,
    policy: Policy,
) -> Answer:
    """The answer of a case. `decisions` are newest first."""
    living = [item.assessment for item in evidence if item.assessment is not None and item.withdrawn is None]
    summary, claim = record.summary, record.claim
    settled = any(item.qualifying for item in living)
    return Answer(
        lead=UNSETTLED if settled and summary.verdict is Verdict.OPEN else LEADS[summary.verdict],
        standing=(
            f"Price {summary.price:.2f}, the probability that it improves {words(claim.metric)} at "
            f"{claim.settles_at} level by at least {unbroken(percent(claim.delta))}; "
            f"{summary.uncertainty} uncertainty. {_state(record, decisions, dial, settled=settled)}."
        ),
        next=_next(summary.verdict, claim, living, policy),
    )


LEADS: Final = {
    Verdict.OPEN: "Not shown end to end.",
    Verdict.SUPPORTED: "Shown end to end: it holds.",
    Verdict.REFUTED: "Shown end to end: it does not hold.",
    Verdict.MIXED: "Qualifying results contradict each other.",
}


UNSETTLED: Final = "Tested end to end, not settled."
"""Of an open case that has a qualifying result."""


def _state(record: CaseRecord, decisions: Sequence[DecisionRecord], dial: Dial, *, settled: bool) -> str:
    summary = record.summary
    hours = f"{record.claim.horizon.total_seconds() / 3600:g} h"
    if summary.state is State.EXPIRED:
        last = next((item for item in decisions if item.verb is Verb.EXPIRE), None)
        because = "because no result that meets every criterion came"
        if last is None:
            return f"Expired {because} within {hours}"
        day = unbroken(dial.show(last.at).day)
        if last.imported:
            return f"Expired {day}, before it was imported here, {because}"
        return f"Expired {day} {because} within {hours} of the last material event"
    if settled or summary.verdict is not Verdict.OPEN:
        return f"{summary.state.capitalize()} since {unbroken(dial.show(summary.last_material_at).day)}"
    due = unbroken(dial.show(summary.due_at).minute)
    if summary.due_at <= dial.now:
        return f"{summary.state.capitalize()}, its horizon ended {due} and the next hourly pass decides"
    if summary.state is State.REPRICED:
        since = unbroken(dial.show(summary.last_material_at).day)
        return f"Repriced {since} on new evidence, expires {due} unless more comes"
    return f"Active, expires {due} unless evidence comes"


def _next(verdict: Verdict, claim: Claim, living: Sequence[Assessment], policy: Policy) -> str:
    if verdict is Verdict.SUPPORTED:
        return f"It would be open again if new evidence brought the price under {policy.supported_until:.2f}."
    if verdict is Verdict.REFUTED:
        return f"It would be open again if new evidence brought the price over {policy.refuted_until:.2f}."
    if verdict is Verdict.MIXED:
        return (
            "To settle it: find which condition the results differ in, "
            "then repeat the comparison on both sides of it."
        )
    best = closest(living)
    if best is not None and best.qualifying:
        return (
            f"To settle it: more runs like evidence {best.number}, until the price is at least "
            f"{policy.supported_at:.2f} or at most {policy.refuted_at:.2f}."
        )
    return f"To settle it: {settling(claim, best)}."


def settling(claim: Claim, best: Assessment | None) -> str:
    """The run that would settle a claim, naming what the closest evidence lacks."""
    gpu = claim.workload.get("hardware.gpu")
    hardware = f" on {gpu}" if gpu else ""
    run = f"{claim.settles_at}-level comparison{hardware} that changes {', '.join(claim.factor)} alone"
    if best is None:
        return f"an independent {run} and meets all eight criteria; nobody has reported a measured effect yet"
    lacking = {row.criterion for row in best.criteria if row.status is not Status.MET}
    needs = [words for criterion, words in NEEDS.items() if criterion in lacking]
    which = "an independent" if Criterion.INDEPENDENT in lacking else "a"
    return f"{which} {run}{', with ' + _listed(needs) if needs else ''}"


NEEDS: Final = {
    Criterion.WORKLOAD_MATCHED: "one workload in both arms",
    Criterion.QUALITY_RETAINED: "quality reported for both arms",
    Criterion.QUANTIZATION_COUNTED: "the cost of quantization counted",
    Criterion.MEASURED_SOUNDLY: "valid, repeated runs",
    Criterion.REPRODUCIBLE: "raw output, command and versions attached",
}
"""What a run must have, by criterion. The others stand in the sentence itself."""


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"

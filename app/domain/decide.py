"""decide(case, event, policy) → decisions. No I/O and no clock: the event carries its time.

Replay is this same function over the stored events.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from app.domain.assess import Assessment, synthesize
from app.domain.case import (
    Case,
    CaseOpened,
    Decision,
    Event,
    EvidenceRecorded,
    EvidenceWithdrawn,
    HorizonPassed,
    Interpretation,
    Outcome,
    State,
    Verb,
    reaches,
)
from app.domain.evidence import EvidenceKind, Status
from app.domain.judging import (
    Bench,
    Judged,
    assess_all,
    audits_of,
    barred_by,
    changed,
    judge,
    rejudged,
    replaced,
)
from app.domain.policy import Policy
from app.domain.verdict import Uncertainty, Verdict
from app.domain.words import change_of, facts_of, hours_of, lacking, opening_words, standing


def decide(case: Case | None, event: Event, policy: Policy) -> Outcome:
    """What follows from one event.

    Args:
        case: the case before the event; `None` only for `CaseOpened`.
        event: what happened, with its own time.
        policy: every number used.

    Raises:
        ValueError: an event other than `CaseOpened` without a case.
    """
    if isinstance(event, CaseOpened):
        return _open(event, policy)
    if case is None:
        raise ValueError(f"{type(event).__name__} needs a case")
    match event:
        case EvidenceRecorded():
            return _record(case, event, policy)
        case EvidenceWithdrawn():
            return _withdraw(case, event, policy)
        case HorizonPassed():
            return _horizon(case, event)
        case _:
            assert_never(event)


def _open(event: CaseOpened, policy: Policy) -> Outcome:
    audits = tuple(
        entry
        for number, item in enumerate(event.evidence, start=1)
        for entry in audits_of(number, item, event.claim, policy)
    )
    numbered = tuple(enumerate(event.evidence, start=1))
    assessments = assess_all(numbered, (), Bench(claim=event.claim, policy=policy, audits=audits))
    # An older life that has expired has no horizon left to run.
    horizon = timedelta(0) if event.imported_state is State.EXPIRED else event.claim.horizon
    blank = Case(
        slug=event.slug,
        claim=event.claim,
        state=event.imported_state or State.ACTIVE,
        verdict=Verdict.OPEN,
        price=synthesize((), event.claim, policy).price,
        uncertainty=Uncertainty.HIGH,
        opened_at=event.opened_at,
        last_material_at=event.at,
        due_at=event.at + horizon,
        material_price=0.0,
        assessments=assessments,
        audits=audits,
        grounding=event.grounding,
    )
    judged = judge(assessments, blank, policy)
    case = replace(
        blank,
        price=judged.posterior.price,
        material_price=judged.posterior.price,
        uncertainty=judged.uncertainty,
        verdict=judged.ruling.verdict,
    )
    reason = opening_words(event, case)
    facts = facts_of(blank, case) | {
        "evidence": len(event.evidence),
        "imported_entries": event.imported_entries,
    }
    return Outcome(
        case=case,
        decisions=(Decision(verb=Verb.CREATE, at=event.at, reason=reason, facts=facts),),
        interpretations=(Interpretation(at=event.at, text=standing(case)),),
        assessments=assessments,
        change=change_of(case, case),
    )


def _record(case: Case, event: EvidenceRecorded, policy: Policy) -> Outcome:
    audits = (*case.audits, *audits_of(event.number, event.evidence, case.claim, policy))
    bench = Bench(claim=case.claim, policy=policy, audits=audits, barred=case.barred)
    new = assess_all((*event.again, (event.number, event.evidence)), case.assessments, bench)
    after = replace(case, audits=audits, assessments=replaced(case.assessments, new))
    judged_case, judged = rejudged(after, case, policy)
    own = next(item for item in new if item.number == event.number)
    why = _materiality(case, judged_case, own, policy)
    new = changed(case.assessments, new)
    if why is None:
        return _observe(case, judged_case, own, event.at, new)
    return _reprice(case, judged_case, judged, own, event, why, new)


def _materiality(before: Case, after: Case, own: Assessment, policy: Policy) -> str | None:
    """Why the event is material, or `None`."""
    if _first_qualifying(before, after):
        first = next(item for item in after.assessments if item.qualifying)
        which = "it is" if first.number == own.number else f"with it evidence {first.number} becomes"
        return f"{which} the first result that meets every criterion"
    if after.verdict is not before.verdict:
        return f"the verdict goes from {before.verdict} to {after.verdict}"
    # Counted from the last material event, so that small moves cannot add up unseen.
    move = after.price - before.material_price
    if reaches(abs(move), policy.material_price_move):
        return f"the price moves by {move:+.2f}"
    moved = _criteria_moved(before, after)
    if moved:
        return (
            f"the criteria {', '.join(moved)} moved" if len(moved) > 1 else f"the criterion {moved[0]} moved"
        )
    return None


def _first_qualifying(before: Case, after: Case) -> bool:
    """Whether something meets every criterion now where nothing did: a result, or one that an audit completes."""
    return any(item.qualifying for item in after.assessments) and not any(
        item.qualifying for item in before.assessments
    )


def _criteria_moved(before: Case, after: Case) -> tuple[str, ...]:
    """Criteria whose best status over pooled evidence changed. Evidence that is not pooled moves none."""
    old, new = _best(before.assessments), _best(after.assessments)
    if not old:
        return ()
    return tuple(name for name, rank in new.items() if rank != old[name])


RANK = {Status.UNMET: 0, Status.UNKNOWN: 1, Status.MET: 2}


def _best(assessments: tuple[Assessment, ...]) -> dict[str, int]:
    pooled = [item for item in assessments if item.pooled]
    if not pooled:
        return {}
    return {
        str(row.criterion): max(RANK[item.criteria[index].status] for item in pooled)
        for index, row in enumerate(pooled[0].criteria)
    }


def _observe(
    before: Case, after: Case, own: Assessment, at: datetime, new: tuple[Assessment, ...]
) -> Outcome:
    case = replace(after, state=before.state)
    if own.kind is EvidenceKind.AUDIT:
        words = "its findings move neither the price nor the best status of any criterion"
    elif not own.contrasts:
        words = "it reports no effect"
    elif not own.pooled:
        words = f"not pooled: {own.contrasts[0].reason}"
    elif any(item.root == own.root for item in before.assessments):
        words = "it repeats evidence from the same root"
    else:
        words = f"it agrees with what was known; the price moves by {case.price - before.price:+.3f}"
    reason = f"Evidence {own.number} ({own.title}) changes nothing material: {words}."
    decision = Decision(
        verb=Verb.OBSERVE, at=at, reason=reason, facts=facts_of(before, case) | {"evidence": own.number}
    )
    return Outcome(
        case=case, decisions=(decision,), interpretations=(), assessments=new, change=change_of(before, case)
    )


def _reprice(
    before: Case,
    after: Case,
    judged: Judged,
    own: Assessment,
    event: EvidenceRecorded,
    why: str,
    new: tuple[Assessment, ...],
) -> Outcome:
    at = event.at
    waking = _waking(before, after, own, event)
    # Only waking evidence changes an expired case's state; anything else is priced where it lies.
    asleep = before.state is State.EXPIRED and waking is None
    material_at = event.evidence.occurred_at if waking and waking[0] is Verb.CORRECT else at
    last = max(before.last_material_at, material_at)
    case = replace(after, state=State.EXPIRED, material_price=after.price)
    if not asleep:
        due = max(before.due_at, last + before.claim.horizon)
        case = replace(case, state=State.REPRICED, last_material_at=last, due_at=due)
    first = _first_qualifying(before, after)
    facts = facts_of(before, case) | {"evidence": own.number, "why": why}
    reason = (
        f"Evidence {own.number} ({own.title}) is material: {why}. Price {before.price:.2f} → "
        f"{case.price:.2f}; verdict {case.verdict}: {judged.ruling.reason}."
    )
    decisions = [Decision(verb=waking[0], at=at, reason=waking[1], facts=facts)] if waking else []
    decisions.append(Decision(verb=Verb.REPRICE, at=at, reason=reason, facts=facts))
    return Outcome(
        case=case,
        decisions=tuple(decisions),
        interpretations=(Interpretation(at=at, text=f"{reason} {standing(case)}"),),
        assessments=new,
        change=change_of(before, case, first_qualifying=first),
    )


def _waking(before: Case, after: Case, own: Assessment, event: EvidenceRecorded) -> tuple[Verb, str] | None:
    """Why an expired case wakes: something qualifies, or a result arrives that was measured before the expiry."""
    if before.state is not State.EXPIRED:
        return None
    if _first_qualifying(before, after) or own.qualifying:
        return Verb.REVIVE, _revived(after)
    measured = event.evidence.occurred_at
    if own.kind is not EvidenceKind.RESULT or not event.evidence.dated:
        return None
    if before.last_material_at < measured <= before.due_at:
        words = (
            f"Evidence {own.number} ({own.title}) arrived late: its own time, {measured:%Y-%m-%d %H:%M} "
            f"UTC, lies before the end of the horizon ({before.due_at:%Y-%m-%d %H:%M} UTC). The expiry is "
            f"taken back and the horizon counted from that time."
        )
        return Verb.CORRECT, words
    return None


def _revived(after: Case) -> str:
    found = next(item for item in reversed(after.assessments) if item.qualifying)
    return f"Evidence {found.number} ({found.title}) meets every criterion after the case had expired."


def _withdraw(case: Case, event: EvidenceWithdrawn, policy: Policy) -> Outcome:
    audits = tuple(entry for entry in case.audits if entry.number != event.number)
    barred = (*case.barred, *barred_by(event.evidence, event.reason))
    bench = Bench(claim=case.claim, policy=policy, audits=audits, barred=barred)
    left = tuple(item for item in case.assessments if item.number != event.number)
    new = assess_all(event.again, left, bench)
    after = replace(case, audits=audits, barred=barred, assessments=replaced(left, new))
    after, judged = rejudged(after, case, policy)
    after = replace(after, material_price=after.price)
    first = _first_qualifying(case, after)
    revived = first and case.state is State.EXPIRED
    if revived:
        due = event.at + case.claim.horizon
        after = replace(after, state=State.REPRICED, last_material_at=event.at, due_at=due)
    reason = (
        f"Evidence {event.number} was withdrawn: {event.reason}. Price {case.price:.2f} → {after.price:.2f}; "
        f"verdict {after.verdict}: {judged.ruling.reason}."
    )
    facts = facts_of(case, after) | {"evidence": event.number}
    decisions = [Decision(verb=Verb.CORRECT, at=event.at, reason=reason, facts=facts)]
    if revived:
        decisions.append(Decision(verb=Verb.REVIVE, at=event.at, reason=_revived(after), facts=facts))
    return Outcome(
        case=after,
        decisions=tuple(decisions),
        interpretations=(Interpretation(at=event.at, text=f"{reason} {standing(after)}"),),
        assessments=changed(case.assessments, new),
        change=change_of(case, after, first_qualifying=first),
    )


def _horizon(case: Case, event: HorizonPassed) -> Outcome:
    # Counted from the horizon proper: an hour that extended it once does not extend it again.
    due = max(case.due_at, case.last_material_at + case.claim.horizon + event.deaf)
    settled = any(item.qualifying for item in case.assessments)
    if case.state is State.EXPIRED or settled or event.at < case.due_at:
        return Outcome(
            case=case, decisions=(), interpretations=(), assessments=(), change=change_of(case, case)
        )
    if event.at < due:
        return _withheld(case, event, due)
    after = replace(case, state=State.EXPIRED)
    reason = (
        f"No independent end-to-end validation came within {hours_of(case)} h of the last material event "
        f"({case.last_material_at:%Y-%m-%d %H:%M} UTC). {lacking(case)}"
    )
    decision = Decision(
        verb=Verb.EXPIRE,
        at=event.at,
        reason=reason,
        facts=facts_of(case, after)
        | {"due_at": case.due_at.isoformat(), "deaf_s": event.deaf.total_seconds()},
    )
    return Outcome(
        case=after,
        decisions=(decision,),
        interpretations=(Interpretation(at=event.at, text=f"{reason} {standing(after)}"),),
        assessments=(),
        change=change_of(case, after),
    )


def _withheld(case: Case, event: HorizonPassed, due: datetime) -> Outcome:
    gap = event.deaf.total_seconds() / 3600
    after = replace(case, due_at=due)
    reason = (
        f"Expiry withheld: for {gap:.0f} h of the horizon the service was not listening, so evidence could "
        f"have been missed. The horizon is extended to {after.due_at:%Y-%m-%d %H:%M} UTC."
    )
    decision = Decision(
        verb=Verb.OBSERVE,
        at=event.at,
        reason=reason,
        facts=facts_of(case, after) | {"deaf_h": gap, "due_at": due.isoformat()},
    )
    return Outcome(
        case=after, decisions=(decision,), interpretations=(), assessments=(), change=change_of(case, after)
    )

"""The context of a case page, from what the store hands out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote as url_quote
from urllib.parse import urlencode

from app.domain.case import Grounding, State, Verb
from app.domain.claim import Claim, ClaimedEffect
from app.domain.metrics import METRICS
from app.domain.policy import Policy
from app.store.records import (
    CaseRecord,
    DecisionRecord,
    EvidenceRecord,
    ImportedStanding,
    InterpretationRecord,
    Page,
    PricePoint,
)
from app.web.answer import answer
from app.web.contexts import CaseContext
from app.web.forest import forest
from app.web.history import interpretations, price_chart, trace
from app.web.items import items, settling_table
from app.web.parts import ClaimPart, Command, Concept, GroundingPart, ImportedPart, Label, Quoted, Shell
from app.web.rows import scalar
from app.web.times import Dial
from app.web.words import (
    HEATS,
    STATES,
    UNCERTAINTIES,
    VERDICTS,
    quantity,
    ratio,
    signed_percent,
    web_link,
    words,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFacts:
    """Everything read for one case page."""

    record: CaseRecord
    evidence: tuple[EvidenceRecord, ...]
    interpretations: tuple[InterpretationRecord, ...]
    decisions: Page[DecisionRecord]
    prices: tuple[PricePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseWish:
    """What the address of a case page asks for: the trace's filter and place, and what was just recorded."""

    verb: str = ""
    origin: str = ""
    before: str | None = None
    recorded: int | None = None
    again: bool = False


def case_context(
    facts: CaseFacts, wish: CaseWish, shell: Shell, dial: Dial, policy: Policy, base: str
) -> CaseContext:
    """The context of a case page. `base` is the server's address, without a slash at its end."""
    record = facts.record
    summary = record.summary
    older = facts.decisions.next_cursor
    due_label, due = _horizon(facts, dial)
    return CaseContext(
        shell=shell,
        slug=summary.slug,
        title=summary.title,
        notice=_notice(wish, facts.evidence),
        answer=answer(record, facts.evidence, facts.decisions.items, dial, policy),
        state=STATES[summary.state],
        verdict=VERDICTS[summary.verdict],
        price=f"{summary.price:.2f}",
        uncertainty=UNCERTAINTIES[summary.uncertainty],
        heat=HEATS[summary.heat],
        relevance=str(record.relevance),
        tags=labels("tag", summary.tags),
        entities=labels("entity", summary.entities),
        opened=dial.show(summary.opened_at),
        recorded=dial.show(record.recorded_at),
        material=dial.show(summary.last_material_at),
        due_label=due_label,
        due=dial.show(due) if due else None,
        what=record.what,
        why=record.why,
        claim=claim_part(record.claim),
        grounding=_grounding(record.grounding),
        imported=_imported(record.imported),
        forest=forest(record.claim, facts.evidence, policy),
        prices=price_chart(facts.prices, facts.decisions.items, dial, policy),
        settling=settling_table(facts.evidence),
        items=items(facts.evidence, record.claim, dial),
        interpretations=interpretations(facts.interpretations, dial),
        trace=trace(
            facts.decisions.items,
            dial,
            verb=wish.verb,
            origin=wish.origin,
            older=older,
            newest=wish.before is None,
        ),
        older_trace=_older(wish, older),
        commands=_commands(summary.slug, base),
    )


def _horizon(facts: CaseFacts, dial: Dial) -> tuple[str, datetime | None]:
    summary = facts.record.summary
    if summary.state is State.EXPIRED:
        expiries = (item.at for item in facts.decisions.items if item.verb is Verb.EXPIRE)
        return "Expired", next(expiries, summary.due_at)
    living = (item.assessment for item in facts.evidence if item.withdrawn is None)
    if any(judged is not None and judged.qualifying for judged in living):
        return "Horizon", None
    return "Horizon ends" if summary.due_at > dial.now else "Horizon ended", summary.due_at


def labels(kind: str, texts: Sequence[str]) -> tuple[Label, ...]:
    """Tags or entities, each with the list of cases that bear it."""
    return tuple(Label(text=text, href=f"/?{urlencode({kind: text})}") for text in texts)


def _notice(wish: CaseWish, evidence: Sequence[EvidenceRecord]) -> str:
    if wish.recorded is None or all(item.number != wish.recorded for item in evidence):
        return ""
    if wish.again:
        return f"This content was recorded before, as evidence {wish.recorded}. Nothing was decided again."
    return f"Recorded as evidence {wish.recorded}. What it led to stands in the decision trace."


def _older(wish: CaseWish, cursor: str | None) -> str | None:
    if cursor is None:
        return None
    wanted = {"verb": wish.verb, "origin": wish.origin, "before": cursor}
    return f"?{urlencode({name: value for name, value in wanted.items() if value})}#trace"


def claim_part(claim: Claim) -> ClaimPart:
    """The claim as its section shows it."""
    spec = METRICS.get(claim.metric)
    return ClaimPart(
        sentence=claim.sentence,
        factor=claim.factor,
        metric=words(claim.metric),
        meaning=f"{spec.meaning} Unit {spec.unit}; {spec.direction} is better." if spec else "",
        settles_at=str(claim.settles_at),
        delta=signed_percent(claim.delta),
        horizon=f"{claim.horizon.total_seconds() / 3600:g} h",
        claimants=claim.claimants,
        workload=tuple((name, scalar(value)) for name, value in claim.workload.items()),
        effects=tuple(_quoted(effect) for effect in claim.effects),
        note=claim.note or "",
    )


def _quoted(effect: ClaimedEffect) -> Quoted:
    return Quoted(
        figure=_figure(effect),
        metric=words(effect.metric),
        level=str(effect.level),
        treatment=effect.treatment,
        baseline=effect.baseline or "",
        where="; ".join(part.rstrip(".") for part in (effect.workload, effect.hardware) if part),
        quote=effect.quote or "",
        source=effect.source or "",
        source_link=web_link(effect.source),
    )


def _figure(effect: ClaimedEffect) -> str:
    show = ratio if effect.unit == "ratio" else lambda value: quantity(value, effect.unit)
    low, high = show(effect.low), show(effect.high)
    return low if low == high else f"{low} to {high}"


def _grounding(grounding: Grounding | None) -> GroundingPart | None:
    if grounding is None:
        return None
    return GroundingPart(
        stance=str(grounding.stance),
        strength=str(grounding.strength),
        summary=grounding.summary,
        concepts=tuple(Concept(name=name, link=web_link(name)) for name in grounding.concepts),
        queries=grounding.queries,
    )


def _imported(standing: ImportedStanding | None) -> ImportedPart | None:
    if standing is None:
        return None
    return ImportedPart(
        source=standing.source,
        source_link=web_link(standing.source),
        state=str(standing.state),
        heat=standing.heat or "",
        uncertainty=standing.uncertainty or "",
        note=standing.note or "",
    )


def _commands(slug: str, base: str) -> tuple[Command, ...]:
    place = f"{base}/api/v1/cases/{url_quote(slug)}"
    return (
        Command(name="Read this case", line=f"assay cases show {slug}"),
        Command(name="The same over HTTP", line=f"curl -s {place}"),
        Command(name="Its decision trace", line=f"curl -s {place}/decisions"),
        Command(name="Decide everything again from the log", line=f"assay replay {slug}"),
        Command(
            name="Try a result, store nothing",
            line=f"assay submit --case {slug} --dry-run --arm baseline=A.json --arm treatment=B.json",
        ),
        Command(
            name="Send a native result",
            line=(
                f'curl -s {base}/api/v1/results -H "Authorization: Bearer $ASSAY_TOKEN" '
                "-H 'Content-Type: application/json' --data @result.json"
            ),
        ),
    )

"""Opening cases: a new one, or one imported with its earlier life."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection

from app.domain.case import CaseOpened, Decision
from app.domain.decide import decide
from app.domain.errors import Refused
from app.domain.evidence import Evidence
from app.formats.case_file import CaseFile, CaseIn, HistoryIn
from app.formats.native import EvidenceIn
from app.services.judge import Desk, Judgement, answer_parts, settle
from app.services.sources import build_claim, build_grounding, build_source
from app.store import cases
from app.store.cases import NewCase
from app.store.codec import dump
from app.store.log import CaseLog

MAX_HOPS: Final = 20
"""Longest chain of echoes within one file."""


def open_case(connection: Connection, document: CaseIn, desk: Desk) -> dict[str, Any]:
    """Create a case and decide on what is already known about it.

    Raises:
        Conflict: the slug is taken.
        Refused: the document cannot be taken; nothing was stored.
    """
    history = document.history if isinstance(document, CaseFile) else None
    opened_at = _opened_at(document, desk.now)
    event = CaseOpened(
        # An imported case goes on here and now; a new one begins when it says.
        at=desk.now if history else opened_at,
        opened_at=opened_at,
        slug=document.slug,
        claim=build_claim(document.claim),
        evidence=_evidence(document.evidence, desk),
        grounding=build_grounding(document.grounding),
        imported_state=history.state if history else None,
        imported_entries=len(history.trace) + len(history.interpretations) if history else 0,
    )
    new = NewCase(
        slug=document.slug,
        title=document.title,
        what=document.summary,
        why=document.why_it_matters,
        tags=tuple(dict.fromkeys(document.tags)),
        entities=tuple(dict.fromkeys(document.entities)),
        imported=history.model_dump(mode="json", exclude={"interpretations", "trace"}) if history else None,
    )
    outcome = decide(None, event, desk.policy)
    log = cases.create(connection, new, outcome.case, desk.now)
    if history:
        _keep_history(log, history, desk.now)
    head = log.head
    event_id = cases.add_event(log, "opened", event.at, desk.now, desk.actor, opened_body(event))
    for number, item in enumerate(event.evidence, start=1):
        cases.add_evidence(log, event_id, number, item, desk.now, desk.actor)
    judgement = settle(connection, log, outcome, event.at, event_id, head, desk)
    case = outcome.case
    cases.save(log, case, len(event.evidence), (case.price,), desk.now)
    return _answer(judgement, len(event.evidence))


def opened_body(event: CaseOpened) -> dict[str, Any]:
    """What the log keeps of an opening; its evidence stands in rows of its own."""
    body: dict[str, Any] = dump(replace(event, evidence=()))
    body["evidence"] = len(event.evidence)
    return body


def _opened_at(document: CaseIn, now: datetime) -> datetime:
    when = document.opened_at or now
    if when > now:
        raise Refused(
            "A case cannot open in the future.",
            field="opened_at",
            value=when.isoformat(),
            remedy="Leave it out to open the case now.",
            code="in-the-future",
        )
    return when.astimezone(UTC)


def _keep_history(log: CaseLog, history: HistoryIn, now: datetime) -> None:
    for entry in sorted(history.trace, key=lambda item: item.at):
        facts = {"source": history.source, "cut": entry.cut}
        old = Decision(verb=entry.verb, at=entry.at, reason=entry.reason, facts=facts)
        cases.add_decision(log, old, now, imported=True)
    for told in sorted(history.interpretations, key=lambda item: item.at):
        cases.add_interpretation(log, told.at, told.text, imported=True)


def _evidence(documents: list[EvidenceIn], desk: Desk) -> tuple[Evidence, ...]:
    """Items of one file, echoes and audits resolved by key or number whatever their order."""
    built: dict[int, Evidence] = {}
    names = {doc.key: index for index, doc in enumerate(documents) if doc.key is not None}

    def resolve(key: int | str, field: str, seen: tuple[int, ...]) -> Evidence:
        index = key - 1 if isinstance(key, int) else names.get(key, -1)
        if len(seen) > MAX_HOPS:
            raise Refused(
                f"Echoes and audits follow each other over more than {MAX_HOPS} items.",
                field=field,
                value=key,
                remedy="Name the item that an echo goes back to in the end.",
                code="too-many-hops",
            )
        if not 0 <= index < len(documents) or index in seen:
            raise Refused(
                f"{key!r} names no other item of the file.",
                field=field,
                value=key,
                remedy="Give another item's `key`.",
                code="no-such-evidence",
            )
        return build(index, seen)

    def build(index: int, seen: tuple[int, ...]) -> Evidence:
        if index not in built:
            document, path = documents[index], f"evidence[{index}]"
            chain = (*seen, index)
            echoed = resolve(document.echo_of, f"{path}.echo_of", chain) if document.echo_of else None
            audited = resolve(document.audits, f"{path}.audits", chain) if document.audits else None
            try:
                built[index] = build_source(
                    document,
                    now=desk.now,
                    policy=desk.policy,
                    root=echoed.root if echoed else None,
                    audits=(audited.twin or audited.root) if audited else None,
                    inherited=echoed.publisher if echoed else None,
                )
            except Refused as error:
                raise error.within(path) from error
        return built[index]

    items = tuple(build(index, ()) for index in range(len(documents)))
    refs = [item.ref for item in items]
    for index, ref in enumerate(refs):
        if ref in refs[:index]:
            raise Refused(
                "The same item stands twice in the file.",
                field=f"evidence[{index}]",
                value=items[index].title,
                remedy="Give it once.",
                code="evidence-twice",
            )
    return items


def _answer(judgement: Judgement, evidence_count: int) -> dict[str, Any]:
    case = judgement.outcome.case
    return {
        "case": case.slug,
        "evidence": evidence_count,
        "uncertainty": case.uncertainty,
        **answer_parts(judgement),
    }

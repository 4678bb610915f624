"""Taking evidence in: a posted result, a source, a withdrawal. A POST is followed here from top to bottom."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection

from app.domain.assess import Assessment
from app.domain.case import Case, EvidenceRecorded, EvidenceWithdrawn
from app.domain.decide import decide
from app.domain.errors import Conflict, NotFound, Refused
from app.domain.evidence import Evidence
from app.domain.route import route
from app.formats.native import EvidenceIn, ResultIn
from app.services.build import Built, build_result
from app.services.judge import Desk, Judgement, answer_parts, ears_of, settle
from app.services.sources import build_source
from app.store import cases, history, items, ledger
from app.store.cases import Locked
from app.store.codec import dump

_PLAIN: TypeAdapter[Any] = TypeAdapter(Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered to a write. `new` is false when the same content was recorded before."""

    new: bool
    body: dict[str, Any]


def plain(answer: Answer) -> dict[str, Any]:
    """An answer's body in plain JSON values."""
    body: dict[str, Any] = _PLAIN.dump_python(answer.body, mode="json")
    return body


def record_result(connection: Connection, document: ResultIn, desk: Desk) -> Answer:
    """Append a benchmark result once, judge the case anew, and say what followed.

    Raises:
        NotFound: there is no such case.
        Refused: the document cannot be taken; nothing was stored.
    """
    held = cases.lock(connection, document.case, desk.policy)
    built = build_result(document, held.case.claim, now=desk.now, policy=desk.policy)
    known = items.find_evidence(connection, held.log.case_id, built.evidence.ref)
    if known is not None:
        return Answer(new=False, body=_again(connection, held, built, known))
    # In one order whoever writes, so that two writers on two cases never wait for each other in a circle.
    for file in sorted(built.files, key=lambda file: file.sha256):
        ledger.keep_blob(connection, file.sha256, file.name, file.data)
    judgement = _append(connection, held, built.evidence, desk)
    return Answer(new=True, body=_result_answer(built, held.evidence_count + 1, judgement))


def preview_result(connection: Connection, document: ResultIn, desk: Desk) -> Answer:
    """The answer that `record_result` would give; nothing is stored."""
    held = cases.peek(connection, document.case, desk.policy)
    built = build_result(document, held.case.claim, now=desk.now, policy=desk.policy)
    known = items.find_evidence(connection, held.log.case_id, built.evidence.ref)
    if known is not None:
        return Answer(new=False, body=_again(connection, held, built, known))
    number = held.evidence_count + 1
    again = _bears_on(connection, held, built.evidence)
    event = EvidenceRecorded(at=desk.now, number=number, evidence=built.evidence, again=again)
    outcome = decide(held.case, event, desk.policy)
    ears = ears_of(connection, held.log.case_id, outcome.case, desk.now, desk)
    routing = route(held.case.slug, outcome.change, desk.now, ears, desk.policy)
    return Answer(new=True, body=_result_answer(built, number, Judgement(outcome=outcome, routing=routing)))


def record_source(connection: Connection, slug: str, document: EvidenceIn, desk: Desk) -> Answer:
    """Append a source, an echo or an audit.

    Raises:
        NotFound: there is no such case.
        Refused: it names an item that is not there, or cannot be taken.
    """
    held = cases.lock(connection, slug, desk.policy)
    item = _source(connection, held, document, desk)
    known = items.find_evidence(connection, held.log.case_id, item.ref)
    if known is not None:
        gone = items.withdrawn(connection, held.log.case_id).get(known)
        notices = [] if gone is None else [f"it was withdrawn and stays so: {gone}"]
        body = {"evidence": known, "case": slug, "duplicate": True, "notices": notices, **_still(held.case)}
        return Answer(new=False, body=body)
    judgement = _append(connection, held, item, desk)
    own = _own(judgement, held.evidence_count + 1)
    body = {
        "evidence": own.number,
        "case": slug,
        "duplicate": False,
        "criteria": [dump(row) for row in own.criteria],
        **answer_parts(judgement),
    }
    return Answer(new=True, body=body)


def withdraw(connection: Connection, slug: str, number: int, reason: str, desk: Desk) -> Answer:
    """Take an item of evidence back. The log keeps both it and the withdrawal.

    Raises:
        NotFound: no such case or item.
        Conflict: it was withdrawn before.
    """
    held = cases.lock(connection, slug, desk.policy)
    log = held.log
    item = items.evidence_number(connection, log.case_id, number)
    if item is None:
        raise NotFound("item of evidence", str(number))
    if number in items.withdrawn(connection, log.case_id):
        raise Conflict(
            f"Evidence {number} is withdrawn already.",
            remedy="Nothing more is needed.",
            code="already-withdrawn",
        )
    head = log.head
    again = tuple(pair for pair in _bears_on(connection, held, item) if pair[0] != number)
    event = EvidenceWithdrawn(at=desk.now, number=number, evidence=item, reason=reason, again=again)
    body = {"number": number, "reason": reason, "again": [n for n, _ in again]}
    event_id = cases.add_event(log, "withdrawn", desk.now, desk.now, desk.actor, body)
    outcome = decide(held.case, event, desk.policy)
    judgement = settle(connection, log, outcome, event.at, event_id, head, desk)
    _save(held, judgement, held.evidence_count, desk.now)
    return Answer(
        new=True, body={"evidence": number, "case": slug, "withdrawn": True, **answer_parts(judgement)}
    )


def _append(connection: Connection, held: Locked, item: Evidence, desk: Desk) -> Judgement:
    number, log, head = held.evidence_count + 1, held.log, held.log.head
    again = _bears_on(connection, held, item)
    body = {"number": number, "again": [n for n, _ in again]}
    event_id = cases.add_event(log, "evidence", desk.now, desk.now, desk.actor, body)
    cases.add_evidence(log, event_id, number, item, desk.now, desk.actor)
    event = EvidenceRecorded(at=desk.now, number=number, evidence=item, again=again)
    outcome = decide(held.case, event, desk.policy)
    judgement = settle(connection, log, outcome, event.at, event_id, head, desk)
    _save(held, judgement, number, desk.now)
    return judgement


def _save(held: Locked, judgement: Judgement, count: int, now: datetime) -> None:
    case = judgement.outcome.case
    cases.save(held.log, case, count, (*held.prices, case.price), now)


def _bears_on(connection: Connection, held: Locked, item: Evidence) -> tuple[tuple[int, Evidence], ...]:
    """What an item bears on, to be judged anew with it: the same source or measurement, or what an audit examines.
    Withdrawn items stay withdrawn."""
    living = {assessment.number for assessment in held.case.assessments}
    found = items.related(connection, held.log.case_id, item)
    return tuple((number, other) for number, other in found if number in living)


def _source(connection: Connection, held: Locked, document: EvidenceIn, desk: Desk) -> Evidence:
    echoed = _named(connection, held, document.echo_of, "echo_of")
    audited = _named(connection, held, document.audits, "audits")
    return build_source(
        document,
        now=desk.now,
        policy=desk.policy,
        root=echoed.root if echoed else None,
        audits=(audited.twin or audited.root) if audited else None,
        inherited=echoed.publisher if echoed else None,
    )


def _named(connection: Connection, held: Locked, key: int | str | None, field: str) -> Evidence | None:
    if key is None:
        return None
    there = isinstance(key, int) and 0 < key <= held.evidence_count
    found = items.evidence_number(connection, held.log.case_id, int(key)) if there else None
    if found is None:
        raise Refused(
            f"The case has no item of evidence {key!r}.",
            field=field,
            value=key,
            remedy=f"Give the number of one of its {held.evidence_count} items.",
            code="no-such-evidence",
        )
    return found


def _own(judgement: Judgement, number: int) -> Assessment:
    return next(item for item in judgement.outcome.assessments if item.number == number)


def _result_answer(built: Built, number: int, judgement: Judgement) -> dict[str, Any]:
    own = _own(judgement, number)
    return {
        "result_id": built.evidence.ref,
        "evidence": number,
        "case": judgement.outcome.case.slug,
        "duplicate": False,
        "qualifying": own.qualifying,
        **_measured(built.evidence, own),
        **answer_parts(judgement),
        "notices": list(built.notices),
    }


def _measured(item: Evidence, own: Assessment) -> dict[str, Any]:
    return {
        "contrasts": [
            dump(contrast) | {"pooled": judged.pooled, "why": judged.reason}
            for contrast, judged in zip(item.contrasts, own.contrasts, strict=True)
        ],
        "criteria": [dump(row) for row in own.criteria],
        "run_validity": [dump(entry) for entry in item.validity],
    }


def _still(case: Case) -> dict[str, Any]:
    return {
        "price": {"before": case.price, "after": case.price},
        "state": {"before": case.state, "after": case.state},
        "verdict": {"before": case.verdict, "after": case.verdict},
        "decisions": [],
        "alerts": [],
    }


def _again(connection: Connection, held: Locked, built: Built, number: int) -> dict[str, Any]:
    """The first answer again, for content that is already recorded: nothing new is decided."""
    first = history.first_answer(connection, held.log.case_id, number)
    item = items.evidence_number(connection, held.log.case_id, number) or built.evidence
    gone = items.withdrawn(connection, held.log.case_id).get(number)
    own = first.assessment
    facts = first.decisions[0].facts
    return {
        "result_id": built.evidence.ref,
        "evidence": number,
        "case": held.case.slug,
        "duplicate": True,
        "qualifying": own.qualifying,
        **_measured(item, own),
        **{name: facts[name] for name in ("price", "state", "verdict")},
        "decisions": [decision.told() for decision in first.decisions],
        "alerts": [dump(routing) for routing in first.routings],
        "notices": [*built.notices, *([] if gone is None else [f"it was withdrawn and stays so: {gone}"])],
    }

"""Items of evidence as a case page shows them: quotation apart from judgement, numbers down to raw files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.assess import AssessedContrast, Assessment, closest
from app.domain.claim import Claim
from app.domain.contrast import Arm
from app.domain.evidence import Criterion, Evidence, Finding, Status
from app.store.records import EvidenceRecord
from app.web.rows import (
    VALIDITY,
    ConfigRow,
    ContrastTable,
    CriterionRow,
    FileRow,
    ValidityRow,
    config_rows,
    contrast_row,
    contrast_table,
    criterion_row,
)
from app.web.times import Dial, Moment
from app.web.words import CRITERIA, MET_WHEN, STATUSES, size_of, web_link


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of evidence.

    Attributes:
        link: its address, where that may become a link; `address` is its text in any case.
        dated: whether its own time is stated; without one it counts as of when it was recorded.
        tally: statuses counted, as text.
        differs: fields in which the arms differ; `same` those that they share.
        notes: what was noticed while its files were read.
    """

    number: int
    title: str
    kind: str
    level: str
    anchor: bool
    qualifying: bool
    withdrawn: str
    publisher: str
    publisher_link: str | None
    relation: str
    link: str | None
    address: str
    at: Moment
    dated: bool
    recorded: Moment
    actor: str
    quote: str
    summary: str
    criteria: tuple[CriterionRow, ...]
    tally: str
    contrasts: ContrastTable
    differs: tuple[ConfigRow, ...]
    same: tuple[ConfigRow, ...]
    validity: tuple[ValidityRow, ...]
    files: tuple[FileRow, ...]
    notes: tuple[str, ...]
    command: str
    audits: str
    findings: tuple[CriterionRow, ...]
    ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """Criteria of the closest evidence: its unmet and unknown rows are what would settle the case.

    `number` is `None` while nobody reported an effect: then the rows say what each criterion asks for.
    """

    number: int | None
    title: str
    rows: tuple[CriterionRow, ...]
    open_count: int


def settling_table(records: Sequence[EvidenceRecord]) -> Settling:
    """The table of the item that lacks least."""
    living = [item.assessment for item in records if item.assessment is not None and item.withdrawn is None]
    best = closest(living)
    if best is None:
        rows = tuple(_asked(criterion) for criterion in Criterion)
        return Settling(number=None, title="", rows=rows, open_count=len(rows))
    return Settling(
        number=best.number,
        title=best.title,
        rows=_criteria(best),
        open_count=sum(row.status is not Status.MET for row in best.criteria),
    )


def _asked(criterion: Criterion) -> CriterionRow:
    reason = f"met when {MET_WHEN[criterion]}"
    return CriterionRow(name=CRITERIA[criterion], mark=STATUSES[Status.UNKNOWN], reason=reason, fields=())


def items(records: Sequence[EvidenceRecord], claim: Claim, dial: Dial) -> tuple[Item, ...]:
    """All evidence, by number."""
    titles = {record.evidence.root: record for record in reversed(records)}
    return tuple(_item(record, claim, dial, titles.get(record.evidence.audits or "")) for record in records)


def _item(record: EvidenceRecord, claim: Claim, dial: Dial, audited: EvidenceRecord | None) -> Item:
    evidence, judged = record.evidence, record.assessment
    publisher = evidence.publisher
    differs, same = config_rows(evidence.arms, claim.factor)
    return Item(
        number=record.number,
        title=evidence.title,
        kind=str(evidence.kind),
        level=str(evidence.level) if evidence.level else "",
        anchor=evidence.canonical_anchor,
        qualifying=bool(judged and judged.qualifying),
        withdrawn=record.withdrawn or "",
        publisher=publisher.name if publisher else "",
        publisher_link=web_link(publisher.url) if publisher else None,
        relation=str(publisher.relation) if publisher and publisher.relation else "",
        link=web_link(evidence.url),
        address=evidence.url or "",
        at=dial.show(evidence.occurred_at),
        dated=evidence.dated,
        recorded=dial.show(record.recorded_at),
        actor=record.actor,
        quote=evidence.quote or "",
        summary=evidence.summary or "",
        criteria=_criteria(judged) if judged else (),
        tally=_tally(judged) if judged else "not judged",
        contrasts=_contrasts(evidence, judged),
        differs=differs,
        same=same,
        validity=tuple(
            ValidityRow(arm=str(entry.arm), mark=VALIDITY[entry.valid], reasons=entry.reasons)
            for entry in evidence.validity
        ),
        files=tuple(_files(evidence.arms)),
        notes=tuple(f"{arm.role}: {note}" for arm in evidence.arms for note in arm.notes),
        command=evidence.command or "",
        audits=f"evidence {audited.number}" if audited else (evidence.audits or ""),
        findings=tuple(_finding(entry) for entry in evidence.findings),
        ref=evidence.ref,
    )


def _criteria(judged: Assessment) -> tuple[CriterionRow, ...]:
    return tuple(criterion_row(row) for row in judged.criteria)


def _finding(entry: Finding) -> CriterionRow:
    return CriterionRow(
        name=CRITERIA[entry.criterion],
        mark=STATUSES[entry.status],
        reason=entry.reason,
        fields=(),
        lines=entry.lines,
    )


def _tally(judged: Assessment) -> str:
    counts = {status: sum(row.status is status for row in judged.criteria) for status in Status}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def _contrasts(evidence: Evidence, judged: Assessment | None) -> ContrastTable:
    assessed: Sequence[AssessedContrast | None] = (
        judged.contrasts if judged else [None] * len(evidence.contrasts)
    )
    return contrast_table(
        [
            contrast_row(c, pooled=bool(a and a.pooled), why=a.reason if a else "not judged")
            for c, a in zip(evidence.contrasts, assessed, strict=True)
        ]
    )


def _files(arms: Sequence[Arm]) -> list[FileRow]:
    return [
        FileRow(
            arm=str(arm.role), name=file.name, format=file.format, size=size_of(file.size), sha256=file.sha256
        )
        for arm in arms
        for file in arm.attachments
    ]

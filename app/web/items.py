"""Items of evidence as a case page shows them: quotation apart from judgement, every number down to its raw file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.assess import AssessedContrast, Assessment, closest
from app.domain.claim import Claim, Scalar
from app.domain.contrast import Arm, Contrast, Role
from app.domain.criteria import CriterionResult
from app.domain.evidence import Evidence, Finding, Status
from app.domain.vocabulary import FIELDS, group_of
from app.store.records import EvidenceRecord
from app.web.times import Dial, Moment
from app.web.words import CRITERIA, STATUSES, Mark, digits, quantity, ratio, size_of, web_link, words


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionRow:
    """One of the eight criteria. `lines` are what an audit rests on."""

    name: str
    mark: Mark
    reason: str
    fields: tuple[str, ...]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRow:
    """One field of the two arms' configurations. `factor` says that it is what the claim is about."""

    name: str
    meaning: str
    group: str
    baseline: str
    treatment: str
    factor: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastRow:
    """One contrast. `why` says why it was not pooled, empty where it was."""

    metric: str
    statistic: str
    baseline: str
    treatment: str
    ratio: str
    interval: str
    runs: int
    imputed: bool
    pooled: bool
    why: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """A raw file, kept by content."""

    arm: str
    name: str
    format: str
    size: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityRow:
    """Whether an arm's runs measured what they set out to measure."""

    arm: str
    mark: Mark
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of evidence.

    Attributes:
        link: its address, where that may become a link; `address` is its text in any case.
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
    recorded: Moment
    actor: str
    quote: str
    summary: str
    criteria: tuple[CriterionRow, ...]
    tally: str
    contrasts: tuple[ContrastRow, ...]
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
    """The criteria table of the closest evidence: its unmet and unknown rows are what would settle the case."""

    number: int
    title: str
    rows: tuple[CriterionRow, ...]
    open_count: int


def settling_table(records: Sequence[EvidenceRecord]) -> Settling | None:
    """The table of the item that lacks least; `None` while nobody reported an effect."""
    living = [item.assessment for item in records if item.assessment is not None and item.withdrawn is None]
    best = closest(living)
    if best is None:
        return None
    return Settling(
        number=best.number,
        title=best.title,
        rows=_criteria(best),
        open_count=sum(row.status is not Status.MET for row in best.criteria),
    )


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


VALIDITY = {
    True: Mark(
        word="valid", icon="check", tone="good", meaning="the run measured what it set out to measure"
    ),
    False: Mark(word="invalid", icon="cross", tone="bad", meaning="kept, never pooled"),
    None: Mark(word="cannot tell", icon="query", tone="warn", meaning="what would tell was not recorded"),
}


def _criteria(judged: Assessment) -> tuple[CriterionRow, ...]:
    return tuple(criterion_row(row) for row in judged.criteria)


def criterion_row(row: CriterionResult) -> CriterionRow:
    """One row of a criteria table."""
    mark = STATUSES[row.status]
    return CriterionRow(name=CRITERIA[row.criterion], mark=mark, reason=row.reason, fields=row.fields)


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


def _contrasts(evidence: Evidence, judged: Assessment | None) -> tuple[ContrastRow, ...]:
    assessed: Sequence[AssessedContrast | None] = (
        judged.contrasts if judged else [None] * len(evidence.contrasts)
    )
    return tuple(
        contrast_row(c, pooled=bool(a and a.pooled), why=a.reason if a else "not judged")
        for c, a in zip(evidence.contrasts, assessed, strict=True)
    )


def contrast_row(contrast: Contrast, *, pooled: bool, why: str) -> ContrastRow:
    """One contrast with what became of it."""
    half = 1.959964 * contrast.se
    better = "better" if contrast.log_ratio > 0 else "worse"
    return ContrastRow(
        metric=words(contrast.metric),
        statistic=contrast.statistic or "",
        baseline=_value(contrast.baseline, contrast.unit),
        treatment=_value(contrast.treatment, contrast.unit),
        ratio=ratio(contrast.ratio),
        interval=f"{digits(abs(contrast.log_ratio))} {better}, ± {digits(half)}",
        runs=contrast.runs,
        imputed=contrast.se_imputed,
        pooled=pooled,
        why="" if pooled else why,
        flags=contrast.flags,
    )


def _value(value: float | None, unit: str) -> str:
    return "" if value is None else quantity(value, unit)


def config_rows(
    arms: Sequence[Arm], factor: Sequence[str]
) -> tuple[tuple[ConfigRow, ...], tuple[ConfigRow, ...]]:
    """Fields in which the arms differ, then those that they share. A field that one arm leaves out differs."""
    by_role = {arm.role: arm for arm in arms}
    base, treat = by_role.get(Role.BASELINE), by_role.get(Role.TREATMENT)
    left, right = (base.config if base else {}), (treat.config if treat else {})
    differs: list[ConfigRow] = []
    same: list[ConfigRow] = []
    for name in sorted({*left, *right}):
        row = _config_row(name, left.get(name), right.get(name), name in factor)
        (same if row.baseline == row.treatment else differs).append(row)
    differs.sort(key=lambda row: (not row.factor, row.group, row.name))
    return tuple(differs), tuple(same)


def _config_row(name: str, left: Scalar, right: Scalar, factor: bool) -> ConfigRow:
    field = FIELDS.get(name)
    return ConfigRow(
        name=name,
        meaning=field.meaning if field else "not in the vocabulary; treated as part of the system",
        group=str(group_of(name)),
        baseline=scalar(left),
        treatment=scalar(right),
        factor=factor,
    )


def scalar(value: Scalar) -> str:
    """A configuration value as text; empty where it is not stated."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _files(arms: Sequence[Arm]) -> list[FileRow]:
    return [
        FileRow(
            arm=str(arm.role), name=file.name, format=file.format, size=size_of(file.size), sha256=file.sha256
        )
        for arm in arms
        for file in arm.attachments
    ]

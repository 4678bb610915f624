"""Rows of the tables that evidence is shown in: criteria, contrasts, configurations, files, validity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.domain.claim import Scalar
from app.domain.contrast import Arm, Contrast, Role
from app.domain.criteria import CriterionResult
from app.domain.vocabulary import FIELDS, Group, group_of
from app.web.words import CRITERIA, STATUSES, Mark, in_words, quantity, ratio, words


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
class ContrastTable:
    """Contrasts of one item. `shared` is a reason that several are not counted for, told once."""

    rows: tuple[ContrastRow, ...]
    shared: str


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


VALIDITY = {
    True: Mark(
        word="valid", icon="check", tone="good", meaning="the run measured what it set out to measure"
    ),
    False: Mark(word="invalid", icon="cross", tone="bad", meaning="kept, never pooled"),
    None: Mark(word="cannot tell", icon="query", tone="warn", meaning="what would tell was not recorded"),
}


def criterion_row(row: CriterionResult) -> CriterionRow:
    """One row of a criteria table. Fields that the reason names already are not repeated."""
    told = all(name in row.reason for name in row.fields)
    return CriterionRow(
        name=CRITERIA[row.criterion],
        mark=STATUSES[row.status],
        reason=row.reason,
        fields=() if told else row.fields,
    )


def contrast_row(contrast: Contrast, *, pooled: bool, why: str) -> ContrastRow:
    """One contrast with what became of it."""
    half = 1.959964 * contrast.se
    if round(contrast.log_ratio, 3) == 0:
        effect = "0.000"
    else:
        effect = f"{abs(contrast.log_ratio):.3f} {'better' if contrast.log_ratio > 0 else 'worse'}"
    return ContrastRow(
        metric=words(contrast.metric),
        statistic=contrast.statistic or "",
        baseline=_value(contrast.baseline, contrast.unit),
        treatment=_value(contrast.treatment, contrast.unit),
        ratio=ratio(contrast.ratio),
        interval=f"{effect}, ± {half:.3f}",
        runs=contrast.runs,
        imputed=contrast.se_imputed,
        pooled=pooled,
        why="" if pooled else in_words(why),
        flags=contrast.flags,
    )


def contrast_table(rows: Sequence[ContrastRow]) -> ContrastTable:
    """Contrasts with the reason that most of those left out share taken out of them."""
    counts = Counter(row.why for row in rows if row.why)
    shared, count = counts.most_common(1)[0] if counts else ("", 0)
    if count < 2:
        return ContrastTable(rows=tuple(rows), shared="")
    return ContrastTable(
        rows=tuple(replace(row, why="") if row.why == shared else row for row in rows), shared=shared
    )


def _value(value: float | None, unit: str) -> str:
    return "" if value is None else quantity(value, unit)


GROUPS: Final = [str(group) for group in (Group.SYSTEM, Group.WORKLOAD, Group.EVIDENCE, Group.OBSERVED)]
"""Kinds of fields, the most telling difference first."""


def config_rows(
    arms: Sequence[Arm], factor: Sequence[str]
) -> tuple[tuple[ConfigRow, ...], tuple[ConfigRow, ...]]:
    """Fields in which the arms differ, then those they share. A field that one arm leaves out differs."""
    by_role = {arm.role: arm for arm in arms}
    base, treat = by_role.get(Role.BASELINE), by_role.get(Role.TREATMENT)
    left, right = (base.config if base else {}), (treat.config if treat else {})
    differs: list[ConfigRow] = []
    same: list[ConfigRow] = []
    for name in sorted({*left, *right}):
        row = _config_row(name, left.get(name), right.get(name), name in factor)
        (same if row.baseline == row.treatment else differs).append(row)
    differs.sort(key=lambda row: (not row.factor, GROUPS.index(row.group), row.name))
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

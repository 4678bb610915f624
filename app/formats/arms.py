"""One arm from its files and declarations: files are replicates, and what is said twice must agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from app.domain.claim import Scalar
from app.domain.contrast import Arm, Attachment, Metric, Role, RunFacts
from app.domain.errors import Refused
from app.domain.metrics import canonical, spec_of
from app.domain.repeats import told_once
from app.domain.vocabulary import read_config
from app.formats.parsed import Parsed

CLOSE: Final = 0.01
"""Rates and realised lengths that agree within 1 % are the same load."""
SAME: Final = 1e-6
"""A metric declared beside its file is the same number, but for rounding."""
LOAD: Final = ("load.rate", "load.concurrency")


def assemble(
    role: Role,
    files: Sequence[Parsed],
    config: Mapping[str, Scalar],
    *,
    metrics: Sequence[Metric] = (),
    attachments: Sequence[Attachment] = (),
    paired: bool = False,
    where: str | None = None,
) -> Arm:
    """One arm from its files and from what was declared about it.

    Args:
        role: part it plays.
        files: its result files, one a replicate, in order.
        config: declared configuration, in any known spelling.
        metrics: declared metrics; must agree with the files where both tell one.
        attachments: the raw files, hashed by the caller.
        paired: whether the n-th values of both arms belong to one pair.
        where: path of the arm in the request, for messages; by default `arms[ROLE]`.

    Raises:
        Refused: files that are no replicates of each other, or declarations that contradict the files.
    """
    place = where or f"arms[{role}]"
    _refuse_same_bytes(attachments, place)
    _refuse_mixed_tools(files, place)
    told, notes = _told(files, place)
    declared = read_config(config)
    notes += [f"{name} is not in the vocabulary; it is kept as it stands." for name in declared.unknown]
    merged = _agreed(declared.config, told, place)
    measured, left_out = _replicates(files)
    return Arm(
        role=role,
        config=dict(sorted(merged.items())),
        metrics=_with_declared(measured, metrics, place),
        runs=tuple(_with_limit(file.run, merged) for file in files if file.run),
        attachments=tuple(attachments),
        notes=(*_notes(files), *notes, *left_out),
        paired=paired,
        tool=files[0].tool if files else None,
        tool_version=files[0].tool_version if files else None,
    )


def _refuse_same_bytes(attachments: Sequence[Attachment], place: str) -> None:
    seen: dict[str, str] = {}
    for index, attachment in enumerate(attachments):
        first = seen.setdefault(attachment.sha256, attachment.name)
        if index and len(seen) <= index:
            raise Refused(
                f"{attachment.name} has the same bytes as {first}: one run given twice is no replicate.",
                field=f"{place}.files[{index}]",
                value=attachment.sha256,
                remedy="Give each run once.",
                code="same-file-twice",
            )


def _refuse_mixed_tools(files: Sequence[Parsed], place: str) -> None:
    for index, file in enumerate(files):
        mine, first = _tool(file), _tool(files[0])
        if mine != first:
            raise Refused(
                f"The files of one arm come from different tools: {first} and {mine}.",
                field=f"{place}.files[{index}]",
                value=mine,
                remedy="Measure all runs of an arm with one version of one tool.",
                code="mixed-tools",
            )


def _tool(file: Parsed) -> str:
    return f"{file.tool} {file.tool_version or '(version not recorded)'}, format {file.format}"


def _told(files: Sequence[Parsed], place: str) -> tuple[dict[str, Scalar], list[str]]:
    """What the files together tell: one load, the mean of what was observed."""
    told: dict[str, Scalar] = {}
    notes: list[str] = []
    for name in dict.fromkeys(name for file in files for name in file.config):
        values = [file.config.get(name) for file in files]
        odd = _odd_one(values, absence_matters=name in LOAD)
        if odd is not None and not name.startswith("observed."):
            raise _different_load(name, values[0], values[odd], f"{place}.files[{odd}]")
        if odd is not None:
            notes.append(f"{name} differs between the files by more than 1 %: {_listed(values)}.")
        told[name] = _mean([value for value in values if value is not None])
    return told, notes


def _odd_one(values: Sequence[Scalar], *, absence_matters: bool) -> int | None:
    """Index of the first value that differs; an untold one counts only where `absence_matters`."""
    first = next((value for value in values if value is not None), None)
    for index, value in enumerate(values):
        if value is None and not absence_matters:
            continue
        if not _same(value, values[0] if absence_matters else first):
            return index
    return None


def _different_load(name: str, first: Scalar, other: Scalar, field: str) -> Refused:
    if name in LOAD:
        detail = f"These are several stages of a sweep ({name}: {_listed([first, other])}), not replicates."
        remedy = "Compare stage by stage: give the same stage of each run."
        return Refused(detail, field=field, value=other, remedy=remedy, code="several-stages")
    detail = f"The files of one arm disagree on {name}: {_listed([first, other])}."
    remedy = "Give runs of one configuration in one arm."
    return Refused(detail, field=field, value=other, remedy=remedy, code="mixed-runs")


def _listed(values: Sequence[Scalar]) -> str:
    return ", ".join("not recorded" if value is None else str(value) for value in values)


def _mean(values: Sequence[Scalar]) -> Scalar:
    if all(value == values[0] for value in values):
        return values[0]
    # Divided before it is summed, so that no sum of finite values overflows.
    return sum(value / len(values) for value in values if isinstance(value, int | float))


def _same(one: Scalar, other: Scalar) -> bool:
    if _is_number(one) and _is_number(other):
        return math.isclose(float(one or 0), float(other or 0), rel_tol=CLOSE)
    return str(one).strip().casefold() == str(other).strip().casefold()


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _agreed(declared: Mapping[str, Scalar], told: Mapping[str, Scalar], place: str) -> dict[str, Scalar]:
    for name, value in told.items():
        said = declared.get(name)
        if said is not None and not _same(said, value):
            raise Refused(
                f"{name} is declared as {said}, but the file says {value}.",
                field=f"{place}.config.{name}",
                value=said,
                remedy="Correct the declaration or give the file that belongs to it.",
                code="config-contradicts-file",
            )
    # The file is the better witness: its value stands where both agree within 1 %.
    return {**declared, **told}


def _replicates(files: Sequence[Parsed]) -> tuple[list[Metric], list[str]]:
    """Metrics that every file has, their values appended in the order of the files."""
    tables = [{metric.key: metric for metric in file.metrics} for file in files]
    merged, notes = [], []
    for key in dict.fromkeys(metric.key for file in files for metric in file.metrics):
        found = [table[key] for table in tables if key in table]
        if len(found) == len(tables):
            merged.append(_appended(found))
        else:
            # A gap would shift the n-th value away from the n-th replicate.
            label = " ".join(part for part in reversed(key) if part)
            notes.append(f"{label} is in {len(found)} of {len(tables)} files only: left out.")
    return merged, notes


def _appended(found: Sequence[Metric]) -> Metric:
    if len({metric.unit for metric in found}) == 1:
        return replace(found[0], values=tuple(value for metric in found for value in metric.values))
    name = found[0].name
    values = tuple(canonical(value, metric.unit, name) for metric in found for value in metric.values)
    return replace(found[0], unit=spec_of(name).unit, values=values)


def _with_declared(measured: list[Metric], declared: Sequence[Metric], place: str) -> tuple[Metric, ...]:
    known = {metric.key: metric for metric in measured}
    seen: set[tuple[str, str | None]] = set()
    extra = []
    for index, metric in enumerate(declared):
        field = f"{place}.metrics[{index}]"
        if metric.key in seen:
            raise Refused(
                f"{metric.name} is declared twice.",
                field=field,
                value=metric.name,
                remedy="Give all values of a metric in one entry.",
                code="metric-twice",
            )
        seen.add(metric.key)
        own = known.get(metric.key)
        if own is None and any(name == metric.name for name, _ in known):
            statistics_ = ", ".join(
                sorted(statistic or "none" for name, statistic in known if name == metric.name)
            )
            raise Refused(
                f"The files tell {metric.name} already, with statistic {statistics_}.",
                field=field,
                value=metric.statistic or "no statistic",
                remedy="Leave the metric out; it is read from the files.",
                code="metrics-disagree",
            )
        if own is None:
            extra.append(metric)
        elif not _agree(metric, own, place):
            raise Refused(
                f"{metric.name} is declared as {_values(metric)}, but the files say {_values(own)}.",
                field=field,
                value=metric.values,
                remedy="Leave the metric out; it is read from the files.",
                code="metrics-disagree",
            )
    return (*measured, *extra)


def _agree(declared: Metric, own: Metric, place: str) -> bool:
    if len(declared.values) != len(own.values):
        return False
    try:
        mine = [canonical(value, declared.unit, declared.name) for value in declared.values]
    except Refused as refusal:
        raise refusal.within(place) from refusal
    files = [canonical(value, own.unit, own.name) for value in own.values]
    return all(math.isclose(a, b, rel_tol=SAME) for a, b in zip(mine, files, strict=True))


def _values(metric: Metric) -> str:
    return f"{', '.join(f'{value:.10g}' for value in metric.values)} {metric.unit}"


def _with_limit(run: RunFacts, config: Mapping[str, Scalar]) -> RunFacts:
    """The run, with the requested output length as the most that an answer may have."""
    wanted = config.get("load.output_length")
    if run.max_tokens is None and isinstance(wanted, int | float) and not isinstance(wanted, bool):
        return replace(run, max_tokens=float(wanted))
    return run


def _notes(files: Sequence[Parsed]) -> tuple[str, ...]:
    return told_once(
        [
            (file.run.source if file.run else f"file {index}", file.notes)
            for index, file in enumerate(files, start=1)
        ]
    )

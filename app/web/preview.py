"""The context of a preview: what a result would change, from the answer that the API gives."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from app.domain.claim import Level
from app.domain.contrast import Arm, Contrast
from app.domain.criteria import CriterionResult
from app.domain.errors import Refused
from app.domain.evidence import Criterion, Status
from app.domain.route import Route
from app.domain.vocabulary import read_config
from app.formats import detect
from app.formats.native import ArmIn, FileIn, ResultIn
from app.web.contexts import PreviewContext
from app.web.forms import pack
from app.web.parts import Move, PreviewArm, Shell
from app.web.rows import (
    VALIDITY,
    ContrastRow,
    ValidityRow,
    config_rows,
    contrast_row,
    contrast_table,
    criterion_row,
)
from app.web.words import ROUTES, words


def preview_context(
    document: ResultIn, answer: Mapping[str, Any], factor: tuple[str, ...], csrf: str, shell: Shell
) -> PreviewContext:
    """The preview of a document, given the answer to its validation and the factor of its case's claim."""
    declared = [Arm(role=arm.role, config=read_config(arm.config).config) for arm in document.arms]
    differs, same = config_rows(declared, factor)
    return PreviewContext(
        shell=shell,
        csrf=csrf,
        slug=document.case,
        level=str(document.level),
        draft=pack(document),
        duplicate=answer["evidence"] if answer["duplicate"] else None,
        qualifying=answer["qualifying"],
        arms=tuple(_arm(arm) for arm in document.arms),
        factor=factor,
        differs=differs,
        same=same,
        contrasts=contrast_table([_contrast(entry) for entry in answer["contrasts"]]),
        criteria=tuple(criterion_row(_criterion(entry)) for entry in answer["criteria"]),
        validity=tuple(
            ValidityRow(arm=entry["arm"], mark=VALIDITY[entry["valid"]], reasons=tuple(entry["reasons"]))
            for entry in answer["run_validity"]
        ),
        moves=(_price(answer["price"]), *(_move(name, answer[name]) for name in ("state", "verdict"))),
        decisions=tuple((words(str(entry["verb"])), entry["reason"]) for entry in answer["decisions"]),
        alerts=tuple(
            (ROUTES[Route(entry["route"])], entry["rule"], entry["reason"]) for entry in answer["alerts"]
        ),
        notices=tuple(answer.get("notices", ())),
    )


def _price(pair: Mapping[str, float]) -> Move:
    before, after = f"{pair['before']:.2f}", f"{pair['after']:.2f}"
    return Move(name="price", before=before, after=after, same=before == after)


def _move(name: str, pair: Mapping[str, Any]) -> Move:
    before, after = str(pair["before"]), str(pair["after"])
    return Move(name=name, before=before, after=after, same=before == after)


def _arm(arm: ArmIn) -> PreviewArm:
    return PreviewArm(
        role=str(arm.role),
        files=tuple((file.name, _recognised(file)) for file in arm.files),
    )


def _recognised(file: FileIn) -> str:
    try:
        found = detect(base64.b64decode(file.content_base64, validate=True), file.name)
    except (Refused, binascii.Error):
        return file.format
    return f"{found.format}: {found.why}"


def _criterion(entry: Mapping[str, Any]) -> CriterionResult:
    return CriterionResult(
        criterion=Criterion(entry["criterion"]),
        status=Status(entry["status"]),
        reason=entry["reason"],
        fields=tuple(entry["fields"]),
    )


def _contrast(entry: Mapping[str, Any]) -> ContrastRow:
    contrast = Contrast(
        metric=entry["metric"],
        unit=entry["unit"],
        ratio=entry["ratio"],
        log_ratio=entry["log_ratio"],
        se=entry["se"],
        se_imputed=entry["se_imputed"],
        level=Level(entry["level"]),
        statistic=entry.get("statistic"),
        baseline=entry.get("baseline"),
        treatment=entry.get("treatment"),
        runs=entry.get("runs", 1),
        flags=tuple(entry.get("flags", ())),
    )
    return contrast_row(contrast, pooled=entry.get("pooled", False), why=entry.get("why", ""))

"""A posted result becomes one item of evidence with its raw files, or is refused."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.claim import Claim
from app.domain.contrast import Arm, Attachment, Metric, Role, contrasts_of
from app.domain.errors import Refused
from app.domain.evidence import Evidence, EvidenceKind
from app.domain.metrics import canonical
from app.domain.policy import Policy
from app.domain.validity import judge_runs
from app.domain.vocabulary import read_config
from app.formats import parse
from app.formats.arms import assemble
from app.formats.native import ArmIn, ResultIn
from app.services.origins import address_of, measured, not_future, published, publisher_of
from app.store.codec import digest

ATTACHMENT: Final = "attachment"
"""Format of a file that is kept and not read, such as the engine's log that shows what was in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """A raw file as handed in, to be kept by content."""

    sha256: str
    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A result ready to be judged: the evidence, the raw files, and what was noticed on the way."""

    evidence: Evidence
    files: tuple[RawFile, ...]
    notices: tuple[str, ...]


def build_result(document: ResultIn, claim: Claim, *, now: datetime, policy: Policy) -> Built:
    """A posted result as evidence on a claim.

    Raises:
        Refused: anything in it that cannot be taken, with the field's path.
    """
    _refuse_other_factor(document, claim)
    when = not_future(document.measured_at, now, "measured_at")
    arms: list[Arm] = []
    files: list[RawFile] = []
    for index, arm in enumerate(document.arms):
        if any(other.role is arm.role for other in arms):
            raise Refused(
                f"The role {arm.role} is given twice.",
                field=f"arms[{index}].role",
                value=str(arm.role),
                remedy="Give one baseline and one treatment; replicates go into one arm's values or files.",
                code="arm-twice",
            )
        built, raw = _arm(arm, f"arms[{index}]", document.format)
        arms.append(built)
        files += raw
    baseline, treatment = (_only(arms, role) for role in (Role.BASELINE, Role.TREATMENT))
    contrasts = contrasts_of(baseline, treatment, document.level, policy)
    validity = tuple(judge_runs(arm, policy) for arm in (baseline, treatment))
    unknown = sorted({name for arm in document.arms for name in read_config(arm.config).unknown})
    notices = [
        f"{name} is not in the vocabulary; kept, and treated as part of the system" for name in unknown
    ]
    notices += [f"{arm.role}: {note}" for arm in (baseline, treatment) for note in arm.notes]
    ref = result_ref(document)
    twin = measured(claim, baseline, treatment)
    address = address_of(document.source_url, "source_url")
    publisher = publisher_of(document.publisher)
    return Built(
        evidence=Evidence(
            ref=ref,
            kind=EvidenceKind.RESULT,
            root=published(address, publisher) or twin,
            address=address,
            twin=twin,
            title=document.title or _title(baseline, treatment, claim),
            publisher=publisher,
            occurred_at=when or now,
            dated=when is not None,
            url=document.source_url,
            summary=document.note,
            level=document.level,
            arms=(baseline, treatment),
            contrasts=contrasts,
            validity=validity,
            command=document.command,
        ),
        files=tuple({raw.sha256: raw for raw in files}.values()),
        notices=tuple(notices),
    )


def result_ref(document: ResultIn) -> str:
    """Content identity of a result: the same content handed in twice is one result."""
    body = document.model_dump(mode="json", exclude_none=True)
    body["arms"].sort(key=lambda arm: arm["role"])
    for arm in body["arms"]:
        for file in arm.get("files", ()):
            file["content_base64"] = hashlib.sha256(file["content_base64"].encode()).hexdigest()
    return digest(body)


def _refuse_other_factor(document: ResultIn, claim: Claim) -> None:
    if document.factor is not None and set(document.factor) != set(claim.factor):
        raise Refused(
            "The result declares another factor than the case's claim.",
            field="factor",
            value=", ".join(document.factor),
            remedy=f"This case is about {', '.join(claim.factor)}; leave `factor` out or choose another case.",
            code="other-factor",
        )


def _only(arms: Sequence[Arm], role: Role) -> Arm:
    for arm in arms:
        if arm.role is role:
            return arm
    raise Refused(
        f"There is no {role} arm.",
        field="arms",
        value=", ".join(str(arm.role) for arm in arms),
        remedy="Give one arm with role baseline and one with role treatment.",
        code=f"no-{role}",
    )


def _arm(document: ArmIn, where: str, outer_format: str) -> tuple[Arm, list[RawFile]]:
    raw = []
    parsed = []
    attachments = []
    for index, file in enumerate(document.files):
        path = f"{where}.files[{index}]"
        data = _decoded(file.content_base64, path)
        wanted = file.format if file.format != "auto" or outer_format == "assay" else outer_format
        if wanted != ATTACHMENT:
            try:
                parsed.append(parse(data, name=file.name, format=wanted))
            except Refused as error:
                raise error.within(path) from error
            wanted = parsed[-1].format
        raw.append(RawFile(sha256=hashlib.sha256(data).hexdigest(), name=file.name, data=data))
        attachments.append(Attachment(name=file.name, format=wanted, sha256=raw[-1].sha256, size=len(data)))
    metrics = [
        Metric(name=item.name, unit=item.unit, values=tuple(item.values), statistic=item.statistic)
        for item in document.metrics
    ]
    for index, metric in enumerate(metrics):
        try:
            canonical(1.0, metric.unit, metric.name)
        except Refused as error:
            # The core names the field within a metric; here it is known which metric of which arm.
            error.field = f"{where}.metrics[{index}].{error.field.rpartition('.')[2]}"
            raise
    arm = assemble(
        document.role,
        parsed,
        document.config,
        metrics=metrics,
        attachments=attachments,
        paired=document.paired,
        where=where,
    )
    return arm, raw


def _decoded(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise Refused(
            "content_base64 is not base64.",
            field=f"{path}.content_base64",
            value=text[:40],
            remedy="Encode the file's bytes with standard base64.",
            code="not-base64",
        ) from error


def _title(baseline: Arm, treatment: Arm, claim: Claim) -> str:
    def name(arm: Arm) -> str:
        shown = [str(arm.config[field]) for field in claim.factor if arm.config.get(field) is not None]
        return " ".join(shown) or str(arm.role)

    tool = f" by {treatment.tool}" if treatment.tool else ""
    return f"{name(treatment)} against {name(baseline)}{tool}"[:300]

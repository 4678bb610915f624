"""From documents to domain values: a posted result or source becomes one item of evidence, or is refused."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from app.domain.case import Grounding
from app.domain.claim import Claim, ClaimedEffect
from app.domain.contrast import Arm, Attachment, Contrast, Metric, Role, contrasts_of, reported_contrast
from app.domain.errors import Refused
from app.domain.evidence import Criterion, Evidence, EvidenceKind, Finding, Publisher, Relation, Status
from app.domain.metrics import canonical, spec_of
from app.domain.policy import Policy
from app.domain.scalars import folded
from app.domain.validity import judge_runs
from app.domain.vocabulary import read_config
from app.formats import parse
from app.formats.arms import assemble
from app.formats.case_file import ClaimIn, GroundingIn
from app.formats.native import ArmIn, EvidenceIn, PublisherIn, ResultIn
from app.store.codec import digest

CLOCK_SKEW: Final = timedelta(minutes=10)

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


def build_claim(document: ClaimIn) -> Claim:
    """A claim from its document.

    Raises:
        Refused: a metric or unit is unknown, or low is above high.
    """
    spec_of(document.metric)
    effects = []
    for index, effect in enumerate(document.effects):
        if effect.low > effect.high:
            raise Refused(
                "low is above high.",
                field=f"claim.effects[{index}].low",
                value=effect.low,
                remedy="Swap them.",
                code="range-reversed",
            )
        spec_of(effect.metric)
        effects.append(ClaimedEffect(**effect.model_dump()))
    return Claim(
        sentence=document.sentence,
        factor=tuple(document.factor),
        metric=document.metric,
        settles_at=document.settles_at,
        delta=document.delta,
        horizon=timedelta(hours=document.horizon_hours),
        claimants=tuple(document.claimants),
        effects=tuple(effects),
        workload=read_config(document.workload).config,
        note=document.note,
    )


def build_grounding(document: GroundingIn | None) -> Grounding | None:
    """Grounding from its document."""
    if document is None:
        return None
    return Grounding(
        stance=document.stance,
        strength=document.strength,
        summary=document.summary,
        concepts=tuple(document.concepts),
        queries=tuple(document.queries),
    )


def build_source(
    document: EvidenceIn,
    *,
    now: datetime,
    policy: Policy,
    root: str | None,
    audits: str | None,
    inherited: Publisher | None,
) -> Evidence:
    """A source, echo or audit.

    Args:
        root: root of the item that it echoes.
        audits: root of the item that it audits.
        inherited: the echoed root's publisher, whose figures an echo repeats.
    """
    _refuse_loose(document, "echo", "echo_of", root)
    _refuse_loose(document, "audit", "audits", audits)
    when = _not_future(document.published_at, now, "published_at")
    arms = tuple(Arm(role=arm.role, config=read_config(arm.config).config) for arm in document.arms)
    if len({arm.role for arm in arms}) != len(arms):
        raise Refused(
            "Each role may be given once.",
            field="arms",
            value=[str(arm.role) for arm in arms],
            remedy="Give one baseline and one treatment.",
            code="arm-twice",
        )
    if document.reported and document.level is None:
        raise Refused(
            "A reported effect needs the level at which it was measured.",
            field="level",
            remedy="Give kernel, model, serving or economics.",
            code="level-missing",
        )
    ref = digest(document.model_dump(mode="json", exclude={"key"}, exclude_none=True))
    address = _address(document.url, "url")
    publisher = inherited if root else _publisher(document.publisher)
    return Evidence(
        ref=ref,
        kind=EvidenceKind(document.kind),
        root=root or _published(address, publisher) or ref,
        address=address,
        title=document.title,
        publisher=publisher,
        occurred_at=when or now,
        dated=when is not None,
        url=document.url,
        quote=document.quote,
        summary=document.summary,
        level=document.level,
        arms=arms,
        contrasts=_reported(document, policy),
        findings=tuple(
            Finding(
                criterion=Criterion(item.criterion),
                status=Status(item.status),
                reason=item.reason,
                lines=tuple(item.lines),
            )
            for item in document.findings
        ),
        audits=audits,
        canonical_anchor=document.canonical_anchor,
    )


def _refuse_loose(document: EvidenceIn, kind: str, field: str, named: str | None) -> None:
    if (document.kind == kind) != (named is not None):
        raise Refused(
            f"An item of kind {kind}, and no other, names another item in {field}.",
            field=field,
            value=getattr(document, field),
            remedy=f"Give kind {kind} together with {field}.",
            code=f"loose-{kind}",
        )


def _reported(document: EvidenceIn, policy: Policy) -> tuple[Contrast, ...]:
    found = []
    for index, item in enumerate(document.reported):
        assert document.level is not None
        try:
            found.append(
                reported_contrast(
                    metric=item.metric, low=item.low, high=item.high, level=document.level, policy=policy
                )
            )
        except Refused as error:
            raise error.within(f"reported[{index}]") from error
    return tuple(found)


def build_result(document: ResultIn, claim: Claim, *, now: datetime, policy: Policy) -> Built:
    """A posted result as evidence on a claim.

    Raises:
        Refused: anything in it that cannot be taken, with the field's path.
    """
    _refuse_other_factor(document, claim)
    when = _not_future(document.measured_at, now, "measured_at")
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
    twin = _measured(claim, baseline, treatment)
    address = _address(document.source_url, "source_url")
    publisher = _publisher(document.publisher)
    return Built(
        evidence=Evidence(
            ref=ref,
            kind=EvidenceKind.RESULT,
            root=_published(address, publisher) or twin,
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


def _not_future(when: datetime | None, now: datetime, field: str) -> datetime | None:
    """The time in UTC: reasons tell it so, whatever zone it was handed in with."""
    if when is not None and when > now + CLOCK_SKEW:
        raise Refused(
            f"{field} lies in the future.",
            field=field,
            value=when.isoformat(),
            remedy=f"It is {now.isoformat()} here; give the time at which it happened.",
            code="in-the-future",
        )
    return when and when.astimezone(UTC)


def _publisher(document: PublisherIn | None) -> Publisher | None:
    if document is None:
        return None
    return Publisher(
        name=document.name,
        url=_checked(document.url, "publisher.url"),
        relation=Relation(document.relation) if document.relation else None,
    )


def _checked(url: str | None, field: str) -> str | None:
    _address(url, field)
    return url


def _address(url: str | None, field: str) -> str | None:
    """An address as an identity: scheme, port, `www.`, user, fragment, tracking parameters, escapes and slashes do not
    make another page.

    Raises:
        Refused: it cannot be taken apart.
    """
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".").removeprefix("www.")
    except ValueError as error:
        raise Refused(
            f"This is no web address: {error}.",
            field=field,
            value=url,
            remedy="Give the address as a browser shows it.",
            code="bad-url",
        ) from error
    path = "/".join(part for part in unquote(parts.path).split("/") if part)
    query = "&".join(sorted(q for q in parts.query.split("&") if q and not q.startswith(TRACKING)))
    address = f"{host}/{path}{'?' if query else ''}{query}"
    return address if len(address) <= 200 and address.isprintable() else digest(address)


TRACKING: Final = ("utm_", "fbclid=", "gclid=")


def _published(address: str | None, publisher: Publisher | None) -> str | None:
    """One publication: an address together with who stands for it, so that nobody takes another's place by naming
    their page."""
    return (
        f"{address} {'' if publisher is None else folded(publisher.name)[:90]}".strip() if address else None
    )


def _measured(claim: Claim, *arms: Arm) -> str:
    """Identity of what was measured: the numbers on the claim's metric, or all of them where that is not among them.
    The same under other words, in another order or file, or with more metrics beside them, is one measurement."""
    return digest([_numbers(arm, claim.metric) or _numbers(arm, None) for arm in arms])


def _numbers(arm: Arm, only: str | None) -> list[list[Any]]:
    return sorted(
        [
            metric.name,
            metric.statistic or "",
            sorted(f"{canonical(value, metric.unit, metric.name):.9g}" for value in metric.values),
        ]
        for metric in arm.metrics
        if only in (None, metric.name)
    )


def _title(baseline: Arm, treatment: Arm, claim: Claim) -> str:
    def name(arm: Arm) -> str:
        shown = [str(arm.config[field]) for field in claim.factor if arm.config.get(field) is not None]
        return " ".join(shown) or str(arm.role)

    tool = f" by {treatment.tool}" if treatment.tool else ""
    return f"{name(treatment)} against {name(baseline)}{tool}"[:300]

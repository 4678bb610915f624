"""From documents to domain values: claims, grounding, and what somebody published about a claim."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.domain.case import Grounding
from app.domain.claim import Claim, ClaimedEffect
from app.domain.contrast import Arm, Contrast, reported_contrast
from app.domain.errors import Refused
from app.domain.evidence import Criterion, Evidence, EvidenceKind, Finding, Publisher, Status
from app.domain.metrics import spec_of
from app.domain.policy import Policy
from app.domain.vocabulary import read_config
from app.formats.case_file import ClaimIn, GroundingIn
from app.formats.native import EvidenceIn
from app.services.origins import address_of, not_future, published, publisher_of
from app.store.codec import digest


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
    when = not_future(document.published_at, now, "published_at")
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
    address = address_of(document.url, "url")
    publisher = inherited if root else publisher_of(document.publisher)
    return Evidence(
        ref=ref,
        kind=EvidenceKind(document.kind),
        root=root or published(address, publisher) or ref,
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

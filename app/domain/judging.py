"""Judging a case anew: its evidence one after the other, then price, uncertainty and verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.domain.assess import Assessment, assess, synthesize
from app.domain.case import AuditEntry, Case
from app.domain.claim import Claim
from app.domain.criteria import assess_criteria
from app.domain.effects import Share
from app.domain.evidence import Criterion, Evidence, Finding, Publisher, Status
from app.domain.policy import Policy
from app.domain.scalars import folded
from app.domain.synthesis import Posterior
from app.domain.verdict import Ruling, Uncertainty, rule, uncertainty_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A case judged on a set of assessments."""

    posterior: Posterior
    uncertainty: Uncertainty
    ruling: Ruling


def judge(assessments: tuple[Assessment, ...], case: Case, policy: Policy) -> Judged:
    belief = synthesize(assessments, case.claim, policy)
    return Judged(
        posterior=belief,
        uncertainty=uncertainty_of(belief, case.claim.delta),
        ruling=rule(belief.price, assessments, case.verdict, policy),
    )


def assess_again(
    items: tuple[tuple[int, Evidence], ...], case: Case, audits: tuple[AuditEntry, ...], policy: Policy
) -> tuple[Assessment, ...]:
    return assess_all(items, case.assessments, case.claim, audits, case.share, policy)


def assess_all(
    items: tuple[tuple[int, Evidence], ...],
    known: tuple[Assessment, ...],
    claim: Claim,
    audits: tuple[AuditEntry, ...],
    share: Share,
    policy: Policy,
) -> tuple[Assessment, ...]:
    """Judge items one after the other, each beside those before it."""
    done: tuple[Assessment, ...] = ()
    for number, item in items:
        kin = replaced(known, done)
        done += (assess(item, number, claim, _findings_on(audits, item), share, policy, kin=kin),)
    return done


def replaced(old: tuple[Assessment, ...], new: tuple[Assessment, ...]) -> tuple[Assessment, ...]:
    fresh = {item.number: item for item in new}
    kept = tuple(fresh.pop(item.number, item) for item in old)
    return (*kept, *fresh.values())


def audits_of(number: int, evidence: Evidence, claim: Claim, policy: Policy) -> tuple[AuditEntry, ...]:
    """What an item finds as an audit. An audit that is not shown to be independent may lower, never raise."""
    if evidence.audits is None or not evidence.findings:
        return ()
    rows = {row.criterion: row.status for row in assess_criteria(evidence, claim, policy)}
    trusted = rows[Criterion.INDEPENDENT] is Status.MET
    findings = tuple(item for item in evidence.findings if trusted or item.status is not Status.MET)
    publisher = evidence.publisher.name if evidence.publisher else None
    return (AuditEntry(number=number, root=evidence.audits, publisher=publisher, findings=findings),)


def _findings_on(audits: tuple[AuditEntry, ...], item: Evidence) -> tuple[Finding, ...]:
    """Findings on one item, the latest audit's first. Nobody raises a criterion of their own result."""
    return tuple(
        finding
        for entry in reversed(audits)
        if entry.root == item.root
        for finding in entry.findings
        if finding.status is not Status.MET or not _same_house(entry.publisher, item.publisher)
    )


def _same_house(name: str | None, publisher: Publisher | None) -> bool:
    return name is None or publisher is None or folded(name) == folded(publisher.name)


def rejudged(after: Case, before: Case, policy: Policy) -> tuple[Case, Judged]:
    judged = judge(after.assessments, before, policy)
    return (
        replace(
            after,
            price=judged.posterior.price,
            uncertainty=judged.uncertainty,
            verdict=judged.ruling.verdict,
        ),
        judged,
    )

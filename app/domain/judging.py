"""Judging a case anew: its evidence one after the other, then price, uncertainty and verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.domain.assess import Assessment, assess, synthesize
from app.domain.case import AuditEntry, Barred, Case
from app.domain.claim import Claim
from app.domain.criteria import independence, same_house
from app.domain.evidence import Criterion, Evidence, EvidenceKind, Finding, Status
from app.domain.policy import Policy
from app.domain.synthesis import Posterior
from app.domain.verdict import Ruling, Uncertainty, rule, uncertainty_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A case judged on a set of assessments."""

    posterior: Posterior
    uncertainty: Uncertainty
    ruling: Ruling


def judge(assessments: tuple[Assessment, ...], case: Case, policy: Policy) -> Judged:
    """Price, uncertainty and verdict on these assessments."""
    belief = synthesize(assessments, case.claim, policy)
    qualifying = tuple(item for item in assessments if item.qualifying)
    alone = synthesize(qualifying, case.claim, policy).price
    return Judged(
        posterior=belief,
        uncertainty=uncertainty_of(belief, case.claim.delta),
        ruling=rule(belief.price, alone, assessments, case.verdict, policy),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What items of one case are judged by."""

    claim: Claim
    policy: Policy
    audits: tuple[AuditEntry, ...] = ()
    barred: tuple[Barred, ...] = ()


Numbered = tuple[tuple[int, Evidence], ...]


def assess_all(items: Numbered, known: tuple[Assessment, ...], bench: Bench) -> tuple[Assessment, ...]:
    """Judge items beside what is known, whatever their order."""
    afresh = {number for number, _ in items}
    ties = [
        (item.number, identities(item))
        for item in known
        if item.number not in afresh and item.status(Criterion.INDEPENDENT) is Status.UNMET
    ]
    ties += [
        (number, identities(item))
        for number, item in items
        if independence(item, bench.claim, bench.policy) is Status.UNMET
    ]
    return tuple(
        assess(
            item,
            number,
            bench.claim,
            _findings_on(bench.audits, item),
            bench.policy,
            tied_to=min((n for n, names in ties if n != number and names & identities(item)), default=None),
            barred=next((b.reason for b in bench.barred if b.identity in (item.root, item.twin)), None),
        )
        for number, item in items
    )


def identities(item: Evidence | Assessment) -> frozenset[str]:
    """What says that two items go back to one source: root, address, measurement."""
    return frozenset(name for name in (item.root, item.address, item.twin) if name)


def replaced(old: tuple[Assessment, ...], new: tuple[Assessment, ...]) -> tuple[Assessment, ...]:
    """Assessments with newer ones in their places."""
    fresh = {item.number: item for item in new}
    kept = tuple(fresh.pop(item.number, item) for item in old)
    return (*kept, *fresh.values())


def changed(old: tuple[Assessment, ...], new: tuple[Assessment, ...]) -> tuple[Assessment, ...]:
    """Those that say something new."""
    before = {item.number: item for item in old}
    return tuple(item for item in new if before.get(item.number) != item)


def audits_of(number: int, evidence: Evidence, claim: Claim, policy: Policy) -> tuple[AuditEntry, ...]:
    """What an item finds as an audit. One that is not shown to be independent is kept and shown, and changes nothing:
    otherwise anybody could silence a result by words."""
    if evidence.audits is None or evidence.publisher is None:
        return ()
    if independence(evidence, claim, policy) is not Status.MET:
        return ()
    return (
        AuditEntry(
            number=number,
            root=evidence.audits,
            publisher=evidence.publisher.name,
            findings=evidence.findings,
        ),
    )


def barred_by(evidence: Evidence, reason: str) -> tuple[Barred, ...]:
    """What a withdrawal keeps out for good: a measurement, or a source with its echoes."""
    if evidence.twin is not None:
        return (Barred(identity=evidence.twin, reason=reason),)
    return (Barred(identity=evidence.root, reason=reason),) if evidence.kind is EvidenceKind.SOURCE else ()


def _findings_on(audits: tuple[AuditEntry, ...], item: Evidence) -> tuple[Finding, ...]:
    """Findings on one item, the latest audit's first. Nobody raises a criterion of their own result."""
    return tuple(
        finding
        for entry in reversed(audits)
        if entry.root in (item.root, item.twin)
        for finding in entry.findings
        if finding.status is not Status.MET
        or not (item.publisher and same_house(entry.publisher, item.publisher.name))
    )


def rejudged(after: Case, before: Case, policy: Policy) -> tuple[Case, Judged]:
    """A case with new assessments, judged; its verdict depends on the one before."""
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

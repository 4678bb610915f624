"""The eight criteria of end-to-end validation, each met, unmet or unknown, with its reason and its fields."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from app.domain.claim import Claim
from app.domain.contrast import Arm, Role
from app.domain.criterion import CriterionResult, Facts, result, value_of
from app.domain.evidence import Criterion, Evidence, Publisher, Relation, Status
from app.domain.match import factor_isolated, workload_matched
from app.domain.metrics import canonical
from app.domain.policy import Policy
from app.domain.scalars import folded, number, same
from app.domain.soundness import measured_soundly, quantization_counted, reproducible

__all__ = ["RULES", "CriterionResult", "assess_criteria"]

Rule = Callable[[Facts], CriterionResult]


def assess_criteria(evidence: Evidence, claim: Claim, policy: Policy) -> tuple[CriterionResult, ...]:
    """Judge one item of evidence against a claim, one row a criterion, always all eight in order."""
    facts = _facts(evidence, claim, policy)
    return tuple(RULES[criterion](facts) for criterion in Criterion)


def independence(evidence: Evidence, claim: Claim, policy: Policy) -> Status:
    """The first criterion alone: it decides what else an item may speak for."""
    return _independent(_facts(evidence, claim, policy)).status


def _facts(evidence: Evidence, claim: Claim, policy: Policy) -> Facts:
    arms = {arm.role: arm for arm in evidence.arms}
    return Facts(
        evidence=evidence,
        claim=claim,
        policy=policy,
        baseline=arms.get(Role.BASELINE),
        treatment=arms.get(Role.TREATMENT),
    )


RELATIONS: Final[Mapping[Relation, str]] = {
    Relation.CLAIMANT: "the claimant",
    Relation.PAID: "paid by the claimant",
    Relation.DERIVED: "repeating the claimant's own figures",
}


def _independent(facts: Facts) -> CriterionResult:
    def say(status: Status, reason: str) -> CriterionResult:
        return result(Criterion.INDEPENDENT, status, reason, ("publisher.name", "publisher.relation"))

    publisher, claimants = facts.evidence.publisher, facts.claim.claimants
    if publisher is None:
        return say(Status.UNKNOWN, "the publisher is not stated")
    if publisher.relation is not None and publisher.relation in RELATIONS:
        return say(Status.UNMET, f"{publisher.name} is {RELATIONS[publisher.relation]}")
    name = _words(publisher.name)
    if not name or _mixed_scripts(publisher.name):
        return say(
            Status.UNKNOWN, f"{publisher.name!r} is not a name that can be compared with the claimant's"
        )
    if any(same_house(publisher.name, claimant) for claimant in claimants):
        return say(Status.UNMET, f"{publisher.name} makes the claim itself")
    kin = next((claimant for claimant in claimants if _bears(publisher, _words(claimant))), None)
    if kin is not None:
        return say(
            Status.UNKNOWN, f"{publisher.name} bears the name of {kin}: whether it stands apart is not shown"
        )
    if publisher.relation is Relation.INDEPENDENT:
        return say(Status.MET, f"{publisher.name} declares no tie to the claimant")
    if not claimants:
        return say(Status.UNKNOWN, "the claim names no claimant, and the publisher declares no independence")
    return say(Status.MET, f"{publisher.name} is not the claimant and no tie is known")


LEGAL_FORMS: Final = frozenset(
    ("ag", "bv", "co", "company", "corp", "corporation", "gmbh", "inc", "limited", "llc", "ltd", "plc", "sa")
)


def _words(name: str) -> tuple[str, ...]:
    """Words of a name, without marks, accents and legal form: "NVIDIA Corp." is "nvidia"."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", folded(name)) if not unicodedata.combining(c))
    words = "".join(c if c.isalnum() else " " for c in plain).split()
    return tuple(w for w in words if w not in LEGAL_FORMS) or tuple(words)


def same_house(one: str, other: str) -> bool:
    """Whether two names are one publisher's, however they are spelled."""
    return "".join(_words(one)) == "".join(_words(other))


def _mixed_scripts(name: str) -> bool:
    """Whether letters of lookalike alphabets stand in one name."""
    scripts = {unicodedata.name(c, "?").split()[0] for c in name if c.isalpha()}
    return len(scripts & {"LATIN", "CYRILLIC", "GREEK"}) > 1


def _bears(publisher: Publisher, claimant: tuple[str, ...]) -> bool:
    """Whether a publisher's name holds the claimant's or is part of it, or its address is the claimant's."""
    name = _words(publisher.name)
    hosts = (urlsplit(publisher.url or "").hostname or "").split(".")[:-1]
    return _within(claimant, name) or _within(name, claimant) or "".join(claimant) in hosts


def _within(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    return bool(part) and any(whole[i : i + len(part)] == part for i in range(len(whole)))


def _end_to_end(facts: Facts) -> CriterionResult:
    level, wanted = facts.evidence.level, facts.claim.settles_at
    if level is None:
        return result(Criterion.END_TO_END, Status.UNKNOWN, "nothing was measured", ("level",))
    if level.rank >= wanted.rank:
        return result(Criterion.END_TO_END, Status.MET, f"measured at {level} level", ("level",))
    return result(
        Criterion.END_TO_END,
        Status.UNMET,
        f"measured at {level} level; the claim settles at {wanted}",
        ("level",),
    )


def _quality_retained(facts: Facts) -> CriterionResult:
    def say(status: Status, reason: str, *fields: str) -> CriterionResult:
        return result(Criterion.QUALITY_RETAINED, status, reason, fields or ("accuracy", "perplexity"))

    arms = facts.arms
    if arms is None:
        return say(Status.UNKNOWN, "no quality metric is reported")
    tasks = [value_of(arm, "quality.task") for arm in arms]
    if None not in tasks and not same(tasks[0], tasks[1]):
        words = f"quality was measured on different tasks: {tasks[0]}, {tasks[1]}"
        return say(Status.UNMET, words, "quality.task")
    found = [*_quality(arms, "accuracy", facts.policy), *_quality(arms, "perplexity", facts.policy)]
    if not found:
        return say(Status.UNKNOWN, "no quality metric is reported for both arms")
    if None in tasks:
        found.append((Status.UNKNOWN, "the task is not stated for both arms"))
    items = [number(value_of(arm, "quality.items")) for arm in arms]
    needed = 1 / max(facts.policy.accuracy_tolerance, 1e-6)
    if any(n is not None and n < needed * (1 - 1e-9) for n in items):
        few = f"quality was measured on fewer than {needed:.0f} items, too few to see such a loss"
        found.append((Status.UNKNOWN, few))
    worst = min((status for status, _ in found), key=(Status.UNMET, Status.UNKNOWN, Status.MET).index)
    return say(worst, "; ".join(words for _, words in found))


def _quality(arms: tuple[Arm, Arm], name: str, policy: Policy) -> list[tuple[Status, str]]:
    """A judgement for each statistic of a quality metric that both arms report: the worst of them counts."""
    base, treat = (_means(arm, name) for arm in arms)
    judge = _accuracy if name == "accuracy" else _perplexity
    return [judge(base[key], treat[key], policy) for key in base if key in treat]


def _accuracy(base: float, treat: float, policy: Policy) -> tuple[Status, str]:
    loss, limit = base - treat, policy.accuracy_tolerance
    words = f"accuracy {base:.4g} → {treat:.4g}, a loss of {loss:.4g} against a tolerance of {limit:g}"
    if max(base, treat) > 1:
        return Status.UNKNOWN, f"accuracy {base:.4g} → {treat:.4g} is no share: give it in 1 or in percent"
    if base <= limit:
        return Status.UNKNOWN, f"{words}: the baseline has nothing to lose"
    return (Status.MET if loss <= limit + 1e-12 else Status.UNMET), words


def _perplexity(base: float, treat: float, policy: Policy) -> tuple[Status, str]:
    loss, limit = treat / base - 1, policy.perplexity_tolerance
    words = f"perplexity {base:.4g} → {treat:.4g}, {loss:+.2%} against a tolerance of {limit:.0%}"
    if min(base, treat) < 1:
        return Status.UNKNOWN, f"perplexity {base:.4g} → {treat:.4g}: none lies below 1"
    return (Status.MET if loss <= limit + 1e-12 else Status.UNMET), words


def _means(arm: Arm, name: str) -> dict[str | None, float]:
    means = {}
    for metric in (m for m in arm.metrics if m.name == name):
        values = [canonical(v, metric.unit, metric.name) for v in metric.values]
        if values and all(math.isfinite(v) and v > 0 for v in values):
            means[metric.statistic] = math.fsum(values) / len(values)
    return means


RULES: Final[Mapping[Criterion, Rule]] = {
    Criterion.INDEPENDENT: _independent,
    Criterion.END_TO_END: _end_to_end,
    Criterion.WORKLOAD_MATCHED: workload_matched,
    Criterion.FACTOR_ISOLATED: factor_isolated,
    Criterion.QUALITY_RETAINED: _quality_retained,
    Criterion.QUANTIZATION_COUNTED: quantization_counted,
    Criterion.MEASURED_SOUNDLY: measured_soundly,
    Criterion.REPRODUCIBLE: reproducible,
}

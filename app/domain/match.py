"""Do the arms differ in the claim's factor and in nothing else? The two criteria that decide on pooling."""

from __future__ import annotations

from app.domain.claim import Claim, Level, Scalar
from app.domain.contrast import Arm
from app.domain.criterion import CriterionResult, Facts, result, value_of
from app.domain.evidence import Criterion, Status
from app.domain.policy import Policy
from app.domain.scalars import number, same, same_format
from app.domain.vocabulary import EFFECTIVE, Group, group_of, required_fields

Arms = tuple[Arm, Arm]

LENGTHS = ("observed.input_length", "observed.output_length")
HIT_RATE = "observed.prefix_hit_rate"
CACHING = "engine.prefix_caching"


def workload_matched(facts: Facts) -> CriterionResult:
    """Both arms were asked for the same, by the same means, and for what the claim names."""
    arms = facts.arms
    if arms is None:
        return result(Criterion.WORKLOAD_MATCHED, Status.UNKNOWN, "the arms are not described")
    policy, factor = facts.policy, facts.claim.factor
    asked = [n for n in _names(arms) if group_of(n) is Group.WORKLOAD and n not in factor]
    differing = [n for n in (*asked, *LENGTHS) if _differs(n, arms, policy)]
    if CACHING not in factor and _hits_differ(arms, policy):
        differing.append(HIT_RATE)
    off_claim = [n for n, v in _named(facts.claim).items() if any(_off(n, arm, v, policy) for arm in arms)]
    if differing or off_claim:
        parts = [f"the arms differ in {_values(n, arms)}" for n in differing]
        parts += [f"{n} is not the claim's ({facts.claim.workload[n]})" for n in off_claim]
        fields = tuple(dict.fromkeys((*differing, *off_claim)))
        return result(Criterion.WORKLOAD_MATCHED, Status.UNMET, "; ".join(parts), fields)
    return _workload_gaps(arms, facts.evidence.level or facts.claim.settles_at, facts.claim)


def _workload_gaps(arms: Arms, level: Level, claim: Claim) -> CriterionResult:
    wanted = tuple(dict.fromkeys((*required_fields(level), *_named(claim))))
    missing = tuple(n for n in wanted if None in _pair(n, arms))
    if level.rank >= Level.SERVING.rank and all(
        None in _pair(n, arms) for n in ("load.rate", "load.concurrency")
    ):
        missing = (*missing, "load.rate or load.concurrency")
    if missing:
        reason = f"not stated for both arms: {', '.join(missing)}"
        return result(Criterion.WORKLOAD_MATCHED, Status.UNKNOWN, reason, missing)
    reason = f"both arms agree in {', '.join(wanted)}"
    return result(Criterion.WORKLOAD_MATCHED, Status.MET, reason, wanted)


def _named(claim: Claim) -> dict[str, Scalar]:
    """What the claim says of the workload. Its factor cannot be the same in both arms, so it is left out."""
    return {n: v for n, v in claim.workload.items() if v is not None and n not in claim.factor}


def _off(name: str, arm: Arm, wanted: Scalar, policy: Policy) -> bool:
    value = value_of(arm, name)
    return value is not None and not _same(name, value, wanted, policy)


def _hits_differ(arms: Arms, policy: Policy) -> bool:
    """A warm prefix cache in one arm only makes it faster without any merit of the factor."""
    left, right = (number(value) for value in _pair(HIT_RATE, arms))
    return left is not None and right is not None and abs(left - right) > policy.prefix_hit_tolerance + 1e-9


def factor_isolated(facts: Facts) -> CriterionResult:
    """The set of fields in which the arms differ is exactly the claim's factor."""
    arms, factor = facts.arms, facts.claim.factor
    if arms is None:
        return result(Criterion.FACTOR_ISOLATED, Status.UNKNOWN, "the arms are not described", factor)
    names = [n for n in _names(arms) if group_of(n) is Group.SYSTEM]
    differing = [n for n in names if _differs(n, arms, facts.policy)]
    others = tuple(n for n in differing if n not in factor)
    others += tuple(EFFECTIVE[n] for n in _fallen_apart(arms, factor) if n not in others)
    unchanged = tuple(n for n in factor if _equal(n, arms, facts.policy))
    replaced = _replaced(arms, factor)
    if others:
        also = "also differ" if set(differing) & set(factor) else "differ"
        reason = f"the arms {also} in {', '.join(others)}"
        if not set(differing) & set(factor):
            reason += f", not in the claim's factor {', '.join(factor)}"
        return result(Criterion.FACTOR_ISOLATED, Status.UNMET, reason, others)
    if unchanged:
        reason = f"both arms have the same {', '.join(unchanged)}"
        return result(Criterion.FACTOR_ISOLATED, Status.UNMET, reason, unchanged)
    if replaced:
        return result(Criterion.FACTOR_ISOLATED, Status.UNMET, "; ".join(replaced), factor)
    return _factor_gaps(arms, factor, names)


def _factor_gaps(arms: Arms, factor: tuple[str, ...], names: list[str]) -> CriterionResult:
    unstated = tuple(n for n in factor if None in _pair(n, arms))
    if unstated or not factor:
        reason = f"{', '.join(unstated) or 'the factor'} is not stated for both arms"
        return result(Criterion.FACTOR_ISOLATED, Status.UNKNOWN, reason, unstated)
    unverified = tuple(n for n in factor if n in EFFECTIVE and None in _pair(EFFECTIVE[n], arms))
    one_sided = tuple(n for n in names if n not in factor and _one_sided(n, arms))
    parts = []
    if unverified:
        parts.append(
            f"effective {', '.join(unverified)} unverified: no log or metric shows what was in force"
        )
    if one_sided:
        parts.append(f"stated for one arm only: {', '.join(one_sided)}")
    if parts:
        fields = (*(EFFECTIVE[n] for n in unverified), *one_sided)
        return result(Criterion.FACTOR_ISOLATED, Status.UNKNOWN, "; ".join(parts), fields)
    reason = f"the arms differ in {', '.join(factor)} alone"
    return result(Criterion.FACTOR_ISOLATED, Status.MET, reason, factor)


def _replaced(arms: Arms, factor: tuple[str, ...]) -> list[str]:
    """Where the engine silently put another value in force than the declared one, or the same in both
    arms."""
    found = []
    for name in (n for n in factor if n in EFFECTIVE):
        for arm in arms:
            declared, seen = value_of(arm, name), value_of(arm, EFFECTIVE[name])
            if declared is not None and seen is not None and not _alike(name, declared, seen):
                found.append(f"{arm.role} declares {name} {declared} but {seen} was in force")
        left, right = _pair(EFFECTIVE[name], arms)
        if not found and left is not None and right is not None and _alike(name, left, right):
            found.append(f"the same {name}, {left}, was in force in both arms")
    return found


def _fallen_apart(arms: Arms, factor: tuple[str, ...]) -> list[str]:
    """Fields beside the factor that were seen in force with different values, whatever was declared.

    Another number format brings another kernel with it, so that the kernel is part of such a factor.
    """
    formats = any(name.endswith(".format") for name in factor)
    return [
        name
        for name, seen in EFFECTIVE.items()
        if name not in factor
        and not (formats and name == "gemm.kernel")
        and _apart(name, _in_force(arms[0], name, seen), _in_force(arms[1], name, seen))
        and any(value_of(arm, seen) is not None for arm in arms)
        and not _apart(name, *_pair(name, arms))
    ]


def _in_force(arm: Arm, name: str, seen: str) -> Scalar:
    observed = value_of(arm, seen)
    return value_of(arm, name) if observed is None else observed


def _apart(name: str, left: Scalar, right: Scalar) -> bool:
    return left is not None and right is not None and not _alike(name, left, right)


def _names(arms: Arms) -> list[str]:
    return sorted({*arms[0].config, *arms[1].config})


def _pair(name: str, arms: Arms) -> tuple[Scalar, Scalar]:
    return value_of(arms[0], name), value_of(arms[1], name)


def _one_sided(name: str, arms: Arms) -> bool:
    left, right = _pair(name, arms)
    return (left is None) is not (right is None)


def _equal(name: str, arms: Arms, policy: Policy) -> bool:
    left, right = _pair(name, arms)
    return left is not None and right is not None and _same(name, left, right, policy)


def _differs(name: str, arms: Arms, policy: Policy) -> bool:
    left, right = _pair(name, arms)
    return left is not None and right is not None and not _same(name, left, right, policy)


def _same(name: str, left: Scalar, right: Scalar, policy: Policy) -> bool:
    if name == "load.rate":
        return same(left, right, policy.rate_tolerance)
    if name in LENGTHS:
        return same(left, right, policy.length_tolerance)
    return _alike(name, left, right)


def _alike(name: str, left: Scalar, right: Scalar) -> bool:
    return same_format(left, right) if name.endswith((".format", "_format")) else same(left, right)


def _values(name: str, arms: Arms) -> str:
    left, right = _pair(name, arms)
    return f"{name} ({left} against {right})"

"""Uncertainty and verdict, the latter with hysteresis so that it cannot flap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.assess import Assessment, select
from app.domain.policy import Policy
from app.domain.synthesis import Posterior


class Uncertainty(StrEnum):
    """How wide the posterior is, measured against the claim's threshold."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Verdict(StrEnum):
    """Whether the claim holds at its settling level, as far as qualifying evidence says."""

    OPEN = "open"
    SUPPORTED = "supported"
    REFUTED = "refuted"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A verdict with its reason."""

    verdict: Verdict
    reason: str


def uncertainty_of(posterior: Posterior, delta: float) -> Uncertainty:
    """`high` while the 95 % interval spans both 0 and 2·ln(1+δ); `low` once its half-width is under
    ln(1+δ)/2."""
    threshold = math.log1p(delta)
    if posterior.low < 0 and posterior.high > 2 * threshold:
        return Uncertainty.HIGH
    if (posterior.high - posterior.low) / 2 < threshold / 2:
        return Uncertainty.LOW
    return Uncertainty.MEDIUM


def rule(
    price: float, alone: float, assessments: Sequence[Assessment], previous: Verdict, policy: Policy
) -> Ruling:
    """The verdict. Only qualifying results move it; inside the hysteresis band it stays what it was.

    Args:
        price: over all that is pooled.
        alone: over the qualifying results alone: what others say must not turn what was shown end to end.
    """
    qualifying = [item for item in assessments if item.qualifying]
    if not qualifying:
        return Ruling(verdict=Verdict.OPEN, reason="no result meets every criterion")
    if _disagree(qualifying, policy):
        return Ruling(
            verdict=Verdict.MIXED, reason="two qualifying results disagree in sign, each beyond its error"
        )
    entered = _entered(price, alone, policy) or _kept(price, alone, previous, policy)
    return entered or Ruling(verdict=Verdict.OPEN, reason=_between(price, alone, policy))


def _entered(price: float, alone: float, policy: Policy) -> Ruling | None:
    if price >= policy.supported_at and alone >= policy.supported_until:
        reason = f"price {price:.2f} is at or above {policy.supported_at:.2f}"
        return Ruling(verdict=Verdict.SUPPORTED, reason=reason)
    if price <= policy.refuted_at and alone <= policy.refuted_until:
        reason = f"price {price:.2f} is at or below {policy.refuted_at:.2f}"
        return Ruling(verdict=Verdict.REFUTED, reason=reason)
    return None


def _kept(price: float, alone: float, previous: Verdict, policy: Policy) -> Ruling | None:
    if previous is Verdict.SUPPORTED and price >= policy.supported_until and alone >= EVEN:
        reason = f"price {price:.2f} has not fallen below {policy.supported_until:.2f}"
        return Ruling(verdict=previous, reason=reason)
    if previous is Verdict.REFUTED and price <= policy.refuted_until and alone <= EVEN:
        reason = f"price {price:.2f} has not risen above {policy.refuted_until:.2f}"
        return Ruling(verdict=previous, reason=reason)
    return None


EVEN: Final = 0.5


def _between(price: float, alone: float, policy: Policy) -> str:
    if policy.refuted_at < price < policy.supported_at:
        return f"price {price:.2f} lies between {policy.refuted_at:.2f} and {policy.supported_at:.2f}"
    return f"price {price:.2f}, but the qualifying results alone give {alone:.2f}"


def _disagree(qualifying: Sequence[Assessment], policy: Policy) -> bool:
    """Whether two roots disagree: two statistics of one result are no disagreement."""
    chosen = [item.contrast for item in select(qualifying)]
    signs = {
        math.copysign(1.0, c.measured_y)
        for c in chosen
        if abs(c.measured_y) > policy.mixed_sigmas * c.measured_se
    }
    return len(signs) > 1

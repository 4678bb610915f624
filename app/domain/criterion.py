"""One row of the criteria table, and the facts that every rule reads."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.claim import Claim, Scalar
from app.domain.contrast import Arm, Contrast
from app.domain.evidence import Criterion, Evidence, Status
from app.domain.metrics import statistic_rank
from app.domain.policy import Policy
from app.domain.scalars import stated


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionResult:
    """One row of the criteria table. `fields` are the configuration names that it was read from."""

    criterion: Criterion
    status: Status
    reason: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a rule may read. An arm is absent where the evidence does not describe it."""

    evidence: Evidence
    claim: Claim
    policy: Policy
    baseline: Arm | None
    treatment: Arm | None

    @property
    def arms(self) -> tuple[Arm, Arm] | None:
        """Both arms, if both are described."""
        return (self.baseline, self.treatment) if self.baseline and self.treatment else None

    @property
    def speaking(self) -> Contrast | None:
        """The contrast that speaks for the evidence: on the claim's metric if there is one."""
        on_metric = [c for c in self.evidence.contrasts if c.metric == self.claim.metric]
        return min(
            on_metric or self.evidence.contrasts,
            key=lambda c: (statistic_rank(c.statistic), c.metric),
            default=None,
        )


def result(
    criterion: Criterion, status: Status, reason: str, fields: tuple[str, ...] = ()
) -> CriterionResult:
    """One row."""
    return CriterionResult(criterion=criterion, status=status, reason=reason, fields=fields)


def value_of(arm: Arm, name: str) -> Scalar:
    """What an arm states in a field; `None` where it states nothing."""
    return stated(arm.config.get(name))

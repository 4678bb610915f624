"""Every number that can change a decision, in one typed and versioned table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from app.domain.claim import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Defaults of the method. Each decision records `version` and a digest of the whole table.

    Log-scale quantities are natural logarithms of ratios.
    """

    version: str = "1"

    # Evidence
    imputed_se: Mapping[Level, float] = field(
        default_factory=lambda: {
            Level.DISCLOSURE: 0.05,
            Level.KERNEL: 0.05,
            Level.MODEL: 0.08,
            Level.SERVING: 0.10,
            Level.ECONOMICS: 0.15,
        }
    )
    unknown_sd: float = 0.05
    unmet_sd: float = 0.15
    accuracy_tolerance: float = 0.01
    perplexity_tolerance: float = 0.02
    length_tolerance: float = 0.01
    rate_tolerance: float = 0.01
    prefix_hit_tolerance: float = 0.01

    # Validity of a serving run
    max_error_share: float = 0.01
    min_achieved_share: float = 0.99
    max_delay_of_ttft: float = 0.10
    min_duration_s: float = 60.0
    min_requests_per_slot: float = 5.0

    # Synthesis
    theta_sd: float = 0.25
    tau_scale: float = 0.10
    share_low: float = 0.5
    share_high: float = 0.9

    # Verdict
    supported_at: float = 0.90
    supported_until: float = 0.80
    refuted_at: float = 0.10
    refuted_until: float = 0.20
    mixed_sigmas: float = 2.0

    # Decisions
    material_price_move: float = 0.02

    # Routing
    digest_price_move: float = 0.10
    interrupts_per_day: int = 3
    duplicate_window: timedelta = timedelta(hours=6)
    relevance_needed: tuple[str, ...] = ("medium", "high")
    quiet_from_hour: int = 22
    quiet_until_hour: int = 7

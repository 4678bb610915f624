"""The operator's policy file: TOML that replaces numbers of the default policy."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from app.domain.case import Strength
from app.domain.errors import Refused
from app.domain.policy import Policy
from app.formats.wire import refused_by

_ADAPTER: TypeAdapter[Policy] = TypeAdapter(Policy)


def load_policy(path: Path) -> Policy:
    """The policy in force: the defaults, with what the file replaces.

    Raises:
        Refused: the file is no TOML, or names or sets something that the policy does not have.
    """
    if not path.exists():
        return Policy()
    try:
        given: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(
            f"The policy file is not TOML: {error}.",
            field=str(path),
            remedy="Correct it at the place named.",
            code="bad-policy",
        ) from error
    defaults = asdict(Policy())
    unknown = sorted(set(given) - set(defaults))
    if unknown:
        raise Refused(
            f"The policy has no {', '.join(unknown)}.",
            field=str(path),
            value=", ".join(unknown),
            remedy=f"Use {', '.join(defaults)}.",
            code="bad-policy",
        )
    given.setdefault("version", f"{defaults['version']}+file")
    if isinstance(given.get("imputed_se"), dict):
        given["imputed_se"] = defaults["imputed_se"] | given["imputed_se"]
    try:
        policy = _ADAPTER.validate_python(defaults | given)
    except ValidationError as error:
        raise refused_by(error.errors(include_url=False)).within(str(path)) from error
    for name, sensible in SENSIBLE.items():
        if not sensible(policy):
            raise Refused(
                "With this number no decision could be made.",
                field=f"{path}.{name}",
                value=getattr(policy, name),
                remedy="Give a finite number in the range that its meaning allows; docs/method.md says it.",
                code="bad-policy",
            )
    return policy


def _share(*values: float) -> bool:
    """Whether values lie in [0, 1], none below the one before."""
    return all(0 <= value <= 1 for value in values) and list(values) == sorted(values)


def _finite(name: str, policy: Policy) -> bool:
    return bool(0 <= getattr(policy, name) < math.inf)


SENSIBLE: Final[dict[str, Callable[[Policy], bool]]] = {
    "imputed_se": lambda p: all(1e-4 <= value <= 10 for value in p.imputed_se.values()),
    "unknown_sd": lambda p: 0 <= p.unknown_sd <= 10,
    "unmet_sd": lambda p: 0 <= p.unmet_sd <= 10,
    "theta_sd": lambda p: 1e-3 <= p.theta_sd <= 10,
    "tau_scale": lambda p: 1e-3 <= p.tau_scale <= 10,
    "share_low": lambda p: p.share_low >= 1e-3 and _share(p.share_low, p.share_high),
    "min_achieved_share": lambda p: _share(p.min_achieved_share),
    "relevance_needed": lambda p: set(p.relevance_needed) <= set(Strength),
    "supported_at": lambda p: _share(p.refuted_at, p.refuted_until, p.supported_until, p.supported_at),
    "material_price_move": lambda p: _share(p.material_price_move),
    "digest_price_move": lambda p: _share(p.digest_price_move),
    "interrupts_per_day": lambda p: p.interrupts_per_day >= 0,
    "duplicate_window": lambda p: timedelta(0) <= p.duplicate_window <= timedelta(days=366),
    "quiet_from_hour": lambda p: 0 <= p.quiet_from_hour <= 24 and 0 <= p.quiet_until_hour <= 24,
    **{
        name: partial(_finite, name)
        for name in (
            "accuracy_tolerance",
            "perplexity_tolerance",
            "length_tolerance",
            "rate_tolerance",
            "prefix_hit_tolerance",
            "max_error_share",
            "max_delay_of_ttft",
            "min_duration_s",
            "min_requests_per_slot",
            "mixed_sigmas",
        )
    },
}
"""What each number must be for the method to work at all."""

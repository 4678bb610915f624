"""The policy file: what it may replace; a number with which no decision could be made stops the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.domain.claim import Level
from app.domain.errors import Refused
from app.domain.policy import Policy
from app.services.policy_file import load_policy


def read(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return load_policy(path)


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_policy(tmp_path / "none.toml") == Policy()
    assert read(tmp_path, "") == Policy(version=f"{Policy().version}+file")


def test_a_file_replaces_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    policy = read(tmp_path, 'version = "2026-12"\nsupported_at = 0.95\n[imputed_se]\nkernel = 0.04\n')
    assert (policy.version, policy.supported_at, policy.refuted_at) == ("2026-12", 0.95, Policy().refuted_at)
    assert policy.imputed_se[Level.KERNEL] == 0.04
    assert policy.imputed_se[Level.SERVING] == Policy().imputed_se[Level.SERVING]


@pytest.mark.parametrize(
    "text",
    [
        "supported_at = nan",
        "supported_at = inf",
        "supported_at = 1.5",
        "supported_at = 0.5",
        "refuted_at = 0.3",
        "theta_sd = 0",
        "theta_sd = -inf",
        "tau_scale = -0.1",
        "share_low = 0.95",
        "share_high = 2",
        "unknown_sd = -1",
        "interrupts_per_day = -1",
        "quiet_from_hour = 25",
        "duplicate_window = -60",
        "min_duration_s = nan",
        "[imputed_se]\nserving = 0",
        "[imputed_se]\nserving = nan",
        "[imputed_se]\ngalaxy = 0.1",
        "imputed_se = 3",
        'supported_at = "high"',
        "no_such_number = 1",
        "supported_at = ",
        "\xff",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refused) as refused:
        read(tmp_path, text)
    assert "policy.toml" in refused.value.field
    assert refused.value.remedy

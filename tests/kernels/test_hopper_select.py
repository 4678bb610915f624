"""Every size finds a configuration that fits the card, and batch-invariant plans cut K in the same places."""

import pytest

from kernels.gemm.hopper.build import Activation, Config
from kernels.gemm.hopper.pack import BLOCK_BYTES, COLUMNS, K_MULTIPLE
from kernels.gemm.hopper.select import CONFIGS, SLAB_TOKENS, choose, choose_invariant

H200 = 132
BLOCK_LIMIT, MULTIPROCESSOR_LIMIT, RESERVED = 227 * 1024, 228 * 1024, 1024
ALL = [c for family in CONFIGS.values() for c in family]


def shared_bytes(c: Config) -> int:
    x = c.tokens * 128 * (c.chunks // 2 if c.act is Activation.E4M3 else c.chunks)
    weights = c.groups * c.m64 * c.chunks * BLOCK_BYTES
    return c.stages * (x + weights) + c.groups * 128 * min(c.tokens, 64) + 16 * c.stages


@pytest.mark.parametrize("config", ALL, ids=lambda c: c.symbol)
def test_configurations_fit_shared_memory_and_padded_k(config: Config) -> None:
    assert shared_bytes(config) <= BLOCK_LIMIT
    assert config.resident * (shared_bytes(config) + RESERVED) <= MULTIPROCESSOR_LIMIT
    assert (K_MULTIPLE // COLUMNS) % config.chunks == 0
    assert config.tokens % 8 == 0


def test_symbols_are_distinct() -> None:
    assert len({c.symbol for c in ALL}) == len(ALL)


@pytest.mark.parametrize("act", list(Activation))
@pytest.mark.parametrize(("n", "k"), [(16, 16), (5120, 8192), (10240, 5120), (51200, 5120), (5120, 25600)])
@pytest.mark.parametrize("m", [1, 8, 9, 16, 17, 33, 64, 65, 128, 129, 256, 257, 1024, 100_000])
def test_every_size_has_a_plan(act: Activation, n: int, k: int, m: int) -> None:
    plan = choose(act, m, n, k, H200)
    assert plan.config in CONFIGS[act]
    assert 1 <= plan.ctas <= H200 * plan.config.resident


@pytest.mark.parametrize(
    ("m", "n", "k", "tokens", "ctas"),
    [
        (1, 5120, 8192, 8, 132),
        (16, 5120, 8192, 16, 120),
        (16, 51200, 5120, 16, 264),
        (64, 5120, 25600, 64, 132),
        (128, 51200, 5120, 128, 132),
    ],
)
def test_measured_choices(m: int, n: int, k: int, tokens: int, ctas: int) -> None:
    plan = choose(Activation.BF16, m, n, k, H200)
    assert (plan.config.tokens, plan.ctas) == (tokens, ctas)


@pytest.mark.parametrize("act", list(Activation))
def test_invariant_plans_differ_in_tokens_alone(act: Activation) -> None:
    plans = [choose_invariant(act, m, H200) for m in range(1, SLAB_TOKENS[act] + 1)]
    assert {(p.config.rows, p.config.chunks, p.ctas) for p in plans} == {(128, 4, H200)}
    assert all(p.config.tokens >= m for m, p in enumerate(plans, start=1))

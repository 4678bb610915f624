"""Which compiled configuration runs a product, and on how many CTAs. Pure; measured on one H200
(NOTES.md).
"""

from dataclasses import dataclass

from kernels.gemm.hopper.build import Activation, Config
from kernels.gemm.hopper.pack import COLUMNS, K_MULTIPLE

BALANCED_CHUNKS = 64
"""With fewer 64-column chunks a CTA than this, equal parts of tiles are worth leaving a tenth of the card
idle.
"""
BALANCED_SHARE = 0.9
SLAB_TOKENS = {Activation.BF16: 64, Activation.FP16: 64, Activation.E4M3: 128}
"""Tokens of one launch when results must not depend on M."""


def _sixteen_bit(act: Activation) -> tuple[Config, ...]:
    return (
        Config(act=act, groups=2, m64=1, tokens=8, chunks=4, stages=4, resident=2, batch=2),
        Config(act=act, groups=2, m64=1, tokens=16, chunks=4, stages=4, resident=2, batch=2),
        Config(act=act, groups=2, m64=1, tokens=32, chunks=4, stages=3, resident=2, batch=2),
        Config(act=act, groups=2, m64=1, tokens=64, chunks=4, stages=4, batch=2),
        Config(act=act, groups=2, m64=2, tokens=64, chunks=4, stages=3, batch=2),
        Config(act=act, groups=2, m64=1, tokens=128, chunks=2, stages=4, batch=2),
        Config(act=act, groups=3, m64=1, tokens=128, chunks=2, stages=4),
        Config(act=act, groups=2, m64=1, tokens=256, chunks=1, stages=5),
    )


E4M3 = (
    Config(act=Activation.E4M3, groups=2, m64=1, tokens=64, chunks=4, stages=6),
    Config(act=Activation.E4M3, groups=2, m64=1, tokens=128, chunks=4, stages=4),
    Config(act=Activation.E4M3, groups=3, m64=1, tokens=128, chunks=4, stages=3),
    Config(act=Activation.E4M3, groups=2, m64=1, tokens=256, chunks=2, stages=5),
)

CONFIGS: dict[Activation, tuple[Config, ...]] = {
    Activation.BF16: _sixteen_bit(Activation.BF16),
    Activation.FP16: _sixteen_bit(Activation.FP16),
    Activation.E4M3: E4M3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one product is launched."""

    config: Config
    ctas: int


def _narrowest(configs: tuple[Config, ...], m: int) -> Config:
    return next((c for c in configs if c.tokens >= m), configs[-1])


def _by_size(act: Activation, m: int, wide: bool) -> Config:
    """The configuration by tokens, for layers with few tiles and for those with at least one a
    multiprocessor.
    """
    configs = CONFIGS[act]
    if act is Activation.E4M3:
        small, narrow, broad, large = configs
        if m <= 64 and not wide:
            return small
        return (broad if wide else narrow) if m <= 128 else large
    *tiny, narrow64, broad64, narrow128, broad128, large = configs
    if m <= 32:
        return _narrowest(tuple(tiny), m)
    if m <= 64:
        return broad64 if wide else narrow64
    if m <= 128:
        return broad128 if wide else narrow128
    if m <= 256:
        return large if wide else narrow128
    return broad128


def choose(act: Activation, m: int, n: int, k: int, multiprocessors: int) -> Plan:
    """The plan for x [m, k] times weight [n, k] transposed."""
    wide = -(-n // 128) >= multiprocessors
    config = _by_size(act, m, wide)
    return Plan(config=config, ctas=_ctas(config, m, n, k, multiprocessors))


def _ctas(config: Config, m: int, n: int, k: int, multiprocessors: int) -> int:
    tiles = -(-n // config.rows) * -(-m // config.tokens)
    if tiles >= multiprocessors:
        return multiprocessors * config.resident
    chunks = -(-k // K_MULTIPLE) * (K_MULTIPLE // COLUMNS)
    halves = 2 * multiprocessors // tiles * tiles // 2
    few = tiles * chunks < BALANCED_CHUNKS * multiprocessors
    if config.tokens > 8 and few and halves >= BALANCED_SHARE * multiprocessors:
        return halves
    return multiprocessors


def choose_invariant(act: Activation, tokens: int, multiprocessors: int) -> Plan:
    """The plan for one slab of at most SLAB_TOKENS tokens, whose sums have an order that depends on N and K
    alone.

    All its configurations have tiles of 128 rows, stages of four chunks and one CTA a multiprocessor, so that
    K is cut in the same places whatever the number of tokens.
    """
    family = tuple(c for c in CONFIGS[act] if c.rows == 128 and c.chunks == 4 and c.m64 == 1)
    return Plan(config=_narrowest(family, tokens), ctas=multiprocessors)

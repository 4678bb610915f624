"""The sizes that the benchmark runs, by suite."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One product x `[m, k]` times weight `[n, k]` transposed; for a quantizer, x alone. `layer` names the
    weight.
    """

    layer: str
    m: int
    n: int
    k: int


class Suite(StrEnum):
    """A named list of sizes."""

    QWEN3_32B = "qwen3-32b"
    LLAMA31_8B = "llama-3.1-8b"
    DECODE = "decode"
    PREFILL = "prefill"
    SQUARE = "square"
    ARTICLE = "article"
    NATIVE = "native"
    QUANTIZE = "quantize"


# N and K of the linear layers, from the models' published config.json files; q, k and v and gate and up are
# fused.
QWEN3_32B = (("qkv", 10240, 5120), ("o", 5120, 8192), ("gate_up", 51200, 5120), ("down", 5120, 25600))
LLAMA31_8B = (("qkv", 6144, 4096), ("o", 4096, 4096), ("gate_up", 28672, 4096), ("down", 4096, 14336))

DECODE_M = (1, 4, 8, 16, 32, 64)
PREFILL_M = (128, 256, 512, 1024, 2048, 4096)
GOALS_M = (1, 8, 16, 32, 64, 128, 256, 1024, 4096)
"""The M at which goals are set."""


def _layers(layers: Iterable[tuple[str, int, int]], ms: Iterable[int]) -> tuple[Shape, ...]:
    layers = tuple(layers)
    return tuple(Shape(layer=layer, m=m, n=n, k=k) for m in ms for layer, n, k in layers)


def _cubes(sizes: Iterable[int]) -> tuple[Shape, ...]:
    return tuple(Shape(layer="square", m=size, n=size, k=size) for size in sizes)


_SUITES: dict[Suite, tuple[Shape, ...]] = {
    Suite.QWEN3_32B: _layers(QWEN3_32B, GOALS_M),
    Suite.LLAMA31_8B: _layers(LLAMA31_8B, GOALS_M),
    Suite.DECODE: _layers(QWEN3_32B, DECODE_M),
    Suite.PREFILL: _layers(QWEN3_32B, PREFILL_M),
    Suite.SQUARE: _cubes((1024, 2048, 4096, 8192, 16384)),
    # The sizes of the disclosed article on NVFP4 products for SM12x.
    Suite.ARTICLE: _cubes((2048, 4096, 8192, 16384, 32768)),
    Suite.NATIVE: _layers(QWEN3_32B, (1, 16, 128, 1024, 4096)) + _cubes((2048, 4096, 8192, 16384)),
    Suite.QUANTIZE: tuple(
        Shape(layer="activations", m=m, n=1, k=k)
        for m, k in ((8192, 8192), (16384, 8192), (4096, 25600), (1000, 5120))
    ),
}


def shapes(suite: Suite, ms: tuple[int, ...] = ()) -> tuple[Shape, ...]:
    """The sizes of `suite`, or only those with M among `ms`."""
    return tuple(shape for shape in _SUITES[suite] if not ms or shape.m in ms)


def shrunk(shape_list: Iterable[Shape], *, m: int = 16, n: int = 192, k: int = 256) -> tuple[Shape, ...]:
    """The same layers cut down to sizes that a reference gets through quickly; repeats are dropped."""
    small = (replace(s, m=min(s.m, m), n=min(s.n, n), k=min(s.k, k)) for s in shape_list)
    return tuple(dict.fromkeys(small))

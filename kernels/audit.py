"""What a benchmark harness's own inputs and arithmetic say about its figures. Pure functions, on any machine.

Two checks are general: the clock that a rate implies, and what the operands do to the result. The rest
describes the operands of one public harness, ColfaxResearch/cfx-article-src, `sm120_nvfp4_gemms/`, at commit
d142df3c69b0fd91bc8152a8191181c30a0987ad, `prepare_tensors` in each `nvfp4_gemm_*.py`: bytes of two codes
drawn evenly from the integers -2 to 1, and block scales drawn evenly from the numbers 0, 1 and 2.
"""

from fractions import Fraction

import torch

from kernels.nvfp4 import BLOCK, E2M1_VALUES, QuantizedTensor, encode_e4m3

HARNESS_BYTES = (0xFE, 0xFF, 0x00, 0x01)
"""-2, -1, 0 and 1 as bytes: the pairs (-4, -6), (-6, -6), (0, 0) and (0.5, 0), the even element first."""

HARNESS_SCALES = (0, 1, 2)

FLOAT16_OVERFLOW = 65520.0
"""From here on a number rounds to infinity in float16, whose largest is 65504."""


def implied_clock_ghz(flop_per_s: float, multiprocessors: int, flop_per_clock: int) -> float:
    """The clock at which a card would reach `flop_per_s` with every multiprocessor busy in every cycle.

    flop_per_clock: of one multiprocessor; 4096 for dense FP4 on SM12x. A clock above the card's boost clock
    means that the rate cannot have been measured as stated.
    """
    if multiprocessors < 1 or flop_per_clock < 1:
        raise ValueError("multiprocessors and flop_per_clock must be positive")
    return flop_per_s / (multiprocessors * flop_per_clock) / 1e9


def harness_operand(rows: int, k: int, generator: torch.Generator) -> QuantizedTensor:
    """An operand `[rows, k]` drawn as that harness draws it; k a multiple of 16; tensor scale 1."""
    device = generator.device
    choice = torch.randint(0, 4, (rows, k // 2), device=device, generator=generator)
    scale = torch.randint(0, 3, (rows, k // BLOCK), device=device, generator=generator)
    return QuantizedTensor(
        codes=torch.tensor(HARNESS_BYTES, dtype=torch.uint8, device=device)[choice],
        scales=encode_e4m3(scale.to(torch.float32)),
        tensor_scale=torch.ones((), device=device),
        rows=rows,
        k=k,
    )


def _elements(nibble: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(E2M1_VALUES[byte >> 4 * nibble & 0xF]) for byte in HARNESS_BYTES)


def _mean(values: tuple[Fraction, ...]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def harness_mean_product() -> Fraction:
    """The expected product of two elements with their scales: the expected result is K times this.

    Both operands are drawn independently, so the mean of a product is the product of means, even and odd
    elements apart; the scales have mean 1.
    """
    scale = _mean(tuple(Fraction(s) for s in HARNESS_SCALES))
    return _mean(tuple(_mean(_elements(nibble)) ** 2 for nibble in (0, 1))) * scale**2


def harness_zero_products() -> Fraction:
    """The share of element products that are zero, through an element or a scale that is zero."""
    scale = Fraction(sum(s != 0 for s in HARNESS_SCALES), len(HARNESS_SCALES))
    nonzero = tuple(
        Fraction(sum(v != 0 for v in _elements(nibble)), len(HARNESS_BYTES)) ** 2 for nibble in (0, 1)
    )
    return 1 - _mean(nonzero) * scale**2


def float16_overflow_share(size: int, sample: int = 512, seed: int = 0) -> float:
    """The share of results that are infinite in float16, at K = size, from a sample x sample corner of the
    result.
    """
    from kernels.gemm.reference import w4a4

    generator = torch.Generator().manual_seed(seed)
    left, right = (harness_operand(sample, size, generator) for _ in range(2))
    return float((w4a4(left, right).abs() >= FLOAT16_OVERFLOW).to(torch.float64).mean())

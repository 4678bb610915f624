"""The arithmetic of the audited harness, reproduced without its code and without a card."""

from fractions import Fraction

import pytest
import torch

from kernels.audit import (
    FLOAT16_OVERFLOW,
    float16_overflow_share,
    harness_mean_product,
    harness_operand,
    harness_zero_products,
    implied_clock_ghz,
)
from kernels.gemm.reference import w4a4
from kernels.nvfp4 import decode_blocks


def test_mean_product_by_hand() -> None:
    """Even elements (-4, -6, 0, 0.5): mean -2.375. Odd elements (-6, -6, 0, 0): mean -3."""
    assert harness_mean_product() == (Fraction(19, 8) ** 2 + 9) / 2
    assert float(harness_mean_product()) == pytest.approx(7.32, abs=0.001)


def test_most_products_are_zero() -> None:
    """(9/16 + 1/4) / 2 of element products and 4/9 of scale products are not zero."""
    assert harness_zero_products() == 1 - Fraction(13, 32) * Fraction(4, 9)
    assert float(harness_zero_products()) == pytest.approx(0.82, abs=0.001)


def test_a_sample_has_that_mean_and_those_zeros() -> None:
    generator = torch.Generator().manual_seed(1)
    left, right = (harness_operand(512, 4096, generator) for _ in range(2))
    assert float(w4a4(left, right).mean()) / 4096 == pytest.approx(float(harness_mean_product()), rel=0.02)
    nonzero = (decode_blocks(left) != 0).double() @ (decode_blocks(right) != 0).double().T
    assert 1 - float(nonzero.mean()) / 4096 == pytest.approx(float(harness_zero_products()), abs=0.005)


def test_float16_results_overflow_with_size() -> None:
    assert float16_overflow_share(2048) == 0
    assert float16_overflow_share(4096) == 0
    assert 0.05 < float16_overflow_share(8192) < 0.2
    assert float16_overflow_share(16384, sample=256) == 1


def test_a_comparison_of_infinities_cannot_fail() -> None:
    """At K = 16384 a result that is twice too large passes the harness's comparison: both sides are
    infinite.
    """
    generator = torch.Generator().manual_seed(1)
    left, right = (harness_operand(64, 16384, generator) for _ in range(2))
    right_result = w4a4(left, right)
    assert (right_result > FLOAT16_OVERFLOW).all()
    torch.testing.assert_close((2 * right_result).half(), right_result.half(), atol=0.1, rtol=1e-3)
    with pytest.raises(AssertionError):
        torch.testing.assert_close((2 * right_result).float(), right_result.float(), atol=0.1, rtol=1e-3)


def test_where_nothing_overflows_sums_are_exact_in_float32() -> None:
    """Products are multiples of 1/4 and sums stay under 2**22, so a right kernel gives the very
    same result.
    """
    generator = torch.Generator().manual_seed(1)
    result = w4a4(*(harness_operand(256, 4096, generator) for _ in range(2)))
    assert torch.equal(result * 4, (result * 4).round())
    assert float(result.abs().max()) < 2**22


@pytest.mark.parametrize(("tflops", "ghz"), [(2015.2, 2.617), (1666.0, 2.163)])
def test_the_clock_that_a_rate_implies(tflops: float, ghz: float) -> None:
    assert implied_clock_ghz(tflops * 1e12, 188, 4096) == pytest.approx(ghz, abs=0.001)
    with pytest.raises(ValueError, match="positive"):
        implied_clock_ghz(1e12, 0, 4096)

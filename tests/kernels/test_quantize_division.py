"""The refined division of the GPU quantizer decides every rounding as the correctly rounded quotient does.

Scaling x or d by a power of two scales every step exactly, so the mantissas decide. For one d and one
midpoint t between E2M1 numbers only the 16-bit inputs nearest to t*d can go wrong: a smaller one lies clearly
below. float16 has 11 significant bits and bfloat16 8, which are among the former. All 2**23 mantissas of d
were gone through once this way; the test takes every 61st and the ends.
"""

import numpy as np
import pytest

MANTISSAS_OF_MIDPOINTS = (1.0, 1.25, 1.5, 1.75)  # of 0.25, 0.75, 1.25, 1.75, 2.5, 3.5 and 5


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c in float32 with one rounding."""
    product = a.astype(np.float64) * b.astype(np.float64)  # exact: 48 bits
    addend = c.astype(np.float64)
    total = product + addend
    back = total - product
    lost = (product - (total - back)) + (addend - back)  # Knuth's two-sum: total + lost is exact
    result = total.astype(np.float32)
    # Rounding twice errs only when the float64 sum is halfway between two float32 and something was lost.
    gap = total - result.astype(np.float64)
    toward = np.nextafter(result, np.where(gap > 0, np.inf, -np.inf).astype(np.float32))
    halfway = (gap != 0) & (np.abs(gap) == np.abs(toward.astype(np.float64) - total))
    low, high = np.minimum(result, toward), np.maximum(result, toward)
    return np.where(halfway & (lost != 0), np.where(lost > 0, high, low), result)


def refined(x: np.ndarray, d: np.ndarray, steps: int = 1) -> np.ndarray:
    r = np.float32(1) / d
    q = x * r
    for _ in range(steps):
        q = fma32(fma32(q, -d, x), r, q)
    return q


def nearest_11_bit(wanted: np.ndarray) -> tuple[np.ndarray, ...]:
    """The 11-bit numbers at or below `wanted` (in [1, 4)) and the next two."""
    step = np.where(wanted >= 2, 2.0**-9, 2.0**-10)
    below = np.floor(wanted / step)
    return tuple(((below + i) * step).astype(np.float32) for i in range(-1, 3))


def wrong_decisions(d: np.ndarray) -> int:
    wrong = 0
    for t in MANTISSAS_OF_MIDPOINTS:
        for x in nearest_11_bit(t * d.astype(np.float64)):
            wrong += int((np.sign(refined(x, d) - np.float32(t)) != np.sign(x / d - np.float32(t))).sum())
    return wrong


@pytest.mark.parametrize("start", [0, 2**23 - 4096])
def test_ends(start: int) -> None:
    d = (np.arange(start, start + 4096) + 2**23).astype(np.float32) * np.float32(2.0**-23)
    assert wrong_decisions(d) == 0


def test_every_61st_mantissa() -> None:
    d = (np.arange(0, 2**23, 61) + 2**23).astype(np.float32) * np.float32(2.0**-23)
    assert wrong_decisions(d) == 0


def test_block_amax_over_six_is_correctly_rounded() -> None:
    """For amax with 11 significant bits, the widest of the 16-bit formats."""
    amax = np.arange(2**10, 2**11).astype(np.float32)
    assert np.array_equal(refined(amax, np.full_like(amax, 6)), amax / np.float32(6))


def test_two_steps_are_correctly_rounded_on_random_operands() -> None:
    generator = np.random.default_rng(0)
    x, d = (1 + generator.random((2, 1 << 18))).astype(np.float32)
    assert np.array_equal(refined(x, d, steps=2), x / d)

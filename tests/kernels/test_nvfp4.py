"""The format: every code and scale, hand-computed blocks, both scale layouts, and what is refused."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.nvfp4 import (
    BLOCK,
    E2M1_VALUES,
    FormatError,
    NonFiniteError,
    QuantizedTensor,
    ScaleLayout,
    TensorScaleError,
    decode_blocks,
    decode_e4m3,
    dequantize,
    encode_e2m1,
    encode_e4m3,
    pack,
    quantize,
    scale_shape,
    to_layout,
    unpack,
)


def e4m3_by_definition(bits: int) -> float:
    """The value of an E4M3 byte from its fields: bias 7, no infinities, S.1111.111 is NaN."""
    sign = -1.0 if bits & 0x80 else 1.0
    exponent, mantissa = bits >> 3 & 0xF, bits & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    if exponent == 0:
        return sign * mantissa / 8 * 2.0**-6
    return sign * (1 + mantissa / 8) * 2.0 ** (exponent - 7)


def e2m1_by_definition(code: int) -> float:
    """The value of an E2M1 code from its fields: bias 1."""
    sign = -1.0 if code & 8 else 1.0
    exponent, mantissa = code >> 1 & 3, code & 1
    return sign * (mantissa / 2 if exponent == 0 else (1 + mantissa / 2) * 2.0 ** (exponent - 1))


def value(codes: list[int], scale: int, tensor_scale: float = 1.0) -> QuantizedTensor:
    """One block with the same scale byte."""
    return QuantizedTensor(
        codes=pack(torch.tensor([codes], dtype=torch.uint8)),
        scales=torch.tensor([[scale]], dtype=torch.uint8),
        tensor_scale=torch.tensor(tensor_scale),
        rows=1,
        k=BLOCK,
    )


def test_every_code_under_every_scale() -> None:
    for scale in range(256):
        got = decode_blocks(value(list(range(16)), scale), torch.float64)[0].tolist()
        want = [e2m1_by_definition(code) * e4m3_by_definition(scale) for code in range(16)]
        assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(got, want, strict=True)), scale


def test_products_are_exact_in_sixteen_bits() -> None:
    scales = torch.arange(0x7F, dtype=torch.uint8)
    products = torch.tensor(E2M1_VALUES, dtype=torch.float64) * decode_e4m3(scales).double().unsqueeze(1)
    for dtype in (torch.bfloat16, torch.float16):
        assert torch.equal(products.to(torch.float32).to(dtype).double(), products)


@pytest.mark.parametrize(
    ("x", "code"),
    [
        (0.0, 0), (-0.0, 8), (0.25, 0), (math.nextafter(0.25, 1), 1), (0.74, 1), (0.75, 2), (1.25, 2),
        (1.26, 3),
        (1.75, 4), (2.5, 4), (2.51, 5), (3.49, 5), (3.5, 6), (5.0, 6), (5.01, 7), (6.0, 7), (7.0, 7),
        (1e30, 7),
        (math.inf, 7), (-0.25, 8), (-0.3, 9), (-0.75, 10), (-5.0, 14), (-100.0, 15),
    ],
)  # fmt: skip
def test_rounding_to_e2m1(x: float, code: int) -> None:
    assert int(encode_e2m1(torch.tensor(x, dtype=torch.float64))) == code


@given(st.floats(-8, 8, width=32))
def test_e2m1_is_the_nearest_value(x: float) -> None:
    code = int(encode_e2m1(torch.tensor(x)))
    distance = {
        c: abs(e2m1_by_definition(c) - x) for c in range(16) if math.copysign(1, x) == (-1 if c > 7 else 1)
    }
    nearest = min(distance.values())
    assert distance[code] == nearest
    ties = [c for c, d in distance.items() if d == nearest]
    assert len(ties) == 1 or code % 2 == 0


def test_rounding_to_e4m3_saturates_and_ties_to_even() -> None:
    x = torch.tensor([448.0, 449.0, 1e9, 2.0**-9, 2.0**-10, 2.0**-10 * 1.5, 1.0625, 1.1875, 0.0])
    assert encode_e4m3(x).tolist() == [0x7E, 0x7E, 0x7E, 0x01, 0x00, 0x01, 0x38, 0x3A, 0x00]


def test_a_block_by_hand() -> None:
    """amax 12 over the tensor: tensor scale 12/2688 = 1/224. Block scale 12/6*224 = 448. One code
    unit is 2.
    """
    x = torch.tensor([[12.0, -12.0, 8.0, 6.0, 4.0, 3.0, 2.0, 1.0, 0.5, 5.0, -5.0, 7.0, 10.0, 0.0, -0.0, 2.5]])
    q = quantize(x)
    assert float(q.tensor_scale) == pytest.approx(1 / 224, rel=1e-7)
    assert q.scales.tolist() == [[0x7E]]
    assert unpack(q.codes)[0].tolist() == [7, 15, 6, 5, 4, 3, 2, 1, 0, 4, 12, 6, 6, 0, 8, 2]
    assert q.codes[0, 0] == 0xF7  # the even element is the low nibble


def test_a_block_of_ones_beside_a_larger_block() -> None:
    """Tensor scale 6/2688 = 1/448; ones need a block scale of 448/6 = 74.67, which E4M3 rounds to 72."""
    x = torch.cat((torch.full((1, 16), 6.0), torch.ones(1, 16)), dim=1)
    q = quantize(x)
    assert decode_e4m3(q.scales).tolist() == [[448.0, 72.0]]
    assert unpack(q.codes)[0].tolist() == [7] * 32
    assert dequantize(q)[0, -1] == pytest.approx(6 * 72 / 448)


def test_a_tensor_of_zeros() -> None:
    q = quantize(torch.zeros(3, 40))
    assert float(q.tensor_scale) == 1.0
    assert not q.codes.any()
    assert not q.scales.any()
    assert torch.equal(dequantize(q), torch.zeros(3, 40))


def test_a_zero_block_beside_others_keeps_signs_of_zero() -> None:
    x = torch.ones(1, 32)
    x[0, :16] = 0
    x[0, 3] = -0.0
    q = quantize(x)
    assert q.scales[0, 0] == 0
    assert unpack(q.codes)[0, :16].tolist() == [0, 0, 0, 8] + [0] * 12
    assert torch.equal(dequantize(q)[0, :16].signbit(), x[0, :16].signbit())


def test_small_blocks_take_the_smallest_scale_and_keep_what_it_can_hold() -> None:
    """Tensor scale 1: block scales under 2**-9 do not exist, but half of 6 * 2**-9 still does."""
    x = torch.cat((torch.full((1, 16), 3 * 2.0**-9), torch.full((1, 16), 2.0**-12)), dim=1)
    q = quantize(x, tensor_scale=1.0)
    assert q.scales.tolist() == [[1, 1]]
    assert unpack(q.codes)[0].tolist() == [5] * 16 + [0] * 16


def test_subnormal_block_scales_round_trip() -> None:
    x = torch.full((1, 16), 6 * 5 * 2.0**-9)
    q = quantize(x, tensor_scale=1.0)
    assert q.scales.tolist() == [[5]]
    assert torch.equal(dequantize(q), x)


def test_a_given_scale_too_small_saturates() -> None:
    q = quantize(torch.full((1, 16), -1e6), tensor_scale=1.0)
    assert q.scales.tolist() == [[0x7E]]
    assert unpack(q.codes)[0].tolist() == [15] * 16
    assert dequantize(q)[0, 0] == -2688


def test_the_tiniest_and_the_largest_inputs() -> None:
    for magnitude in (2.0**-149, 2.0**-133, 2.0**-126, 3.38e38):
        x = torch.full((2, 16), magnitude)
        assert torch.isfinite(dequantize(quantize(x))).all()
    large = torch.full((1, 16), 3e38)
    assert torch.allclose(dequantize(quantize(large)), large, rtol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 15, 16, 17, 40, 63, 64, 65, 72, 1000])
def test_k_of_any_size(k: int) -> None:
    generator = torch.Generator().manual_seed(k)
    x = torch.randn(5, k, generator=generator)
    q = quantize(x)
    assert q.codes.shape == (5, -(-k // 16) * 8)
    assert not unpack(q.codes)[:, k:].any()
    assert dequantize(q).shape == x.shape
    # Half the widest gap between codes, 1, over a block whose largest code is 6, and the rounding of the
    # scale.
    block_amax = torch.nn.functional.pad(x.abs(), (0, -k % 16)).view(5, -1, 16).amax(-1)
    bound = (block_amax / 6 * 1.0625).repeat_interleave(16, dim=1)[:, :k] * 1.0001 + 1e-6
    assert ((dequantize(q) - x).abs() <= bound).all()


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 300), k=st.integers(1, 200))
def test_the_swizzle_both_ways_against_the_loop(rows: int, k: int) -> None:
    blocks = -(-k // 16)
    generator = torch.Generator().manual_seed(rows * 1000 + k)
    q = QuantizedTensor(
        codes=torch.zeros((rows, blocks * 8), dtype=torch.uint8),
        scales=torch.randint(1, 127, (rows, blocks), dtype=torch.uint8, generator=generator),
        tensor_scale=torch.tensor(1.0),
        rows=rows,
        k=k,
    )
    swizzled = to_layout(q, ScaleLayout.SWIZZLED_128X4)
    assert swizzled.scales.shape == scale_shape(rows, blocks, ScaleLayout.SWIZZLED_128X4)
    for m, b in ((0, 0), (rows - 1, blocks - 1), (rows // 2, blocks // 2)):
        # Tile, then 32 rows of 16 bytes; within these, four groups of 32 rows; within these, four blocks.
        tile = (m // 128) * -(-blocks // 4) + b // 4
        place = tile * 512 + (m % 32) * 16 + (m % 128) // 32 * 4 + b % 4
        assert swizzled.scales[place] == q.scales[m, b]
    assert int((swizzled.scales != 0).sum()) == rows * blocks  # padding is zero, nothing is written twice
    assert torch.equal(to_layout(swizzled, ScaleLayout.ROW_MAJOR).scales, q.scales)


def test_quantize_then_dequantize_through_the_swizzle_keeps_every_row() -> None:
    """Some quantizers left swizzled scales zero for some row counts; the product then was silently zero."""
    for rows in (1, 31, 32, 33, 127, 128, 129, 255, 257):
        x = torch.randn(rows, 80, generator=torch.Generator().manual_seed(rows))
        q = quantize(x)
        assert torch.equal(dequantize(to_layout(q, ScaleLayout.SWIZZLED_128X4)), dequantize(q))
        assert (dequantize(q).abs().sum(dim=1) > 0).all()


@given(st.lists(st.integers(0, 15), min_size=1, max_size=40))
def test_pack_and_unpack_are_inverse(codes: list[int]) -> None:
    tensor = torch.tensor(codes, dtype=torch.uint8)
    assert unpack(pack(tensor))[: len(codes)].tolist() == codes


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_non_finite_input_is_refused_by_name(bad: float, dtype: torch.dtype) -> None:
    x = torch.ones(2, 16, dtype=dtype)
    x[1, 7] = bad
    with pytest.raises(NonFiniteError, match="NaN or infinity"):
        quantize(x)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 1e-40, torch.ones(2)])
def test_an_unusable_tensor_scale_is_refused(scale: float | torch.Tensor) -> None:
    with pytest.raises((TensorScaleError, RuntimeError), match="tensor scale"):
        quantize(torch.ones(1, 16), tensor_scale=scale)


@pytest.mark.parametrize("x", [torch.ones(16), torch.ones(2, 0), torch.ones(2, 16, dtype=torch.int32)])
def test_other_shapes_and_dtypes_are_refused(x: torch.Tensor) -> None:
    with pytest.raises(FormatError):
        quantize(x)


def test_a_value_with_wrong_parts_is_refused() -> None:
    q = quantize(torch.ones(2, 20))
    parts: dict[str, Any] = {
        "codes": q.codes,
        "scales": q.scales,
        "tensor_scale": q.tensor_scale,
        "rows": 2,
        "k": 20,
    }
    wrong: tuple[dict[str, Any], ...] = (
        {"codes": q.codes[:, :8]},
        {"scales": q.scales.view(torch.float8_e4m3fn)},
        {"tensor_scale": q.tensor_scale.view(1)},
        {"layout": ScaleLayout.SWIZZLED_128X4},
        {"k": 0},
    )
    for change in wrong:
        with pytest.raises(FormatError):
            QuantizedTensor(**{**parts, **change})
    with pytest.raises(FormatError, match="4 bits"):
        pack(torch.tensor([16], dtype=torch.uint8))


def test_dequantize_rounds_once() -> None:
    q = quantize(torch.randn(4, 64, generator=torch.Generator().manual_seed(1)))
    exact = dequantize(q, torch.float64)
    assert torch.equal(dequantize(q), exact.to(torch.float32))
    assert torch.equal(dequantize(q, torch.bfloat16), dequantize(q).to(torch.bfloat16))

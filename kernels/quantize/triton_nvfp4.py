"""NVFP4 quantizer for CUDA cards in Triton, compute capability 8.9 and later. Bits equal
`kernels.nvfp4.quantize`.

Bytes it must move for an `[rows, k]` 16-bit matrix: 2 read and 0.5625 written an element when the tensor
scale is given; 2 more read an element when it must first be found, because amax needs a pass of its own.

How it avoids the cost of a division and of seven comparisons an element:

- The E2M1 code of q is 4*s(q/2) + 2*s(q/2 - 1) + s(q/2 - 2) rounded to an integer, ties to even, where s
  clamps to [0, 1], which the hardware does for free. At most one term is no integer, so adding them one
  after another onto 1.5 * 2**23 rounds exactly once.
- With d = block_scale * tensor_scale, q = x/d is replaced by x*r, r = 1/d to within 2**-23. That changes a
  rounding only if t*d, for a midpoint t between two E2M1 numbers, lies within 2**-22 of a number that x can
  be. Midpoints have four mantissas and block scales eight, so 32 products tell, once for the tensor, whether
  this can happen; it can for about one tensor in 200 in bfloat16. Then the quotient is refined (Markstein,
  "Computation of elementary functions on the IBM RISC System/6000 processor", 1990): q0 = x*r, q = q0 + (x -
  q0*d)*r with fused multiply-adds, which decides every rounding to E2M1 as x/d does;
  `tests/kernels/test_quantize_division.py` goes through the mantissas of d.
- float32 input, or an extreme tensor scale, takes the division.

A program is one warp. It takes 8 rows whose swizzled scales fill whole 32-byte sectors: two neighbours in
each quarter of a tile of 128 rows. A thread reads whole blocks of 16, as two halves.
"""

import torch
import triton
import triton.language as tl

from kernels.nvfp4 import (
    BLOCK,
    QuantizedTensor,
    ScaleLayout,
    check_input,
    resolve_tensor_scale,
    scale_shape,
)


def _encode_asm() -> str:
    """PTX: inputs of 4 even elements, of 4 odd elements, and half of the reciprocal four times → 4 bytes of
    2 codes.

    The register `$0` grows from the last element to the first: shift in a sign, then 3 bits of code. The
    bits of the float 1.5 * 2**23 + code are 0x4B400000 + code; the eight constants are taken off together at
    the end.
    """
    lines = ["{", ".reg .f32 a, s, v;", ".reg .b32 c, x;", "mov.b32 $0, 0;"]
    offset = 0
    for element in reversed(range(8)):
        byte = element // 2
        value, half = f"${1 + byte + 4 * (element % 2)}", f"${9 + byte}"
        lines += [
            f"abs.f32 a, {value};",
            f"mul.rn.sat.f32 s, a, {half};",
            "fma.rn.f32 v, s, 0f40800000, 0f4B400000;",
            f"fma.rn.sat.f32 s, a, {half}, 0fBF800000;",
            "fma.rn.f32 v, s, 0f40000000, v;",
            f"fma.rn.sat.f32 s, a, {half}, 0fC0000000;",
            "add.rn.f32 v, v, s;",
            "mov.b32 c, v;",
            f"mov.b32 x, {value};",
            "shf.l.wrap.b32 $0, x, $0, 1;",
            "mad.lo.u32 $0, $0, 8, c;",
        ]
        offset = offset * 16 + 0x4B400000
    return "\n".join([*lines, f"sub.u32 $0, $0, {offset % 2**32};", "}"])


_ENCODE = tl.constexpr(_encode_asm())
_CONSTRAINTS = tl.constexpr("=r" + ",f" * 12)
_ROWS = 8
_BLOCKS = 8
_WARPS = 1
_FREE_BITS = {torch.bfloat16: 24 - 8, torch.float16: 24 - 11}
"""Mantissa bits of a float32 that are zero in every number of the type."""

_AMAX_ELEMENTS = 2048
_AMAX_PROGRAMS = 2048


@triton.jit(do_not_specialize=["rows"])  # type: ignore[untyped-decorator]
def _amax_kernel(x, out, rows, k, stride, ELEMENTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Raise `out` (int32, the bits of a float32) to the largest |x|. NaN bits compare above every number."""
    column = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)
    largest = tl.zeros((ELEMENTS,), tl.int32)
    for row in tl.range(tl.program_id(1), rows, tl.num_programs(1), num_stages=4):
        value = tl.load(x + row.to(tl.int64) * stride + column, mask=column < k, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, value.to(tl.int32, bitcast=True) & 0x7FFFFFFF)
    tl.atomic_max(out, tl.max(largest), sem="relaxed")


@triton.jit
def _tensor_scale_kernel(scale):  # type: ignore[no-untyped-def]
    """Replace an amax by the tensor scale that belongs to it."""
    amax = tl.load(scale)
    tl.store(scale, tl.where(amax == 0.0, 1.0, tl.maximum(tl.div_rn(amax, 2688.0), 1.1754943508222875e-38)))


@triton.jit
def _divide_refined(x, d, r):  # type: ignore[no-untyped-def]
    """x / d, given r = 1/d rounded to nearest: one step of refinement."""
    first = x * r
    return tl.fma(tl.fma(first, -d, x), r, first)


@triton.jit
def _divide_twice_refined(x, d, r):  # type: ignore[no-untyped-def]
    """x / d correctly rounded, given r = 1/d rounded to nearest."""
    first = _divide_refined(x, d, r)
    return tl.fma(tl.fma(first, -d, x), r, first)


@triton.jit  # type: ignore[untyped-decorator]
def _risky(whole, FREE_BITS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Whether some midpoint times some block scale times the tensor scale lies near a number of 24
    - FREE_BITS bits.
    """
    combination = tl.arange(0, 32)
    divisor = whole * (1.0 + 0.125 * (combination % 8).to(tl.float32))
    product = divisor * (1.0 + 0.25 * (combination // 8).to(tl.float32))
    near = ((product.to(tl.int32, bitcast=True) + 4) & ((1 << FREE_BITS) - 1)) <= 8
    return tl.max(near.to(tl.int32)) > 0


@triton.jit
def _refined_quotient(x, d, r):  # type: ignore[no-untyped-def]
    """|x| / d with the sign of x, also of zero."""
    bits = _divide_refined(tl.abs(x), d, r).to(tl.int32, bitcast=True)
    return (bits | (x.to(tl.int32, bitcast=True) & -0x80000000)).to(tl.float32, bitcast=True)


@triton.jit
def _true_quotient(x, d):  # type: ignore[no-untyped-def]
    bits = tl.div_rn(tl.abs(x), d).to(tl.int32, bitcast=True)
    return (bits | (x.to(tl.int32, bitcast=True) & -0x80000000)).to(tl.float32, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator]
def _store_codes(codes, x, half, row, block, part, rows, blocks, WHOLE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Encode x `[ROWS, BLOCKS, 8]`, half a block each, by half the reciprocal, and store 4 bytes of each."""
    shape: tl.constexpr = (x.shape[0], x.shape[1], 4, 2)
    low, high = tl.split(tl.reshape(x, shape))
    byte = tl.inline_asm_elementwise(
        _ENCODE, _CONSTRAINTS, [low, high, tl.broadcast_to(half[:, :, None], low.shape)],
        dtype=tl.uint8, is_pure=True, pack=4,
    )  # fmt: skip
    column = block[:, None] * 8 + part * 4 + tl.arange(0, 4)[None, :]
    offset = row.to(tl.int64)[:, None, None] * (blocks * 8) + column[None, :, :]
    inside = (row < rows)[:, None, None]
    if not WHOLE:
        inside &= (block < blocks)[None, :, None]
    tl.store(codes + offset, byte, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _load_half(x, row, block, part, rows, k, stride, WHOLE: tl.constexpr):  # type: ignore[no-untyped-def]
    column = block[:, None] * 16 + part * 8 + tl.arange(0, 8)[None, :]
    inside = (row < rows)[:, None, None]
    if not WHOLE:
        inside &= (column < k)[None, :, :]
    offset = row.to(tl.int64)[:, None, None] * stride + column[None, :, :]
    return tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["rows"])  # type: ignore[untyped-decorator]
def _quantize_kernel(  # type: ignore[no-untyped-def]
    x, codes, scales, tensor_scale, rows, k, stride, blocks,
    DIVIDE: tl.constexpr, SWIZZLED: tl.constexpr, WHOLE: tl.constexpr, FREE_BITS: tl.constexpr,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Quantize BLOCKS blocks of each of ROWS rows: ROWS / 4 neighbours in each quarter of a tile of 128 rows.

    WHOLE: K is a multiple of 16 * BLOCKS, so that no column needs a mask.
    """
    group = tl.program_id(1)
    groups: tl.constexpr = 128 // ROWS
    near: tl.constexpr = ROWS // 4
    index = tl.arange(0, ROWS)
    row = group // groups * 128 + group % groups * near + index % near + index // near * 32
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    first = _load_half(x, row, block, 0, rows, k, stride, WHOLE)
    second = _load_half(x, row, block, 1, rows, k, stride, WHOLE)
    amax = tl.maximum(tl.max(tl.abs(first), axis=2), tl.max(tl.abs(second), axis=2))

    whole = tl.load(tensor_scale)
    if DIVIDE:
        wanted = tl.div_rn(tl.div_rn(amax, 6.0), whole)
    else:
        wanted = _divide_twice_refined(_divide_refined(amax, 6.0, 1 / 6), whole, tl.div_rn(1.0, whole))
    stored = tl.minimum(tl.maximum(wanted, 0.001953125), 448.0).to(tl.float8e4nv)
    divisor = stored.to(tl.float32) * whole
    half = tl.full(amax.shape, 0.5, tl.float32)
    if DIVIDE:
        first = _true_quotient(first, divisor[:, :, None])
        second = _true_quotient(second, divisor[:, :, None])
    else:
        if _risky(whole, FREE_BITS):
            inverse = tl.div_rn(1.0, divisor)
            first = _refined_quotient(first, divisor[:, :, None], inverse[:, :, None])
            second = _refined_quotient(second, divisor[:, :, None], inverse[:, :, None])
        else:
            half = tl.inline_asm_elementwise(
                "rcp.approx.ftz.f32 $0, $1;", "=f,f", [divisor * 2.0], dtype=tl.float32, is_pure=True, pack=1
            )
    _store_codes(codes, first, half, row, block, 0, rows, blocks, WHOLE)
    _store_codes(codes, second, half, row, block, 1, rows, blocks, WHOLE)

    bits = tl.where(amax == 0.0, 0, stored.to(tl.uint8, bitcast=True).to(tl.int32)).to(tl.uint8)
    r = row[:, None]
    b = block[None, :]
    if SWIZZLED:
        tiles = (blocks + 3) // 4
        tile = (r // 128) * tiles + b // 4
        place = tile.to(tl.int64) * 512 + (r % 32) * 16 + (r % 128) // 32 * 4 + b % 4
        tl.store(scales + place, bits, mask=(r < (rows + 127) // 128 * 128) & (b < tiles * 4))
    else:
        tl.store(scales + r.to(tl.int64) * blocks + b, bits, mask=(r < rows) & (b < blocks))


def amax_into(x: torch.Tensor, out: torch.Tensor) -> None:
    """Set `out` (float32, 1 element) to the largest |x|; NaN or infinity if x holds one. No
    synchronization.
    """
    out.zero_()
    rows, k = x.shape
    columns = triton.cdiv(k, _AMAX_ELEMENTS)
    grid = (columns, min(rows, max(1, _AMAX_PROGRAMS // columns)))
    _amax_kernel[grid](
        x, out.view(torch.int32), rows, k, x.stride(0), ELEMENTS=_AMAX_ELEMENTS, num_warps=8
    )  # fmt: skip


def tensor_scale_into(x: torch.Tensor, out: torch.Tensor) -> None:
    """Set `out` (float32, 0-d) to the tensor scale of x, as `tensor_scale_from_amax`. No synchronization."""
    amax_into(x, out)
    _tensor_scale_kernel[(1,)](out, num_warps=1)


def quantize_into(
    x: torch.Tensor,
    tensor_scale: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor,
    *,
    layout: ScaleLayout = ScaleLayout.SWIZZLED_128X4,
    divide: bool = False,
) -> None:
    """Fill `codes` and `scales`, shaped as in QuantizedTensor; padding of the swizzled scales becomes 0.

    No check, no allocation, no synchronization. tensor_scale: float32 on the card. Unless x is float32 or
    `divide` is set, it must lie in [2**-60, 2**60] and the largest |x| / tensor_scale must be at most 2**60.
    """
    rows, k = x.shape
    blocks = -(-k // BLOCK)
    grid = (triton.cdiv(blocks, _BLOCKS), triton.cdiv(rows, 128) * (128 // _ROWS))
    _quantize_kernel[grid](
        x, codes, scales, tensor_scale, rows, k, x.stride(0), blocks,
        DIVIDE=divide or x.dtype == torch.float32,
        SWIZZLED=layout is ScaleLayout.SWIZZLED_128X4,
        WHOLE=k % (BLOCK * _BLOCKS) == 0,
        FREE_BITS=_FREE_BITS.get(x.dtype, 0), ROWS=_ROWS, BLOCKS=_BLOCKS, num_warps=_WARPS,
    )  # fmt: skip


def needs_division(amax: torch.Tensor, tensor_scale: torch.Tensor) -> bool:
    """Whether these are so extreme that a refined quotient could under- or overflow. Synchronizes."""
    scale = float(tensor_scale)
    return not 2.0**-60 <= scale <= 2.0**60 or float(amax) > 2.0**60 * scale


def quantize(
    x: torch.Tensor,
    *,
    tensor_scale: torch.Tensor | float | None = None,
    layout: ScaleLayout = ScaleLayout.SWIZZLED_128X4,
) -> QuantizedTensor:
    """Quantize a CUDA matrix `[rows, k]` of bfloat16, float16 or float32; equal bits to
    `kernels.nvfp4.quantize`.

    Reads one number back from the card to refuse what the reference refuses, with the same errors:
    NonFiniteError, TensorScaleError, FormatError.
    """
    check_input(x)
    if x.stride(1) != 1:
        x = x.contiguous()
    amax = torch.empty((), dtype=torch.float32, device=x.device)
    amax_into(x, amax)
    scale = resolve_tensor_scale(amax, tensor_scale)
    rows, k = x.shape
    blocks = -(-k // BLOCK)
    codes = torch.empty((rows, blocks * BLOCK // 2), dtype=torch.uint8, device=x.device)
    scales = torch.empty(scale_shape(rows, blocks, layout), dtype=torch.uint8, device=x.device)
    quantize_into(x, scale, codes, scales, layout=layout, divide=needs_division(amax, scale))
    return QuantizedTensor(codes=codes, scales=scales, tensor_scale=scale, rows=rows, k=k, layout=layout)

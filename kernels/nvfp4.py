"""NVFP4: the value, its packing, its two scale layouts, and the reference quantizer. CPU and GPU tensors,
torch only.

A number is stored as an E2M1 code (1 sign, 2 exponent and 1 mantissa bit), two codes to a byte with the even
element in the low nibble. Sixteen consecutive elements along K share one E4M3 block scale. The whole tensor
has one float32 tensor scale. A stored element means

    x = code * block_scale * tensor_scale

`tensor_scale` is always kept in this, the decode direction. (compressed-tensors stores its inverse.)

Sources: the element and scale formats are those of the OCP Microscaling specification v1.0 (E2M1) and the
OCP 8-bit floating point specification v1.0 (E4M3: bias 7, largest 448, smallest subnormal 2**-9, no
infinities). The block size of 16 and the scale layout of the tensor cores are those of the cuBLAS
documentation, "1D block scaling".
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import torch

BLOCK = 16
"""Elements along K that share one block scale."""

E2M1_MAX = 6.0
E4M3_MAX = 448.0
E4M3_MIN_SUBNORMAL = 2.0**-9
FLOAT32_MIN_NORMAL = 2.0**-126

E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""The value of each 4-bit code, by code."""

SWIZZLE_ROWS = 128
"""Rows of one scale tile of the tensor-core layout."""

SWIZZLE_BLOCKS = 4
"""Blocks along K of one scale tile of the tensor-core layout."""


class ScaleLayout(StrEnum):
    """The order in which block scales lie in memory.

    `ROW_MAJOR`: `[rows, ceil(k / 16)]`.

    `SWIZZLED_128X4`: flat, for the tensor cores of Blackwell. Rows are padded to a multiple of 128 and
    blocks to a multiple of 4, both with zero bytes. The scale of row m and block b lies at

        ((m // 128) * ceil(blocks / 4) + b // 4) * 512 + (m % 32) * 16 + (m % 128) // 32 * 4 + b % 4
    """

    ROW_MAJOR = "row_major"
    SWIZZLED_128X4 = "swizzled_128x4"


class NVFP4Error(ValueError):
    """Base of every error that this module raises on bad input."""


class NonFiniteError(NVFP4Error):
    """The input holds NaN or infinity, which NVFP4 cannot represent."""


class TensorScaleError(NVFP4Error):
    """The tensor scale is not a finite, positive, normal float32 scalar."""


class FormatError(NVFP4Error):
    """A shape or dtype does not fit the format."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantizedTensor:
    """One matrix `[rows, k]` in NVFP4.

    codes: uint8 `[rows, ceil(k/16) * 8]`, two E2M1 codes a byte, even element in the low nibble; K is padded
    with
        zero codes to a multiple of 16.
    scales: uint8, the bits of the E4M3 block scales, in the order that `layout` says.
    tensor_scale: float32, 0-d, decode direction.

    Raises FormatError when a part has another shape or dtype than these, or lies on another device.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    tensor_scale: torch.Tensor
    rows: int
    k: int
    layout: ScaleLayout = ScaleLayout.ROW_MAJOR

    def __post_init__(self) -> None:
        if self.rows < 1 or self.k < 1:
            raise FormatError(f"rows and k must be at least 1, not {self.rows} and {self.k}")
        _expect("codes", self.codes, torch.uint8, (self.rows, self.blocks * BLOCK // 2))
        _expect("scales", self.scales, torch.uint8, scale_shape(self.rows, self.blocks, self.layout))
        _expect("tensor_scale", self.tensor_scale, torch.float32, ())
        devices = {t.device for t in (self.codes, self.scales, self.tensor_scale)}
        if len(devices) != 1:
            raise FormatError(f"codes, scales and tensor_scale lie on different devices: {devices}")

    @property
    def blocks(self) -> int:
        """Blocks of 16 in one row, the last perhaps padded."""
        return -(-self.k // BLOCK)

    @property
    def nbytes(self) -> int:
        """Bytes of the three parts, padding included."""
        return self.codes.nbytes + self.scales.nbytes + self.tensor_scale.nbytes

    def to(self, device: torch.device | str) -> "QuantizedTensor":
        """The same value on `device`."""
        return replace(
            self,
            codes=self.codes.to(device),
            scales=self.scales.to(device),
            tensor_scale=self.tensor_scale.to(device),
        )


def _expect(name: str, tensor: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    if tensor.dtype != dtype or tuple(tensor.shape) != shape:
        raise FormatError(
            f"{name} must be {dtype} of shape {list(shape)}, not {tensor.dtype} of shape {list(tensor.shape)}"
        )


def scale_shape(rows: int, blocks: int, layout: ScaleLayout) -> tuple[int, ...]:
    """The shape of the scales of a matrix with `rows` rows and `blocks` blocks a row."""
    if layout is ScaleLayout.ROW_MAJOR:
        return (rows, blocks)
    padded_rows = -(-rows // SWIZZLE_ROWS) * SWIZZLE_ROWS
    padded_blocks = -(-blocks // SWIZZLE_BLOCKS) * SWIZZLE_BLOCKS
    return (padded_rows * padded_blocks,)


def pack(codes: torch.Tensor) -> torch.Tensor:
    """Two codes to a byte: uint8 `[..., n]` with values 0 to 15 → uint8 `[..., ceil(n/2)]`.

    The even element lies in the low nibble. An odd n is padded with one zero code. Raises FormatError for
    another dtype or a value above 15.
    """
    if codes.dtype != torch.uint8 or codes.ndim < 1:
        raise FormatError(
            f"codes must be uint8 with at least one dimension, not {codes.dtype} of {codes.ndim}"
        )
    if codes.numel() and int(codes.max()) > 15:
        raise FormatError(f"a code has 4 bits, but the largest here is {int(codes.max())}")
    if codes.shape[-1] % 2:
        codes = torch.nn.functional.pad(codes, (0, 1))
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    """The inverse of `pack`: uint8 `[..., n]` → uint8 codes `[..., 2n]`. Raises FormatError for another
    dtype.
    """
    if packed.dtype != torch.uint8:
        raise FormatError(f"packed codes must be uint8, not {packed.dtype}")
    return torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2)


def swizzle_offset(row: torch.Tensor, block: torch.Tensor, blocks: int) -> torch.Tensor:
    """Where the scale of (row, block) lies in the flat `SWIZZLED_128X4` layout; integer tensors,
    broadcast.
    """
    tile = (row // SWIZZLE_ROWS) * -(-blocks // SWIZZLE_BLOCKS) + block // SWIZZLE_BLOCKS
    return tile * 512 + (row % 32) * 16 + (row % SWIZZLE_ROWS) // 32 * 4 + block % SWIZZLE_BLOCKS


def _offsets(rows: int, blocks: int, device: torch.device) -> torch.Tensor:
    row = torch.arange(rows, device=device).unsqueeze(1)
    return swizzle_offset(row, torch.arange(blocks, device=device), blocks)


def to_layout(q: QuantizedTensor, layout: ScaleLayout) -> QuantizedTensor:
    """The same value with its scales in `layout`. Codes are shared, not copied."""
    if q.layout is layout:
        return q
    offsets = _offsets(q.rows, q.blocks, q.scales.device)
    if layout is ScaleLayout.ROW_MAJOR:
        return replace(q, scales=q.scales[offsets], layout=layout)
    scales = torch.zeros(scale_shape(q.rows, q.blocks, layout), dtype=torch.uint8, device=q.scales.device)
    scales[offsets] = q.scales
    return replace(q, scales=scales, layout=layout)


def encode_e2m1(x: torch.Tensor) -> torch.Tensor:
    """Float tensor → E2M1 codes 0 to 15 (uint8, same shape): nearest, ties to the even code, saturating at
    ±6.

    The sign of zero is kept: -0.0 gives code 8. NaN has no meaning here and must have been refused before.
    """
    a = x.abs()
    code = torch.zeros_like(a, dtype=torch.uint8)
    # Midpoints between neighbours. A tie goes to the even code: down after an even lower code, up after an
    # odd one.
    for lower_code, midpoint in enumerate((0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)):
        code += (a >= midpoint) if lower_code % 2 else (a > midpoint)
    return code | (torch.signbit(x).to(torch.uint8) << 3)


def encode_e4m3(x: torch.Tensor) -> torch.Tensor:
    """Float32 → the bits of E4M3 (uint8): nearest, ties to even, saturating at ±448."""
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def decode_e4m3(bits: torch.Tensor) -> torch.Tensor:
    """The bits of E4M3 (uint8) → float32, exact. 0x7F and 0xFF are NaN."""
    return bits.view(torch.float8_e4m3fn).to(torch.float32)


def divide(x: torch.Tensor, by: float) -> torch.Tensor:
    """x / by, correctly rounded. On CUDA, torch turns a division by a Python number into a product
    with its inverse.
    """
    return x / torch.full((), by, dtype=x.dtype, device=x.device)


def tensor_scale_from_amax(amax: torch.Tensor) -> torch.Tensor:
    """amax / (6 * 448), so that the largest block scale becomes 448; float32, 0-d, from a finite float32
    amax.

    At least 2**-126, the smallest normal float32, so that no later quotient divides by zero or by a number
    that has lost its precision. A tensor of zeros gets 1.
    """
    scale = divide(amax, E2M1_MAX * E4M3_MAX).clamp(min=FLOAT32_MIN_NORMAL)
    return torch.where(amax == 0, torch.ones_like(scale), scale)


def choose_tensor_scale(x: torch.Tensor) -> torch.Tensor:
    """The tensor scale that `quantize` takes for x when none is given; float32, 0-d. Raises
    NonFiniteError.
    """
    return resolve_tensor_scale(x.abs().amax().to(torch.float32), None)


def check_input(x: torch.Tensor) -> None:
    """Raise FormatError unless x is a matrix that can be quantized."""
    if x.ndim != 2 or not x.numel():
        raise FormatError(f"x must be a matrix with at least one element, not of shape {list(x.shape)}")
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise FormatError(f"x must be float32, bfloat16 or float16, not {x.dtype}")


def resolve_tensor_scale(amax: torch.Tensor, given: torch.Tensor | float | None) -> torch.Tensor:
    """The tensor scale to use: `given`, or the one that belongs to `amax` (float32, 0-d), on the device of
    amax.

    Raises NonFiniteError when amax is not finite, TensorScaleError when `given` is not a finite, positive,
    normal float32.
    """
    if not bool(torch.isfinite(amax)):
        raise NonFiniteError("the input holds NaN or infinity")
    if given is None:
        return tensor_scale_from_amax(amax)
    scale = torch.as_tensor(given, dtype=torch.float32, device=amax.device)
    if scale.ndim or not FLOAT32_MIN_NORMAL <= float(scale) < float("inf"):
        raise TensorScaleError(f"the tensor scale must be one finite normal positive float32, not {given}")
    return scale


def quantize(x: torch.Tensor, *, tensor_scale: torch.Tensor | float | None = None) -> QuantizedTensor:
    """Quantize a matrix `[rows, k]` of float32, bfloat16 or float16 to NVFP4, scales row-major.

    All arithmetic is float32 with one rounding an operation, in this order:

        tensor_scale = amax / 2688                       unless given
        block_scale  = E4M3(block_amax / 6 / tensor_scale)   nearest even, at least 2**-9, at most 448
        code         = E2M1(x / (block_scale * tensor_scale))   nearest even, at most 6 in magnitude

    The smallest block scale is 2**-9, the smallest E4M3 subnormal, not the smallest normal 2**-6 that some
    libraries use: with 2**-6 every block whose amax is under 2**-8 of the tensor's scale would become zeros.
    A block of zeros stores scale 0 and zero codes.

    Raises NonFiniteError for NaN or infinity in x, TensorScaleError for an unusable tensor scale,
    FormatError for another dtype or number of dimensions, or for an empty matrix.
    """
    check_input(x)
    scale = resolve_tensor_scale(x.abs().amax().to(torch.float32), tensor_scale)
    rows, k = x.shape
    blocks = -(-k // BLOCK)
    padded = torch.nn.functional.pad(x.to(torch.float32), (0, blocks * BLOCK - k))
    grouped = padded.view(rows, blocks, BLOCK)
    block_amax = grouped.abs().amax(dim=-1)
    wanted = (divide(block_amax, E2M1_MAX) / scale).clamp(min=E4M3_MIN_SUBNORMAL)
    bits = torch.where(block_amax == 0, 0, encode_e4m3(wanted))
    divisor = torch.where(block_amax == 0, 1.0, decode_e4m3(bits) * scale)
    codes = pack(encode_e2m1(grouped / divisor.unsqueeze(-1)).view(rows, -1))
    return QuantizedTensor(codes=codes, scales=bits, tensor_scale=scale, rows=rows, k=k)


def decode_blocks(q: QuantizedTensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """code * block_scale, without the tensor scale, `[rows, k]`.

    Exact in bfloat16, float16, float32 and float64: a product of an E2M1 and an E4M3 number has at most 6
    significant bits, a magnitude of at least 2**-10 and at most 2688.
    """
    values = torch.tensor(E2M1_VALUES, dtype=torch.float32, device=q.codes.device)
    codes = unpack(q.codes).to(torch.int32)
    scales = decode_e4m3(to_layout(q, ScaleLayout.ROW_MAJOR).scales)
    product = values[codes].view(q.rows, q.blocks, BLOCK) * scales.unsqueeze(-1)
    return product.view(q.rows, -1)[:, : q.k].to(dtype)


def dequantize(q: QuantizedTensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """code * block_scale * tensor_scale, `[rows, k]` in `dtype`.

    float64 is exact. float32 rounds once. bfloat16 and float16 are rounded from the float32 value.
    """
    if dtype == torch.float64:
        return decode_blocks(q, torch.float64) * q.tensor_scale.to(torch.float64)
    return (decode_blocks(q) * q.tensor_scale).to(dtype)

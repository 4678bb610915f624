"""Weights in the order in which the Hopper GEMM reads them; `kernels/csrc/hopper_gemm.cuh` states the layout.

Row-wise powers of two: each row's block scales are moved to a fixed top binade and the row's fp32 factor
takes the power back. For 16-bit activations nothing is rounded: E4M3 scales span 18 binades and their
re-encoding E5M3 has 30. For E4M3 activations the kernel rounds code * scale to E4M3, to nearest and ties to
even; a block more than ten binades below its row's largest counts as zero there.
"""

from dataclasses import dataclass
from enum import StrEnum

import torch

ROWS, COLUMNS = 64, 64
CODE_BYTES, SCALE_BYTES = 2048, 256
BLOCK_BYTES = CODE_BYTES + SCALE_BYTES
K_MULTIPLE = 256
"""K is padded to this, with zero codes: every configuration's stage divides it."""


class Bits(StrEnum):
    """Layout of the codes in a word, by the type they are decoded to."""

    BF16 = "bf16"
    FP16 = "fp16"
    E4M3 = "e4m3"


TOP_FIELD = {Bits.BF16: 30, Bits.FP16: 30, Bits.E4M3: 12}
"""Exponent field that the largest scale of each row gets: of E5M3, or of E4M3, where 6 * scale must stay
finite.
"""
TOP_EXPONENT = {Bits.BF16: 1, Bits.FP16: 1, Bits.E4M3: 5}
"""Binade in which the decoder puts code 1 times such a scale. (E5M3 has bias 22, and 2^-7 is folded in.)"""
LOWEST_FIELD = {Bits.BF16: 1, Bits.FP16: 1, Bits.E4M3: 2}
"""Smallest exponent field that is decoded right."""
FIVE = (1, 2, 3, 4, 5)
"""E4M3 mantissas for which 1.5 times the scale, rounded, lies five steps above it; for the others four."""

POSITIONS: dict[Bits, tuple[tuple[int, int, int, int], ...]] = {
    Bits.BF16: ((15, 8, 7, 6), (12, 5, 4, 3), (14, 11, 10, 9), (13, 2, 1, 0)),
    Bits.FP16: ((15, 11, 10, 9), (7, 3, 2, 1), (8, 14, 13, 12), (0, 6, 5, 4)),
}
"""Bit of a 16-bit lane that holds [sign, e1, e0, m] of A register 0 to 3."""


class UnpackableError(ValueError):
    """The weight cannot be packed; the message names what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A packed weight [n, k].

    blocks: uint8 [ceil(n / 64), k padded / 64, 2304]. row_scale: float32 [n padded to 64]:
    weight = decoded * row_scale, where decoded is what the kernel's decoder yields.
    """

    n: int
    k: int
    bits: Bits
    blocks: torch.Tensor
    row_scale: torch.Tensor

    @property
    def nbytes(self) -> int:
        """Bytes of both parts, padding included."""
        return self.blocks.nbytes + self.row_scale.nbytes


def _normalized_scales() -> tuple[torch.Tensor, torch.Tensor]:
    """int32 exponent and 3-bit mantissa of each of the 128 non-negative E4M3 values; the exponent of zero is
    -100.
    """
    exponents, mantissas = [], []
    for bits in range(128):
        exponent, mantissa = (bits >> 3) - 7, bits & 7
        if bits < 8:
            exponent = -6 if mantissa else -100
            while 0 < mantissa < 8:
                mantissa, exponent = mantissa * 2, exponent - 1
        exponents.append(exponent)
        mantissas.append(mantissa & 7)
    return torch.tensor(exponents, dtype=torch.int32), torch.tensor(mantissas, dtype=torch.int32)


def _spread(bits: Bits) -> torch.Tensor:
    """int32 [4 registers, 16 codes]: the lane bits of each code."""
    table = torch.zeros(4, 16, dtype=torch.int32)
    for register, places in enumerate(POSITIONS[bits]):
        for code in range(16):
            table[register, code] = sum(((code >> (3 - i)) & 1) << place for i, place in enumerate(places))
    return table


def _fragment_words(nibbles: torch.Tensor, bits: Bits) -> torch.Tensor:
    """int32 codes [rows, k] to words [panels, chunks, warp, g, t, step] for 16-bit activations."""
    spread = _spread(bits).to(nibbles.device)
    panels, chunks = nibbles.shape[0] // ROWS, nibbles.shape[1] // COLUMNS
    # row = 64 panel + 16 warp + 8 r + g, column = 64 chunk + 16 step + 8 q + 2 t + h
    split = nibbles.reshape(panels, 4, 2, 8, chunks, 4, 2, 4, 2)
    words = torch.zeros(panels, chunks, 4, 8, 4, 4, dtype=torch.int32, device=nibbles.device)
    for r in range(2):
        for q in range(2):
            for h in range(2):
                part = split[:, :, r, :, :, :, q, :, h].permute(0, 3, 1, 2, 5, 4)
                words |= spread[r + 2 * q][part] << (16 * h)
    return words


def _block_words(nibbles: torch.Tensor) -> torch.Tensor:
    """int32 codes [rows, k] to words [panels, chunks, warp, g, t, 2 r + h] for E4M3 activations."""
    panels, chunks = nibbles.shape[0] // ROWS, nibbles.shape[1] // COLUMNS
    # row = 64 panel + 16 warp + 8 r + g, column = 64 chunk + 16 t + 8 h + 4 u + j
    split = nibbles.reshape(panels, 4, 2, 8, chunks, 4, 2, 2, 4).permute(0, 4, 1, 3, 5, 2, 6, 7, 8)
    words = torch.zeros(panels, chunks, 4, 8, 4, 2, 2, dtype=torch.int32, device=nibbles.device)
    for u in range(2):
        for j in range(4):
            code = split[..., u, j]
            words |= ((code & 7) << (4 * (4 * u + j))) | ((code >> 3) << (8 * j + 7 - 4 * u))
    return words.reshape(panels, chunks, 4, 8, 4, 4)


def _scale_bytes(scales: torch.Tensor, bits: Bits) -> torch.Tensor:
    """uint8 [rows, k / 16] to [panels, chunks, 256]."""
    panels, chunks = scales.shape[0] // ROWS, scales.shape[1] // 4
    split = scales.reshape(panels, 4, 2, 8, chunks, 4)  # panel, warp, r, g, chunk, block
    order = (0, 4, 1, 3, 5, 2) if bits is Bits.E4M3 else (0, 4, 1, 3, 2, 5)
    return split.permute(order).reshape(panels, chunks, SCALE_BYTES)


def _pack_rows(nibbles: torch.Tensor, scales: torch.Tensor, bits: Bits) -> torch.Tensor:
    words = _block_words(nibbles) if bits is Bits.E4M3 else _fragment_words(nibbles, bits)
    codes = words.reshape(*words.shape[:2], CODE_BYTES // 4).view(torch.uint8)
    return torch.cat((codes, _scale_bytes(scales, bits)), dim=2)


def _check(codes: torch.Tensor, scales: torch.Tensor) -> tuple[int, int]:
    n, k = codes.shape[0], codes.shape[1] * 2
    if n % 16 or k % 16:
        raise UnpackableError(f"N and K must be multiples of 16, not {n} and {k}")
    if tuple(scales.shape) != (n, k // 16):
        raise UnpackableError(f"the block scales are {tuple(scales.shape)}, not {(n, k // 16)}")
    if bool(((scales & 0x7F) == 0x7F).any()):
        raise UnpackableError("a block scale is NaN")
    return n, k


def pack(
    codes: torch.Tensor,
    scales: torch.Tensor,
    tensor_scale: torch.Tensor,
    bits: Bits,
    *,
    rows_at_once: int = 4096,
) -> Packed:
    """Packs uint8 codes [n, k / 2] (even element in the low nibble) and E4M3 bits uint8 [n, k / 16],
    row-major.

    tensor_scale: float32, one value or one per row (fused layers), decode direction. Negative block scales
    move their sign into the codes; blocks of scale zero become zero codes. Raises UnpackableError.
    """
    n, k = _check(codes, scales)
    device = codes.device
    exponent_of, mantissa_of = (table.to(device) for table in _normalized_scales())
    padded_n, padded_k = -(-n // ROWS) * ROWS, -(-k // K_MULTIPLE) * K_MULTIPLE
    blocks = torch.empty(padded_n // ROWS, padded_k // COLUMNS, BLOCK_BYTES, dtype=torch.uint8, device=device)
    factor = torch.zeros(padded_n, dtype=torch.float32, device=device)
    for start in range(0, n, rows_at_once):
        count = min(rows_at_once, n - start)
        padded = -(-count // ROWS) * ROWS
        bits_of = scales[start : start + count]
        magnitude = (bits_of & 0x7F).int()
        exponent, mantissa = exponent_of[magnitude], mantissa_of[magnitude]
        top = exponent.amax(dim=1, keepdim=True).clamp(min=-9)
        field = exponent - top + TOP_FIELD[bits]
        live = field >= LOWEST_FIELD[bits]
        byte = (field.clamp(min=LOWEST_FIELD[bits]) << 3) | mantissa
        if bits is Bits.E4M3:
            byte |= torch.isin(mantissa, torch.tensor(FIVE, device=device)).int() << 7
        raw = codes[start : start + count].int()
        nibbles = torch.zeros(padded, padded_k, dtype=torch.int32, device=device)
        nibbles[:count, 0:k:2] = raw & 15
        nibbles[:count, 1:k:2] = raw >> 4
        nibbles[:count, :k] ^= ((bits_of.int() >> 7) << 3).repeat_interleave(16, dim=1)
        nibbles[:count, :k] &= (live.int() * 15).repeat_interleave(16, dim=1)
        encoded = torch.full(
            (padded, padded_k // 16), LOWEST_FIELD[bits] << 3, dtype=torch.uint8, device=device
        )
        encoded[:count, : k // 16] = byte.to(torch.uint8)
        blocks[start // ROWS : (start + padded) // ROWS] = _pack_rows(nibbles, encoded, bits)
        power = (top[:, 0] - TOP_EXPONENT[bits]).float()
        factor[start : start + count] = torch.exp2(power)
    factor[:n] *= tensor_scale.to(device=device, dtype=torch.float32)
    return Packed(n=n, k=k, bits=bits, blocks=blocks, row_scale=factor)


def _signed(words: torch.Tensor, places: tuple[int, int, int, int]) -> torch.Tensor:
    """float64 codes whose [sign, e1, e0, m] are these bits of the words."""
    value = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64, device=words.device)
    s, e1, e0, m = (((words >> place) & 1).long() for place in places)
    return value[e1 * 4 + e0 * 2 + m] * (1 - 2 * s)


def decoded(packed: Packed) -> torch.Tensor:
    """float64 [n, k]: what the kernel's decoder yields, derived from the layout's definition. For tests."""
    panels, chunks = packed.blocks.shape[:2]
    words = (
        packed.blocks[:, :, :CODE_BYTES].contiguous().view(torch.int32).reshape(panels, chunks, 4, 8, 4, 4)
    )
    out = torch.zeros(panels, 4, 2, 8, chunks, 64, dtype=torch.float64, device=words.device)
    tail = packed.blocks[:, :, CODE_BYTES:].long()
    if packed.bits is Bits.E4M3:
        view = out.view(panels, 4, 2, 8, chunks, 4, 2, 2, 4)
        for u in range(2):
            for j in range(4):
                low = 4 * (4 * u + j)
                code = _signed(words, (8 * j + 7 - 4 * u, low + 2, low + 1, low)).reshape(
                    panels, chunks, 4, 8, 4, 2, 2
                )
                view[..., u, j] = code.permute(0, 2, 5, 3, 1, 4, 6)
        scale = tail.reshape(panels, chunks, 4, 8, 4, 2).permute(0, 2, 5, 3, 1, 4) & 0x7F
        block = torch.ldexp(1 + (scale & 7).double() / 8, (scale >> 3) - 7)
        exact = out.view(panels, 4, 2, 8, chunks, 4, 16) * block[..., None]
        out = exact.float().to(torch.float8_e4m3fn).double()
    else:
        view = out.view(panels, 4, 2, 8, chunks, 4, 2, 4, 2)
        for register, places in enumerate(POSITIONS[packed.bits]):
            for h in range(2):
                code = _signed(words >> (16 * h), places)
                view[:, :, register & 1, :, :, :, register >> 1, :, h] = code.permute(0, 2, 3, 1, 5, 4)
        scale = tail.reshape(panels, chunks, 4, 8, 2, 4).permute(0, 2, 4, 3, 1, 5)
        block = torch.ldexp(1 + (scale & 7).double() / 8, (scale >> 3) - 22 - 7)
        out = out.view(panels, 4, 2, 8, chunks, 4, 16) * block[..., None]
    return out.reshape(panels * ROWS, chunks * COLUMNS)[: packed.n, : packed.k]

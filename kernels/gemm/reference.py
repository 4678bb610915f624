"""Reference products in float64. Slow, exact up to float64 accumulation, and they import no kernel.

Shapes: x `[M, K]`, weight `[N, K]`, result `[M, N]` = x times weight transposed.
"""

from collections.abc import Callable

import torch

from kernels.nvfp4 import FormatError, QuantizedTensor, decode_blocks, dequantize, quantize
from kernels.registry import Implementation, Kind, Precision

MMA_K = 64
"""K of one block-scaled FP4 instruction, `mma.m16n8k64`."""


def w4a16(x: torch.Tensor, weight: QuantizedTensor) -> torch.Tensor:
    """x times the exact value of the weights: float64 `[M, N]`. Raises FormatError when K differs."""
    _same_k(x.shape[1], weight.k)
    return x.to(torch.float64) @ dequantize(weight, torch.float64).T


def w4a4(x: QuantizedTensor, weight: QuantizedTensor) -> torch.Tensor:
    """The exact product of two NVFP4 matrices: float64 `[M, N]`. Raises FormatError when K differs."""
    _same_k(x.k, weight.k)
    return dequantize(x, torch.float64) @ dequantize(weight, torch.float64).T


def _same_k(x: int, weight: int) -> None:
    if x != weight:
        raise FormatError(f"x has K = {x}, the weight has K = {weight}")


def round_to_nearest(sums: torch.Tensor) -> torch.Tensor:
    """float64 → float32, nearest even: an adder as IEEE 754 has it."""
    return sums.to(torch.float32)


def round_toward_zero(sums: torch.Tensor) -> torch.Tensor:
    """float64 → float32, truncated: what tensor cores have been measured to do when they accumulate.

    (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science
    2021.)
    """
    nearest = sums.to(torch.float32)
    overshot = nearest.to(torch.float64).abs() > sums.abs()
    return torch.where(overshot, torch.nextafter(nearest, torch.zeros_like(nearest)), nearest)


def tensor_core_w4a4(
    x: QuantizedTensor,
    weight: QuantizedTensor,
    rounding: Callable[[torch.Tensor], torch.Tensor] = round_toward_zero,
) -> torch.Tensor:
    """A model of the block-scaled FP4 tensor core: float32 `[M, N]` before any conversion to 16 bits.

    One `mma.m16n8k64` adds to a float32 accumulator four groups of 16 products, each group times the scale
    of x and the scale of the weight. A group is exact (multiples of 1/4, at most 16 * 36), its scaled value
    has at most 12 + 4 + 4 significant bits, and the model takes the sum of four groups and the accumulator
    exactly and rounds it once, with `rounding`. The instructions follow one another along K, and both tensor
    scales multiply the accumulator at the end. Where exactly the hardware truncates is not published;
    `tensor_core_bound` is how far it may lie from the exact product, and the difference between the two
    roundings here is one part of that.
    """
    _same_k(x.k, weight.k)
    left, right = (_padded(q) for q in (x, weight))
    accumulator = torch.zeros(x.rows, weight.rows, dtype=torch.float32, device=x.codes.device)
    for start in range(0, left.shape[1], MMA_K):
        step = left[:, start : start + MMA_K] @ right[:, start : start + MMA_K].T
        accumulator = rounding(accumulator.to(torch.float64) + step)
    return accumulator * (x.tensor_scale * weight.tensor_scale)


def tensor_core_bound(x: QuantizedTensor, weight: QuantizedTensor, fraction_bits: int = 22) -> torch.Tensor:
    """How far a tensor core's result may lie from `w4a4`, elementwise: float64 `[M, N]`.

    Each instruction loses at most 2**-fraction_bits of the largest of its terms and its accumulator for each
    of its five addends; the sum of magnitudes bounds that. Two more float32 roundings belong to the tensor
    scales.
    """
    _same_k(x.k, weight.k)
    magnitude = dequantize(x, torch.float64).abs() @ dequantize(weight, torch.float64).abs().T
    instructions = -(-x.k // MMA_K)
    return magnitude * (5 * instructions * 2.0**-fraction_bits + 2 * 2.0**-24)


def _padded(q: QuantizedTensor) -> torch.Tensor:
    values = decode_blocks(q, torch.float64)
    return torch.nn.functional.pad(values, (0, -q.k % MMA_K))


def _run_w4a16(state: QuantizedTensor, x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(w4a16(x, state))


def _run_w4a4(state: QuantizedTensor, x: QuantizedTensor, out: torch.Tensor) -> None:
    out.copy_(tensor_core_w4a4(x, state))


def _keep(weight: QuantizedTensor) -> QuantizedTensor:
    return weight


def _quantize_input(_: QuantizedTensor, x: torch.Tensor) -> QuantizedTensor:
    return quantize(x)


IMPLEMENTATIONS = (
    Implementation(
        name="reference-w4a16",
        kind=Kind.GEMM,
        precision=Precision.W4A16,
        summary="float64 product with exactly decoded weights",
        tolerance=4e-3,
        cpu_only=True,
        prepare=_keep,
        run=_run_w4a16,
    ),
    Implementation(
        name="reference-w4a4",
        kind=Kind.GEMM,
        precision=Precision.W4A4,
        summary="model of the block-scaled FP4 tensor core",
        tolerance=4e-3,
        cpu_only=True,
        prepare=_keep,
        run=_run_w4a4,
        quantize_input=_quantize_input,
    ),
)

"""Is a result right? Fresh random operands, outputs filled with NaN, a float64 reference, an error that is
stated.

Nothing is timed before its check has passed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch

from kernels.gemm import reference
from kernels.nvfp4 import (
    BLOCK,
    QuantizedTensor,
    ScaleLayout,
    quantize,
    scale_shape,
    tensor_scale_from_amax,
    to_layout,
)
from kernels.registry import Implementation, Precision

MAX_CHECKED_ROWS = 256
"""Rows of the result that are compared; of more rows these many are drawn, the first and the last among
them.
"""

STRIP = 64
"""Columns of the result whose error is taken together, so that one wrong tile cannot hide in the whole."""

WORST_STRIP_FACTOR = 3.0
"""How many times the tolerance the worst strip of one row may err."""


class Data(StrEnum):
    """How operands are drawn."""

    NORMAL = "normal"
    """Weights quantized from a normal distribution."""
    EXTREME = "extreme"
    """Every code equally likely, block scales uniform over all finite non-negative E4M3 values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The outcome of one check. rel_error: relative Frobenius error over the checked rows, None if
    unknown.
    """

    ok: bool
    rel_error: float | None
    reason: str | None = None


def random_weight(n: int, k: int, data: Data, generator: torch.Generator) -> QuantizedTensor:
    """A weight `[n, k]` on the generator's device, of about unit output variance for unit inputs."""
    device = generator.device
    if data is Data.NORMAL:
        return quantize(torch.randn(n, k, device=device, generator=generator) * k**-0.5)
    blocks = -(-k // BLOCK)
    scale_bits = torch.randint(0, 0x7F, (n, blocks), dtype=torch.uint8, device=device, generator=generator)
    codes = torch.randint(
        0, 256, (n, blocks * BLOCK // 2), dtype=torch.uint8, device=device, generator=generator
    )
    _clear_padding(codes, k)
    return QuantizedTensor(
        codes=codes,
        scales=scale_bits,
        tensor_scale=torch.tensor(k**-0.5 / 256, device=device),
        rows=n,
        k=k,
    )


def _clear_padding(codes: torch.Tensor, k: int) -> None:
    codes[:, -(-k // 2) :] = 0
    if k % 2:
        codes[:, k // 2] &= 0xF


def random_input(m: int, k: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Normal activations `[m, k]` on the generator's device."""
    return torch.randn(m, k, device=generator.device, generator=generator).to(dtype)


def compare(got: torch.Tensor, want: torch.Tensor, tolerance: float) -> Check:
    """Compare a result with float64 `want`, both `[rows, N]`, over the whole and strip by strip."""
    if not bool(torch.isfinite(got).all()):
        return Check(ok=False, rel_error=None, reason="not every element is written or finite")
    error = (got.to(torch.float64) - want).square()
    size = want.square()
    whole = float((error.sum() / size.sum().clamp(min=1e-300)).sqrt())
    worst = float((_strips(error) / _strips(size).clamp(min=1e-300)).max().sqrt())
    if whole > tolerance:
        return Check(ok=False, rel_error=whole, reason=f"relative error {whole:.2e} above {tolerance:.2e}")
    if worst > tolerance * WORST_STRIP_FACTOR and bool(error.max() > 0):
        return Check(
            ok=False, rel_error=whole, reason=f"relative error {worst:.2e} in one strip of {STRIP} columns"
        )
    return Check(ok=True, rel_error=whole)


def _strips(squares: torch.Tensor) -> torch.Tensor:
    padded = torch.nn.functional.pad(squares, (0, -squares.shape[1] % STRIP))
    total = padded.view(squares.shape[0], -1, STRIP).sum(dim=-1)
    # Strips whose exact sum nearly cancels are judged against the row as a whole.
    return total + squares.mean(dim=1, keepdim=True) * 1e-3


def checked_rows(m: int, generator: torch.Generator) -> torch.Tensor:
    """Which rows to compare: all, or MAX_CHECKED_ROWS of them with both ends."""
    if m <= MAX_CHECKED_ROWS:
        return torch.arange(m, device=generator.device)
    drawn = torch.randperm(m - 2, device=generator.device, generator=generator)[: MAX_CHECKED_ROWS - 2] + 1
    ends = torch.tensor([0, m - 1], device=generator.device)
    return torch.cat((ends, drawn)).sort().values


def expected(
    precision: Precision, x: torch.Tensor, weight: QuantizedTensor, tensor_scale: float
) -> torch.Tensor:
    """The float64 reference `[rows, N]`: NVFP4 activations for W4A4, else x as it is."""
    if precision is Precision.W4A4:
        return reference.w4a4(quantize(x, tensor_scale=tensor_scale), weight)
    return reference.w4a16(x, weight)


def check_gemm(
    implementation: Implementation,
    weight: QuantizedTensor,
    state: Any,
    m: int,
    generator: torch.Generator,
) -> Check:
    """Check one GEMM, whose `prepare(weight)` gave `state`, on fresh inputs with m rows."""
    x = random_input(m, weight.k, implementation.dtype, generator)
    rows = checked_rows(m, generator)
    out = torch.full((m, weight.rows), torch.nan, dtype=implementation.dtype, device=x.device)
    operand = implementation.quantize_input(state, x) if implementation.quantize_input else x
    implementation.run(state, operand, out)
    if not bool(torch.isfinite(out).all()):
        return Check(ok=False, rel_error=None, reason="not every element is written or finite")
    scale = float(tensor_scale_from_amax(x.abs().amax().to(torch.float32)))
    return compare(
        out[rows], expected(implementation.precision, x[rows], weight, scale), implementation.tolerance
    )


def empty_output(x: torch.Tensor, fill: int = 0xA5) -> QuantizedTensor:
    """A NVFP4 value shaped for x with swizzled scales, every byte `fill`, tensor scale that of x."""
    rows, k = x.shape
    blocks = -(-k // BLOCK)
    layout = ScaleLayout.SWIZZLED_128X4
    return QuantizedTensor(
        codes=torch.full((rows, blocks * BLOCK // 2), fill, dtype=torch.uint8, device=x.device),
        scales=torch.full(scale_shape(rows, blocks, layout), fill, dtype=torch.uint8, device=x.device),
        tensor_scale=tensor_scale_from_amax(x.abs().amax().to(torch.float32)),
        rows=rows,
        k=k,
        layout=layout,
    )


def _normal(m: int, k: int, generator: torch.Generator) -> torch.Tensor:
    return random_input(m, k, torch.bfloat16, generator)


def _wide(m: int, k: int, generator: torch.Generator) -> torch.Tensor:
    """Magnitudes over 40 binades, a zero block and signed zeros: every branch of the quantizer."""
    exponents = torch.randint(-24, 16, (m, k), device=generator.device, generator=generator)
    x = (torch.randn(m, k, device=generator.device, generator=generator) * 2.0**exponents).to(torch.bfloat16)
    x[:, :BLOCK] = 0
    x[0, 0] = -0.0
    return x


def check_quantizer(implementation: Implementation, m: int, k: int, *, seed: int, device: str) -> Check:
    """Compare every stored bit with the reference, on normal and on very wide data."""
    generator = torch.Generator(device).manual_seed(seed)
    makers: tuple[Callable[[int, int, torch.Generator], torch.Tensor], ...] = (_normal, _wide)
    for make in makers:
        x = make(m, k, generator)
        out = empty_output(x)
        implementation.run(None, x, out)
        want = to_layout(quantize(x), out.layout)
        for part in ("codes", "scales", "tensor_scale"):
            wrong = int((getattr(out, part) != getattr(want, part)).sum())
            if wrong:
                return Check(
                    ok=False, rel_error=None, reason=f"{wrong} of the {part} differ from the reference"
                )
    return Check(ok=True, rel_error=0.0)

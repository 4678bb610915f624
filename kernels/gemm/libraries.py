"""Products by public libraries, to compare with: cuBLAS through torch, FlashInfer, and Triton's
scaled dot.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch

from kernels.nvfp4 import BLOCK, E4M3_MAX, QuantizedTensor, ScaleLayout, dequantize, scale_shape, to_layout
from kernels.registry import Implementation, Kind, Machine, Precision

NO_BLACKWELL = "compiled or called by its documentation only: no card with FP4 tensor cores was at hand"


def _card(machine: Machine) -> str | None:
    return machine.needs(at_least=(8, 0))


def _card_with_fp8(machine: Machine) -> str | None:
    return machine.needs(at_least=(8, 9))


def _card_with_fp4(machine: Machine) -> str | None:
    return machine.needs(at_least=(10, 0))


def _flashinfer(machine: Machine) -> str | None:
    return machine.needs(at_least=(10, 0), packages=("flashinfer",))


def _multiple_of_16(_m: int, n: int, k: int) -> str | None:
    return None if n % 16 == 0 and k % 16 == 0 else f"needs N and K in multiples of 16, not {n} and {k}"


def _multiple_of_32(_m: int, n: int, k: int) -> str | None:
    return None if n % 32 == 0 and k % 32 == 0 else f"needs N and K in multiples of 32, not {n} and {k}"


def _prepare_bf16(weight: QuantizedTensor) -> torch.Tensor:
    return dequantize(weight, torch.bfloat16)


def _prepare_fp16(weight: QuantizedTensor) -> torch.Tensor:
    return dequantize(weight, torch.float16)


def _run_mm(weight: torch.Tensor, x: torch.Tensor, out: torch.Tensor) -> None:
    torch.mm(x, weight.T, out=out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """An E4M3 matrix and the one float32 number that it is to be multiplied by."""

    values: torch.Tensor
    scale: torch.Tensor


def to_fp8(x: torch.Tensor) -> Scaled:
    """Quantize to E4M3 with one scale, amax / 448, for the whole tensor."""
    scale = (x.abs().amax().to(torch.float32) / E4M3_MAX).clamp(min=1e-30)
    values = (x.to(torch.float32) / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return Scaled(values=values, scale=scale)


def _prepare_fp8(weight: QuantizedTensor) -> Scaled:
    return to_fp8(dequantize(weight))


def _quantize_fp8(_: Scaled, x: torch.Tensor) -> Scaled:
    return to_fp8(x)


def _run_fp8(weight: Scaled, x: Scaled, out: torch.Tensor) -> None:
    torch._scaled_mm(
        x.values, weight.values.T, scale_a=x.scale, scale_b=weight.scale, out_dtype=out.dtype, out=out
    )


def swizzled_weight(weight: QuantizedTensor) -> QuantizedTensor:
    """The weight with its scales as the tensor cores want them, in memory of its own."""
    return replace(to_layout(weight, ScaleLayout.SWIZZLED_128X4), codes=weight.codes.clone())


def quantize_activations(x: torch.Tensor, layout: ScaleLayout) -> QuantizedTensor:
    """Quantize activations `[M, K]`, K a multiple of 16, with our quantizer on the card; no
    synchronization.
    """
    from kernels.quantize import triton_nvfp4

    rows, k = x.shape
    out = QuantizedTensor(
        codes=torch.empty((rows, k // 2), dtype=torch.uint8, device=x.device),
        scales=torch.empty(scale_shape(rows, k // BLOCK, layout), dtype=torch.uint8, device=x.device),
        tensor_scale=torch.empty((), dtype=torch.float32, device=x.device),
        rows=rows,
        k=k,
        layout=layout,
    )
    triton_nvfp4.tensor_scale_into(x, out.tensor_scale)
    triton_nvfp4.quantize_into(x, out.tensor_scale, out.codes, out.scales, layout=layout)
    return out


def quantize_swizzled(_: Any, x: torch.Tensor) -> QuantizedTensor:
    """Activations as the tensor cores want them."""
    return quantize_activations(x, ScaleLayout.SWIZZLED_128X4)


def _run_cublas_nvfp4(weight: QuantizedTensor, x: QuantizedTensor, out: torch.Tensor) -> None:
    """`torch.nn.functional.scaled_mm`, torch 2.10 and later; it allocates its result, which is then
    copied.
    """
    from torch.nn.functional import ScalingType, SwizzleType, scaled_mm

    recipe = [ScalingType.BlockWise1x16, ScalingType.TensorWise]
    swizzle = [SwizzleType.SWIZZLE_32_4_4, SwizzleType.NO_SWIZZLE]
    e2m1, e4m3 = torch.float4_e2m1fn_x2, torch.float8_e4m3fn
    result = scaled_mm(
        x.codes.view(e2m1),
        weight.codes.view(e2m1).T,
        [x.scales.view(e4m3), x.tensor_scale],
        recipe,
        [weight.scales.view(e4m3), weight.tensor_scale],
        recipe,
        swizzle,
        swizzle,
        output_dtype=out.dtype,
    )
    out.copy_(result)


def _run_flashinfer(weight: QuantizedTensor, x: QuantizedTensor, out: torch.Tensor) -> None:
    """`flashinfer.mm_fp4`: swizzled scales as matrices, alpha the product of both tensor scales."""
    from flashinfer import mm_fp4

    def matrix(q: QuantizedTensor) -> torch.Tensor:
        return q.scales.view(-(-q.rows // 128) * 128, -1)

    alpha = x.tensor_scale * weight.tensor_scale
    mm_fp4(x.codes, weight.codes.T, matrix(x), matrix(weight).T, alpha, out.dtype, out)


IMPLEMENTATIONS = (
    Implementation(
        name="cublas-bf16",
        kind=Kind.GEMM,
        precision=Precision.BF16,
        summary="torch.mm on weights dequantized to BF16",
        tolerance=6e-3,
        why_not=_card,
        prepare=_prepare_bf16,
        run=_run_mm,
    ),
    Implementation(
        name="cublas-fp16",
        kind=Kind.GEMM,
        precision=Precision.FP16,
        summary="torch.mm on weights dequantized to FP16",
        tolerance=6e-3,
        dtype=torch.float16,
        why_not=_card,
        prepare=_prepare_fp16,
        run=_run_mm,
    ),
    Implementation(
        name="cublas-fp8",
        kind=Kind.GEMM,
        precision=Precision.FP8,
        summary="torch._scaled_mm on E4M3 weights and activations, one scale each",
        tolerance=8e-2,
        why_not=_card_with_fp8,
        why_not_shape=_multiple_of_16,
        prepare=_prepare_fp8,
        quantize_input=_quantize_fp8,
        run=_run_fp8,
    ),
    Implementation(
        name="cublas-nvfp4",
        kind=Kind.GEMM,
        precision=Precision.W4A4,
        summary="torch.nn.functional.scaled_mm on NVFP4 operands",
        tolerance=4e-3,
        never_run=NO_BLACKWELL,
        why_not=_card_with_fp4,
        why_not_shape=_multiple_of_32,
        prepare=swizzled_weight,
        quantize_input=quantize_swizzled,
        run=_run_cublas_nvfp4,
    ),
    Implementation(
        name="flashinfer-nvfp4",
        kind=Kind.GEMM,
        precision=Precision.W4A4,
        summary="flashinfer.mm_fp4",
        tolerance=4e-3,
        never_run=NO_BLACKWELL,
        why_not=_flashinfer,
        why_not_shape=_multiple_of_32,
        prepare=swizzled_weight,
        quantize_input=quantize_swizzled,
        run=_run_flashinfer,
    ),
)

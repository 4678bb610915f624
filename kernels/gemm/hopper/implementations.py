"""Hopper (sm_90a) products with NVFP4 weights, as the registry offers them. See `gemm` for the functions."""

import torch

from kernels.gemm.hopper.build import Activation
from kernels.gemm.hopper.gemm import QuantizedActivations, Weight, matmul, prepare, quantize_activations
from kernels.gemm.hopper.peer import HUMMING
from kernels.nvfp4 import QuantizedTensor, ScaleLayout, to_layout
from kernels.registry import Implementation, Kind, Machine, Precision


def _hopper(machine: Machine) -> str | None:
    return machine.needs(capability=(9, 0), tools=("nvcc",))


def _multiple_of_16(_m: int, n: int, k: int) -> str | None:
    return None if n % 16 == 0 and k % 16 == 0 else f"needs N and K in multiples of 16, not {n} and {k}"


def _prepare(weight: QuantizedTensor, activation: Activation) -> Weight:
    rows = to_layout(weight, ScaleLayout.ROW_MAJOR)
    return prepare(rows.codes, rows.scales.view(weight.rows, -1), rows.tensor_scale, activation=activation)


def _prepare_bf16(weight: QuantizedTensor) -> Weight:
    return _prepare(weight, Activation.BF16)


def _prepare_fp16(weight: QuantizedTensor) -> Weight:
    return _prepare(weight, Activation.FP16)


def _prepare_e4m3(weight: QuantizedTensor) -> Weight:
    return _prepare(weight, Activation.E4M3)


def _quantize(_: Weight, x: torch.Tensor) -> QuantizedActivations:
    return quantize_activations(x)


def _run(weight: Weight, x: torch.Tensor | QuantizedActivations, out: torch.Tensor) -> None:
    matmul(x, weight, out)


IMPLEMENTATIONS = (
    Implementation(
        name="hopper-w4a16",
        kind=Kind.GEMM,
        precision=Precision.W4A16,
        summary="wgmma with NVFP4 weights decoded exactly to BF16 in registers",
        tolerance=3e-3,
        ours=True,
        why_not=_hopper,
        why_not_shape=_multiple_of_16,
        prepare=_prepare_bf16,
        run=_run,
    ),
    Implementation(
        name="hopper-w4a16-fp16",
        kind=Kind.GEMM,
        precision=Precision.W4A16,
        summary="wgmma with NVFP4 weights decoded exactly to FP16 in registers",
        tolerance=5e-4,
        dtype=torch.float16,
        ours=True,
        why_not=_hopper,
        why_not_shape=_multiple_of_16,
        prepare=_prepare_fp16,
        run=_run,
    ),
    Implementation(
        name="hopper-w4a8",
        kind=Kind.GEMM,
        precision=Precision.W4A8,
        summary="wgmma with E4M3 activations and NVFP4 weights rounded to E4M3 in registers",
        tolerance=6e-2,
        ours=True,
        why_not=_hopper,
        why_not_shape=_multiple_of_16,
        prepare=_prepare_e4m3,
        quantize_input=_quantize,
        run=_run,
    ),
    HUMMING,
)

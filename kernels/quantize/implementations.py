"""The quantizers that the benchmark knows."""

import torch

from kernels.nvfp4 import QuantizedTensor, quantize, to_layout
from kernels.registry import Implementation, Kind, Machine, Precision


def _run_reference(_: None, x: torch.Tensor, out: QuantizedTensor) -> None:
    result = to_layout(quantize(x), out.layout)
    out.codes.copy_(result.codes)
    out.scales.copy_(result.scales)
    out.tensor_scale.copy_(result.tensor_scale)


def _run_triton(_: None, x: torch.Tensor, out: QuantizedTensor) -> None:
    from kernels.quantize import triton_nvfp4

    triton_nvfp4.tensor_scale_into(x, out.tensor_scale)
    triton_nvfp4.quantize_into(x, out.tensor_scale, out.codes, out.scales, layout=out.layout)


def _run_triton_given_scale(_: None, x: torch.Tensor, out: QuantizedTensor) -> None:
    from kernels.quantize import triton_nvfp4

    triton_nvfp4.quantize_into(x, out.tensor_scale, out.codes, out.scales, layout=out.layout)


def _run_cuda(_: None, x: torch.Tensor, out: QuantizedTensor) -> None:
    from kernels.quantize import cuda_nvfp4, triton_nvfp4

    triton_nvfp4.tensor_scale_into(x, out.tensor_scale)
    cuda_nvfp4.quantize_into(x, out)


def _run_cuda_given_scale(_: None, x: torch.Tensor, out: QuantizedTensor) -> None:
    from kernels.quantize import cuda_nvfp4

    cuda_nvfp4.quantize_into(x, out)


def _needs_nvcc(machine: Machine) -> str | None:
    return machine.needs(at_least=(8, 9), packages=("triton",), tools=("nvcc",))


def _needs_triton(machine: Machine) -> str | None:
    return machine.needs(at_least=(8, 9), packages=("triton",))


IMPLEMENTATIONS = (
    Implementation(
        name="reference-quantize",
        kind=Kind.QUANTIZE,
        precision=Precision.NVFP4,
        summary="the format's reference",
        tolerance=0.0,
        cpu_only=True,
        run=_run_reference,
    ),
    Implementation(
        name="triton-quantize",
        kind=Kind.QUANTIZE,
        precision=Precision.NVFP4,
        summary="finds the tensor scale in a first pass, then quantizes",
        tolerance=0.0,
        ours=True,
        why_not=_needs_triton,
        run=_run_triton,
    ),
    Implementation(
        name="triton-quantize-given-scale",
        kind=Kind.QUANTIZE,
        precision=Precision.NVFP4,
        summary="one pass, the tensor scale is given",
        tolerance=0.0,
        ours=True,
        why_not=_needs_triton,
        run=_run_triton_given_scale,
        finds_scale=False,
    ),
    Implementation(
        name="cuda-quantize",
        kind=Kind.QUANTIZE,
        precision=Precision.NVFP4,
        summary="finds the tensor scale in a first pass (Triton), then quantizes (CUDA C++)",
        tolerance=0.0,
        ours=True,
        why_not=_needs_nvcc,
        run=_run_cuda,
    ),
    Implementation(
        name="cuda-quantize-given-scale",
        kind=Kind.QUANTIZE,
        precision=Precision.NVFP4,
        summary="one pass in CUDA C++, the tensor scale is given",
        tolerance=0.0,
        ours=True,
        why_not=_needs_nvcc,
        run=_run_cuda_given_scale,
        finds_scale=False,
    ),
)

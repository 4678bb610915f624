"""Our NVFP4 GEMM for SM12x cards (compute capability 12.x): compiled with nvcc at its first use, called by
ctypes.

The kernel is `kernels/csrc/sm120_gemm.cu`. It has been compiled and its machine code read, and its data
movement is emulated in the tests, but no such card was at hand: it was never run.
"""

import ctypes
import functools
from dataclasses import replace
from pathlib import Path

import torch

from kernels.gemm.libraries import quantize_activations, quantize_swizzled, swizzled_weight
from kernels.nvcc import LaunchError, shared_library
from kernels.nvfp4 import FormatError, QuantizedTensor, ScaleLayout, to_layout
from kernels.registry import Implementation, Kind, Machine, Precision

CSRC = Path(__file__).resolve().parents[1] / "csrc"
SOURCE = CSRC / "sm120_gemm.cu"
HEADER = CSRC / "sm120_layout.cuh"
FLAGS = ("-gencode=arch=compute_120a,code=sm_120a",)

NEVER_RUN = "compiled, never run here: no SM12x card was at hand"


class _Args(ctypes.Structure):
    """Field by field `sm120::Args`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "x_scales", "x_tensor_scale")),
        *((name, ctypes.c_void_p) for name in ("w", "w_scales", "w_tensor_scale", "out")),
        *((name, ctypes.c_int) for name in ("m", "n", "k", "ctas")),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(shared_library(SOURCE, [HEADER], FLAGS)))


@functools.cache
def _multiprocessors(device: int) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def matmul(x: QuantizedTensor, weight: QuantizedTensor, out: torch.Tensor) -> None:
    """out `[M, N]` (bfloat16 or float16) = x `[M, K]` times weight `[N, K]` transposed, on the current
    stream.

    Both operands with swizzled scales; K a multiple of 32, N of 8. Allocates nothing. Raises FormatError for
    other operands, LaunchError when CUDA refuses, BuildError when the kernel cannot be compiled.
    """
    m, n, k = x.rows, weight.rows, x.k
    if weight.k != k or k % 32 or n % 8:
        raise FormatError(
            f"needs equal K in multiples of 32 and N in multiples of 8, not K {k}, {weight.k}, N {n}"
        )
    if {x.layout, weight.layout} != {ScaleLayout.SWIZZLED_128X4}:
        raise FormatError("both operands need swizzled scales")
    symbol = {torch.bfloat16: "sm120_gemm_bf16", torch.float16: "sm120_gemm_fp16"}.get(out.dtype)
    if symbol is None or tuple(out.shape) != (m, n) or not out.is_contiguous():
        raise FormatError(f"out must be contiguous bfloat16 or float16 [{m}, {n}]")
    device = out.device.index
    tiles = -(-m // 128) * -(-n // 128)
    arguments = _Args(
        *(t.data_ptr() for t in (x.codes, x.scales, x.tensor_scale)),
        *(t.data_ptr() for t in (weight.codes, weight.scales, weight.tensor_scale, out)),
        m, n, k, min(tiles, _multiprocessors(device)),
    )  # fmt: skip
    stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
    error = getattr(_library(), symbol)(ctypes.byref(arguments), stream)
    if error:
        raise LaunchError(f"{symbol}: cudaError {error}")


def _run(weight: QuantizedTensor, x: QuantizedTensor, out: torch.Tensor) -> None:
    matmul(x, weight, out)


def _keep(weight: QuantizedTensor) -> QuantizedTensor:
    return replace(to_layout(weight, ScaleLayout.ROW_MAJOR), codes=weight.codes.clone())


def _quantize_row_major(_: QuantizedTensor, x: torch.Tensor) -> QuantizedTensor:
    return quantize_activations(x, ScaleLayout.ROW_MAJOR)


def _run_dot_scaled(weight: QuantizedTensor, x: QuantizedTensor, out: torch.Tensor) -> None:
    from kernels.gemm import sm120_dot_scaled

    sm120_dot_scaled.matmul(x, weight, out)


def _needs_triton(machine: Machine) -> str | None:
    return machine.needs(at_least=(10, 0), packages=("triton",))


def _why_not(machine: Machine) -> str | None:
    return machine.needs(major=12, packages=("triton",), tools=("nvcc",))


def _why_not_shape(_m: int, n: int, k: int) -> str | None:
    if k % 32 or n % 8:
        return f"needs K in multiples of 32 and N in multiples of 8, not {k} and {n}"
    return None


IMPLEMENTATIONS = (
    Implementation(
        name="sm120-w4a4",
        kind=Kind.GEMM,
        precision=Precision.W4A4,
        summary="our kernel with the block-scaled mma.sync of sm_120a",
        tolerance=4e-3,
        ours=True,
        never_run=NEVER_RUN,
        why_not=_why_not,
        why_not_shape=_why_not_shape,
        prepare=swizzled_weight,
        quantize_input=quantize_swizzled,
        run=_run,
    ),
    Implementation(
        name="triton-dot-scaled",
        kind=Kind.GEMM,
        precision=Precision.W4A4,
        summary="Triton's tl.dot_scaled, untuned tiles",
        tolerance=4e-3,
        never_run="compiled, never run here: no card with FP4 tensor cores was at hand",
        why_not=_needs_triton,
        prepare=_keep,
        quantize_input=_quantize_row_major,
        run=_run_dot_scaled,
    ),
)

"""NVFP4 quantizer for CUDA cards in CUDA C++: compiled with nvcc at its first use, called by ctypes.

Bits equal `kernels.nvfp4.quantize`. The arithmetic is `nvfp4_block.cuh`, the data movement
`nvfp4_quantize.cu`. Needs compute capability 8.9 or later (E4M3 conversions). The tensor scale is found by
`kernels.quantize.triton_nvfp4`.
"""

import ctypes
import functools
from pathlib import Path

import torch

from kernels.nvcc import LaunchError, shared_library
from kernels.nvfp4 import FormatError, QuantizedTensor, ScaleLayout

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "nvfp4_quantize.cu"
HEADER = HERE / "nvfp4_block.cuh"


class _Args(ctypes.Structure):
    """Field by field `nvfp4::Args`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "codes", "scales", "tensor_scale")),
        ("stride", ctypes.c_int64),
        *((name, ctypes.c_int) for name in ("rows", "k", "swizzled")),
    )


def flags_for(capability: tuple[int, int]) -> tuple[str, ...]:
    """What nvcc must be told for a card."""
    number = f"{capability[0]}{capability[1]}"
    return (f"-gencode=arch=compute_{number},code=sm_{number}",)


@functools.cache
def _library(capability: tuple[int, int]) -> ctypes.CDLL:
    return ctypes.CDLL(str(shared_library(SOURCE, [HEADER], flags_for(capability))))


def quantize_into(x: torch.Tensor, out: QuantizedTensor, *, divide: bool = False) -> None:
    """Fill the codes and scales of `out` from x `[rows, k]`, bfloat16 or float16, by the tensor scale of
    `out`.

    Padding of swizzled scales becomes 0. No allocation, no synchronization. Unless `divide` is set the
    tensor scale must lie in [2**-60, 2**60] and the largest |x| / tensor_scale must be at most 2**60. Raises
    FormatError for another dtype, shape or stride, LaunchError when CUDA refuses, BuildError when the kernel
    cannot be compiled.
    """
    symbol = {torch.bfloat16: "nvfp4_quantize_bf16", torch.float16: "nvfp4_quantize_fp16"}.get(x.dtype)
    if symbol is None or tuple(x.shape) != (out.rows, out.k) or x.stride(1) != 1:
        raise FormatError(f"x must be bfloat16 or float16 [{out.rows}, {out.k}] with whole rows")
    arguments = _Args(
        *(t.data_ptr() for t in (x, out.codes, out.scales, out.tensor_scale)),
        x.stride(0), out.rows, out.k, out.layout is ScaleLayout.SWIZZLED_128X4,
    )  # fmt: skip
    stream = ctypes.c_void_p(torch.cuda.current_stream(x.device).cuda_stream)
    library = _library(torch.cuda.get_device_capability(x.device))
    error = getattr(library, symbol)(ctypes.byref(arguments), int(divide), stream)
    if error:
        raise LaunchError(f"{symbol}: cudaError {error}")

"""The arithmetic of the CUDA quantizer, compiled for this machine, gives the reference's bits.

`nvfp4_block.cuh` is compiled with g++; its few hardware functions have host versions there, the approximate
inverse deliberately one unit in the last place off.
"""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernels import nvcc
from kernels.nvfp4 import QuantizedTensor, quantize
from kernels.quantize import cuda_nvfp4

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on the PATH")

SOURCE = """
#include "HEADER"
extern "C" int run(const float* x, int blocks, float scale, int free_bits, int how, uint32_t* codes, uint8_t*
scales) {
  bool risky = false;
  for (int i = 0; i < 32; ++i) risky |= nvfp4::risky(scale, i, free_bits);
  if (how == 0 && risky) how = 1;
  for (int b = 0; b < blocks; ++b) {
    float v[16];
    for (int i = 0; i < 16; ++i) v[i] = x[16 * b + i];
    const float inverse = nvfp4::divide(1.0f, scale);
    const nvfp4::Block out = how == 0   ? nvfp4::quantize<nvfp4::kMultiply>(v, scale, inverse)
                             : how == 1 ? nvfp4::quantize<nvfp4::kRefine>(v, scale, inverse)
                                        : nvfp4::quantize<nvfp4::kDivide>(v, scale, inverse);
    codes[2 * b] = out.codes[0], codes[2 * b + 1] = out.codes[1];
    scales[b] = static_cast<uint8_t>(out.scale);
  }
  return risky;
}
"""

FREE_BITS = {torch.bfloat16: 16, torch.float16: 13}

Quantize = Callable[[torch.Tensor, torch.Tensor, int], tuple[QuantizedTensor, bool]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Quantize:
    """Quantize by the compiled arithmetic: (x, tensor scale, how) → the value, and whether the
    scale was risky.
    """
    folder: Path = tmp_path_factory.mktemp("block")
    (folder / "block.cpp").write_text(SOURCE.replace("HEADER", str(cuda_nvfp4.HEADER)))
    library_path = folder / "block.so"
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-O2",
            "-ffp-contract=off",
            "-shared",
            "-fPIC",
            "-o",
            library_path,
            folder / "block.cpp",
        ],
        check=True,
    )
    library = ctypes.CDLL(str(library_path))

    def quantized(x: torch.Tensor, scale: torch.Tensor, how: int) -> tuple[QuantizedTensor, bool]:
        rows, k = x.shape
        numbers = x.to(torch.float32).contiguous()
        codes = torch.empty((rows, k // 2), dtype=torch.uint8)
        scales = torch.empty((rows, k // 16), dtype=torch.uint8)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (numbers, codes, scales)]
        free_bits = FREE_BITS[x.dtype]
        risky = library.run(
            pointers[0],
            rows * k // 16,
            ctypes.c_float(float(scale)),
            free_bits,
            how,
            pointers[1],
            pointers[2],
        )
        return QuantizedTensor(codes=codes, scales=scales, tensor_scale=scale, rows=rows, k=k), bool(risky)

    return quantized


def assert_equal_bits(got: QuantizedTensor, want: QuantizedTensor) -> None:
    assert torch.equal(got.scales, want.scales)
    assert torch.equal(got.codes, want.codes)


def wide(dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Blocks of many sizes, with a block of zeros and signed zeros."""
    x = torch.randn(256, 256, generator=generator) * 2.0 ** torch.randint(
        -9, 8, (256, 256), generator=generator
    )
    x[:, :16] = 0
    x[0, 0] = -0.0
    return x.to(dtype)


@needs_compiler
@pytest.mark.parametrize("dtype", list(FREE_BITS))
def test_own_scales(run: Quantize, dtype: torch.dtype) -> None:
    for seed in range(12):
        x = wide(dtype, torch.Generator().manual_seed(seed))
        want = quantize(x)
        assert_equal_bits(run(x, want.tensor_scale, 0)[0], want)


@needs_compiler
@pytest.mark.parametrize("dtype", list(FREE_BITS))
def test_given_scales_random_and_risky(run: Quantize, dtype: torch.dtype) -> None:
    """Scales near short fractions make many quotients exact or nearly exact midpoints: these must
    be refined.
    """
    generator = torch.Generator().manual_seed(7)
    seen = set()
    near = [torch.tensor(m) * (1 + e * 2.0**-23) for m in (1.0, 1.5, 1 / 3, 1.15, 0.7) for e in range(-6, 7)]
    random = list(torch.rand(40, generator=generator) + 0.5)
    for scale in near + random:
        x = wide(dtype, generator)
        got, risky = run(x, scale, 0)
        seen.add(risky)
        assert_equal_bits(got, quantize(x, tensor_scale=scale))
    assert seen == {True, False}


@needs_compiler
def test_small_integers_are_ties(run: Quantize) -> None:
    x = torch.randint(-24, 25, (256, 256), generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    for scale in (1.0, 0.125, 3.0, 1 / 3):
        assert_equal_bits(run(x, torch.tensor(scale), 0)[0], quantize(x, tensor_scale=scale))


@needs_compiler
def test_every_bfloat16_by_each_way(run: Quantize) -> None:
    bits = torch.arange(0x7F80, dtype=torch.int32).repeat_interleave(2)
    bits[1::2] |= 0x8000
    x = bits.to(torch.int16).view(torch.bfloat16).view(-1, 64)
    for scale in (2.0**-126, 2.0**-60, 1.0, 0.37, 2.0**80):
        assert_equal_bits(run(x, torch.tensor(scale), 2)[0], quantize(x, tensor_scale=scale))
    usual = x[(x.abs().amax(1).float() < 2.0**40)]
    for scale in (0.37, 1.0, 2.0**-18):
        for how in (0, 1):
            assert_equal_bits(run(usual, torch.tensor(scale), how)[0], quantize(usual, tensor_scale=scale))


@pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
def test_the_kernel_compiles_for_hopper_without_spills(tmp_path: Path) -> None:
    flags = [*cuda_nvfp4.flags_for((9, 0)), "-cubin", "-Xptxas", "-v"]
    said = nvcc.compile_source(cuda_nvfp4.SOURCE, tmp_path / "quantize.cubin", flags)
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}
    assert max(int(n) for n in re.findall(r"Used (\d+) registers", said)) <= 72

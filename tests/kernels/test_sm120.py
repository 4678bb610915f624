"""The SM12x kernel without an SM12x card: its machine code, and its data movement emulated on the CPU.

The emulation compiles `sm120_layout.cuh`, the very functions that the kernel uses, for the CPU, and moves
real operands through them. What the instructions do with registers is written here from their documentation:
PTX ISA, "ldmatrix" (lane l holds bytes 4(l%4) to 4(l%4)+3 of row l/4) and "Matrix fragments for
mma.m16n8k64", with the selection of scales in "Block scaling for mma.sync"; CUTLASS's traits of this
instruction (`mma_traits_sm120.hpp`, SM120_16x8x64_TN_VS) state the same maps.
"""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from kernels import nvcc
from kernels.checks import Data, random_weight
from kernels.gemm import sm120
from kernels.gemm.reference import tensor_core_bound, tensor_core_w4a4, w4a4
from kernels.nvcc import compile_source, shared_library
from kernels.nvfp4 import E2M1_VALUES, QuantizedTensor, ScaleLayout, decode_e4m3, quantize, to_layout

needs_nvcc = pytest.mark.skipif(nvcc.find() is None, reason="nvcc is not installed")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on the PATH")

TILE, K_STEP, WARPS, LANES = 128, 128, 8, 32

FUNCTIONS = {
    "code_offset": 2, "a_row": 3, "a_chunk": 2, "b_row": 3, "b_chunk": 2, "a_scale_offset": 2,
    "b_scale_offset": 2,
    "out_row": 4, "out_column": 4, "tile_row": 3, "tile_column": 3,
}  # fmt: skip


def cuobjdump() -> str | None:
    """From the CUDA toolkit, or the copy that the Triton wheel carries."""
    found = shutil.which("cuobjdump")
    if found is None:
        triton = pytest.importorskip("triton", reason="neither cuobjdump nor Triton is installed")
        carried = Path(triton.__path__[0]) / "backends/nvidia/bin/cuobjdump"
        found = str(carried) if carried.exists() else None
    return found


@needs_nvcc
def test_the_machine_code_holds_the_block_scaled_instruction(tmp_path: Path) -> None:
    tool = cuobjdump()
    if tool is None:
        pytest.skip("no cuobjdump is installed")
    cubin = tmp_path / "sm120.cubin"
    said = compile_source(sm120.SOURCE, cubin, [*sm120.FLAGS, "-cubin", "-Xptxas", "-v"])
    assert "sm_120a" in said
    assert re.findall(r"(\d+) bytes spill", said) == ["0"] * 4
    sass = subprocess.run([tool, "-sass", str(cubin)], capture_output=True, text=True, check=True).stdout
    # Two kernels (bfloat16 and float16 results), 4 x 4 tiles a warp, two k64 a step.
    assert sass.count("OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X") == 2 * 4 * 4 * 2
    assert "LDGSTS" in sass
    assert "LDSM" in sass


@needs_nvcc
def test_the_library_builds_once_and_exports_its_functions(tmp_path: Path) -> None:
    path = shared_library(sm120.SOURCE, [sm120.HEADER], sm120.FLAGS, tmp_path)
    assert shared_library(sm120.SOURCE, [sm120.HEADER], sm120.FLAGS, tmp_path) == path
    library = ctypes.CDLL(str(path))
    assert library.sm120_gemm_bf16
    assert library.sm120_gemm_fp16


def test_triton_chooses_the_block_scaled_instruction() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kernels.gemm import sm120_dot_scaled

    operand = {"": "*u8", "_scales": "*u8", "_tensor_scale": "*fp32"}
    signature = {f"{name}{part}": kind for name in "xw" for part, kind in operand.items()}
    signature |= {"out": "*bf16", "m": "i32", "n": "i32", "k": "i32", "blocks": "i32"}
    signature |= dict.fromkeys(sm120_dot_scaled.TILES, "constexpr")
    source = ASTSource(
        fn=sm120_dot_scaled.gemm_kernel, signature=signature, constexprs=sm120_dot_scaled.TILES
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", 120, 32), options={"num_warps": 8})
    assert re.search(r"mma\.sync\S*kind::mxf4nvf4\.block_scale\.scale_vec::4X", compiled.asm["ptx"])


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[..., int]]:
    """The functions of sm120_layout.cuh, compiled for this machine."""
    folder = tmp_path_factory.mktemp("layout")
    lines = [f'#include "{sm120.HEADER}"']
    for name, count in FUNCTIONS.items():
        typed = ", ".join(f"int a{i}" for i in range(count))
        passed = ", ".join(f"a{i}" for i in range(count))
        lines.append(f'extern "C" int c_{name}({typed}) {{ return sm120::{name}({passed}); }}')
    lines.append('extern "C" int shared_bytes() { return sm120::kSharedBytes; }')
    (folder / "layout.cpp").write_text("\n".join(lines))
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-shared",
            "-fPIC",
            "-o",
            str(folder / "layout.so"),
            str(folder / "layout.cpp"),
        ],
        check=True,
    )
    library = ctypes.CDLL(str(folder / "layout.so"))
    return {name: getattr(library, f"c_{name}") for name in FUNCTIONS} | {
        "shared_bytes": library.shared_bytes
    }


@needs_compiler
def test_shared_memory_fits(layout: dict[str, Callable[..., int]]) -> None:
    """99 KB is what one block may have on compute capability 12.0 (CUDA programming guide, technical
    specifications).
    """
    assert layout["shared_bytes"]() <= 99 * 1024


@needs_compiler
def test_tiles_are_each_visited_once(layout: dict[str, Callable[..., int]]) -> None:
    for rows, columns in ((1, 1), (1, 5), (7, 3), (8, 8), (19, 4), (16, 1)):
        visited = {
            (layout["tile_row"](i, rows, columns), layout["tile_column"](i, rows, columns))
            for i in range(rows * columns)
        }
        assert visited == {(r, c) for r in range(rows) for c in range(columns)}


@needs_compiler
def test_no_bank_conflicts(layout: dict[str, Callable[..., int]]) -> None:
    """Each eight rows that ldmatrix reads together, and each eight that a copy writes, touch all 32 banks."""
    for row in range(0, TILE, 8):
        for chunk in range(4):
            offsets = [layout["code_offset"](row + i, chunk) for i in range(8)]
            assert len({offset % 128 // 16 for offset in offsets}) == 8


def to_shared(q: QuantizedTensor, step: int, layout: dict[str, Callable[..., int]]) -> np.ndarray:
    """The codes of 128 rows and one step, as the copies lay them."""
    shared = np.zeros(TILE * K_STEP // 2, dtype=np.uint8)
    codes = q.codes.numpy()
    for row in range(q.rows):
        for chunk in range(4):
            start = step * (K_STEP // 2) + chunk * 16
            piece = codes[row, start : start + 16]
            offset = layout["code_offset"](row, chunk)
            shared[offset : offset + piece.size] = piece
    return shared


def ldmatrix_x4(shared: np.ndarray, offsets: list[int]) -> np.ndarray:
    """Four 8 x 16-byte matrices, row addresses from lanes 8i to 8i+7; uint8 [lane, register, byte]."""
    matrices = np.stack([shared[o : o + 16] for o in offsets]).reshape(4, 8, 4, 4)
    return matrices.transpose(1, 2, 0, 3).reshape(LANES, 4, 4)


def nibbles(registers: np.ndarray) -> np.ndarray:
    """uint8 [..., byte] to values [..., 2 * byte], low nibble first."""
    values = np.array(E2M1_VALUES)
    return np.stack((values[registers & 0xF], values[registers >> 4]), axis=-1).reshape(
        *registers.shape[:-1], -1
    )


def mma_m16n8k64(a: np.ndarray, b: np.ndarray, scale_a: np.ndarray, scale_b: np.ndarray) -> np.ndarray:
    """Registers of 32 lanes → 32 lanes x 4 accumulators, from the documented fragments."""
    lane = np.arange(LANES)
    group, thread = lane // 4, lane % 4
    full_a, full_b = np.zeros((16, 64)), np.zeros((8, 64))
    element = np.arange(8)
    for register in range(4):
        rows = group + 8 * (register % 2)
        columns = thread[:, None] * 8 + element + 32 * (register // 2)
        full_a[rows[:, None], columns] = nibbles(a[:, register])
    for register in range(2):
        full_b[group[:, None], thread[:, None] * 8 + element + 32 * register] = nibbles(b[:, register])
    # Selector {0, 0}: of each quad, lanes 0 and 1 give the scales of rows g and g + 8; lane 0 those of column
    # g.
    for quad in range(8):
        for k in range(4):
            full_a[quad, k * 16 : k * 16 + 16] *= scale_a[4 * quad, k]
            full_a[quad + 8, k * 16 : k * 16 + 16] *= scale_a[4 * quad + 1, k]
            full_b[quad, k * 16 : k * 16 + 16] *= scale_b[4 * quad, k]
    product = full_a @ full_b.T
    return np.stack([product[group + 8 * (i // 2), thread * 2 + i % 2] for i in range(4)], axis=1)


def emulate(x: QuantizedTensor, w: QuantizedTensor, layout: dict[str, Callable[..., int]]) -> np.ndarray:
    """The accumulators of one tile of the result, `[128, 128]`, written where the epilogue writes them."""
    result = np.full((TILE, TILE), np.nan)
    accumulators = np.zeros((WARPS, 4, 4, LANES, 4))
    scale_tiles = -(-x.k // 64)
    scales = {id(q): decode_e4m3(q.scales).double().numpy().reshape(-1, scale_tiles, 512)[0] for q in (x, w)}
    for step in range(-(-x.k // K_STEP)):
        codes_x, codes_w = (to_shared(q, step, layout) for q in (x, w))
        for k64 in range(2):
            tile = step * 2 + k64
            if tile >= scale_tiles:
                continue
            for warp in range(WARPS):
                _warp(
                    accumulators[warp],
                    warp,
                    k64,
                    codes_x,
                    codes_w,
                    scales[id(x)][tile],
                    scales[id(w)][tile],
                    layout,
                )
    for warp in range(WARPS):
        for i in range(4):
            for j in range(4):
                for lane in range(LANES):
                    for index in range(4):
                        row = layout["out_row"](warp, i, lane, index)
                        column = layout["out_column"](warp, j, lane, index)
                        assert np.isnan(result[row, column])  # nothing is written twice
                        result[row, column] = accumulators[warp, i, j, lane, index]
    return result


def _warp(
    accumulators: np.ndarray, warp: int, k64: int, codes_x: np.ndarray, codes_w: np.ndarray,
    scales_x: np.ndarray, scales_w: np.ndarray, layout: dict[str, Callable[..., int]],
) -> None:  # fmt: skip
    lanes = range(LANES)
    words_x = [scales_x[layout["a_scale_offset"](warp, lane) :][:16].reshape(4, 4) for lane in lanes]
    words_w = [scales_w[layout["b_scale_offset"](warp, lane) :][:16].reshape(4, 4) for lane in lanes]
    offset = layout["code_offset"]
    b_chunk, a_chunk = layout["b_chunk"], layout["a_chunk"]
    pairs = [
        ldmatrix_x4(codes_w, [offset(layout["b_row"](warp, p, lane), b_chunk(k64, lane)) for lane in lanes])
        for p in range(2)
    ]
    for i in range(4):
        a = ldmatrix_x4(
            codes_x, [offset(layout["a_row"](warp, i, lane), a_chunk(k64, lane)) for lane in lanes]
        )
        for j in range(4):
            b = pairs[j // 2][:, 2 * (j % 2) : 2 * (j % 2) + 2]
            accumulators[i, j] += mma_m16n8k64(
                a, b, np.stack([word[i] for word in words_x]), np.stack([word[j] for word in words_w])
            )


@needs_compiler
@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 256), (77, 120, 160)])
def test_the_emulated_kernel_gives_the_product(
    m: int, n: int, k: int, layout: dict[str, Callable[..., int]]
) -> None:
    generator = torch.Generator().manual_seed(m + n + k)
    x, w = (random_weight(rows, k, Data.EXTREME, generator) for rows in (m, n))
    left, right = (to_layout(q, ScaleLayout.SWIZZLED_128X4) for q in (x, w))
    got = emulate(left, right, layout) * float(x.tensor_scale.double() * w.tensor_scale.double())
    want = np.zeros((TILE, TILE))
    want[:m, :n] = w4a4(x, w).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 * np.abs(want).max())


def test_the_numeric_model_stays_within_its_bound() -> None:
    generator = torch.Generator().manual_seed(3)
    for data in Data:
        x, w = (random_weight(rows, 1024, data, generator) for rows in (24, 40))
        difference = (tensor_core_w4a4(x, w).double() - w4a4(x, w)).abs()
        assert (difference <= tensor_core_bound(x, w)).all()


def test_the_numeric_model_is_exact_where_sums_fit() -> None:
    """Unit scales and small integers: every partial sum is a float32, so both roundings give the product
    itself.
    """
    x = quantize(torch.full((2, 128), 6.0), tensor_scale=1.0)
    assert torch.equal(tensor_core_w4a4(x, x).double(), w4a4(x, x))
    assert float(w4a4(x, x)[0, 0]) == 36 * 128


@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 12,
    reason="no SM12x card is visible",
)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 8, 32), (77, 120, 160), (128, 128, 128), (300, 520, 1056), (512, 512, 4096)]
)
def test_on_a_card_within_the_bound(m: int, n: int, k: int) -> None:
    generator = torch.Generator("cuda").manual_seed(m)
    for data in Data:
        x, w = (random_weight(rows, k, data, generator) for rows in (m, n))
        out = torch.full((m, n), torch.nan, dtype=torch.float16, device="cuda").to(torch.bfloat16)
        left, right = (to_layout(q, ScaleLayout.SWIZZLED_128X4) for q in (x, w))
        sm120.matmul(left, right, out)
        exact = w4a4(x, w)
        bound = tensor_core_bound(x, w) + exact.abs() * 2.0**-8
        assert ((out.double() - exact).abs() <= bound).all()

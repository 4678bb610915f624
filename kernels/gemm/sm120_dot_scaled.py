"""NVFP4 GEMM by Triton's `tl.dot_scaled`, to compare with: the compiler chooses the block-scaled instruction.

Scales row-major. For compute capability 12.0, Triton 3.6 chooses the `mma.sync` that our own kernel uses; a
test reads that from its PTX. Never run here: no card with FP4 tensor cores was at hand.
"""

import torch
import triton
import triton.language as tl

from kernels.nvfp4 import QuantizedTensor

TILES = {"TM": 128, "TN": 128, "TK": 128}


@triton.jit  # type: ignore[untyped-decorator]
def gemm_kernel(  # type: ignore[no-untyped-def]
    x, x_scales, x_tensor_scale, w, w_scales, w_tensor_scale, out, m, n, k, blocks,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
):  # fmt: skip
    """One TM x TN tile of the result."""
    rows = tl.program_id(0) * TM + tl.arange(0, TM)
    columns = tl.program_id(1) * TN + tl.arange(0, TN)
    accumulator = tl.zeros((TM, TN), tl.float32)
    for start in range(0, k, TK):
        byte = start // 2 + tl.arange(0, TK // 2)
        block = start // 16 + tl.arange(0, TK // 16)
        x_in = (rows < m)[:, None] & (byte < blocks * 8)[None, :]
        w_in = (columns < n)[None, :] & (byte < blocks * 8)[:, None]
        x_codes = tl.load(x + rows[:, None].to(tl.int64) * (blocks * 8) + byte[None, :], mask=x_in, other=0)
        w_codes = tl.load(
            w + columns[None, :].to(tl.int64) * (blocks * 8) + byte[:, None], mask=w_in, other=0
        )
        xs_in = (rows < m)[:, None] & (block < blocks)[None, :]
        ws_in = (columns < n)[:, None] & (block < blocks)[None, :]
        xs = tl.load(x_scales + rows[:, None].to(tl.int64) * blocks + block[None, :], mask=xs_in, other=0)
        ws = tl.load(w_scales + columns[:, None].to(tl.int64) * blocks + block[None, :], mask=ws_in, other=0)
        accumulator = tl.dot_scaled(
            x_codes, xs.to(tl.float8e4nv, bitcast=True), "e2m1",
            w_codes, ws.to(tl.float8e4nv, bitcast=True), "e2m1", accumulator,
        )  # fmt: skip
    accumulator *= tl.load(x_tensor_scale) * tl.load(w_tensor_scale)
    where = out + rows[:, None].to(tl.int64) * n + columns[None, :]
    tl.store(where, accumulator.to(out.dtype.element_ty), mask=(rows < m)[:, None] & (columns < n)[None, :])


def matmul(x: QuantizedTensor, weight: QuantizedTensor, out: torch.Tensor) -> None:
    """out `[M, N]` = x `[M, K]` times weight `[N, K]` transposed; both operands with row-major scales."""
    grid = (triton.cdiv(x.rows, TILES["TM"]), triton.cdiv(weight.rows, TILES["TN"]))
    gemm_kernel[grid](
        x.codes, x.scales, x.tensor_scale, weight.codes, weight.scales, weight.tensor_scale, out,
        x.rows, weight.rows, x.k, x.blocks, **TILES, num_warps=8,
    )  # fmt: skip

"""The Triton quantizer: equal bits on a card; on any machine with Triton, that it compiles for one."""

import importlib.util
import math
from dataclasses import replace

import pytest
import torch

from kernels import checks, nvcc
from kernels.nvfp4 import (
    NonFiniteError,
    QuantizedTensor,
    ScaleLayout,
    dequantize,
    to_layout,
)
from kernels.nvfp4 import quantize as reference

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)
needs_card = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 9),
    reason="no CUDA card of compute capability 8.9 or later is visible",
)

SIZES = [(1, 16), (1, 1), (3, 40), (33, 72), (127, 250), (128, 256), (129, 257), (300, 4096), (1000, 1008)]


def assert_equal_bits(got: QuantizedTensor, want: QuantizedTensor) -> None:
    assert torch.equal(got.tensor_scale, want.tensor_scale)
    assert torch.equal(got.scales, want.scales)
    assert torch.equal(got.codes, want.codes)


def poisoned(x: torch.Tensor, layout: ScaleLayout, tensor_scale: float | None = None) -> QuantizedTensor:
    """The Triton quantizer's result; the CUDA one must agree where it takes the type and a compiler
    is there.
    """
    from kernels.quantize import cuda_nvfp4, triton_nvfp4

    result = triton_nvfp4.quantize(x, tensor_scale=tensor_scale, layout=layout)
    if nvcc.find() is not None and x.dtype != torch.float32:
        other = replace(
            result, codes=torch.full_like(result.codes, 0xA5), scales=torch.full_like(result.scales, 0xA5)
        )
        extreme = triton_nvfp4.needs_division(x.abs().amax().float(), result.tensor_scale)
        cuda_nvfp4.quantize_into(x, other, divide=extreme)
        assert_equal_bits(other, result)
    return result


@needs_card
@pytest.mark.parametrize("layout", list(ScaleLayout))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("size", SIZES)
def test_equal_bits(size: tuple[int, int], dtype: torch.dtype, layout: ScaleLayout) -> None:
    generator = torch.Generator("cuda").manual_seed(size[0] * 10000 + size[1])
    x = torch.randn(size, device="cuda", generator=generator)
    spread = 2.0 ** torch.randint(-9, 9, size, device="cuda", generator=generator)
    for candidate in (x.to(dtype), (x * spread).to(dtype)):
        assert_equal_bits(poisoned(candidate, layout), to_layout(reference(candidate), layout))


@needs_card
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_equal_bits_on_exact_ties(dtype: torch.dtype) -> None:
    """Small integers under scales that make many quotients exact midpoints."""
    generator = torch.Generator("cuda").manual_seed(5)
    x = torch.randint(-24, 25, (256, 1024), device="cuda", generator=generator).to(dtype)
    assert_equal_bits(poisoned(x, ScaleLayout.ROW_MAJOR), reference(x))
    for scale in (1.0, 0.125, 3.0, 1 / 3):
        assert_equal_bits(poisoned(x, ScaleLayout.ROW_MAJOR, scale), reference(x, tensor_scale=scale))


@needs_card
def test_the_reference_gives_equal_bits_on_card_and_cpu() -> None:
    x = (torch.randn(300, 1000) * 2.0 ** torch.randint(-12, 12, (300, 1000))).to(torch.bfloat16)
    assert_equal_bits(reference(x.cuda()).to("cpu"), reference(x))


@needs_card
def test_equal_bits_on_every_bfloat16() -> None:
    """All finite bfloat16 numbers, each beside a neighbour of its size, under several tensor scales."""
    bits = torch.arange(0x7F80, device="cuda", dtype=torch.int32).repeat_interleave(2)
    bits[1::2] |= 0x8000
    x = bits.to(torch.int16).view(torch.bfloat16).view(-1, 64)
    for scale in (None, 1.0, 2.0**-126, 2.0**-40, 0.37, 2.0**80):
        want = to_layout(reference(x, tensor_scale=scale), ScaleLayout.SWIZZLED_128X4)
        assert_equal_bits(poisoned(x, ScaleLayout.SWIZZLED_128X4, scale), want)


@needs_card
def test_zeros_saturation_and_strided_rows() -> None:
    zeros = torch.zeros(130, 80, device="cuda", dtype=torch.bfloat16)
    assert_equal_bits(poisoned(zeros, ScaleLayout.ROW_MAJOR), reference(zeros))
    wide = torch.randn(64, 512, device="cuda").to(torch.bfloat16)
    view = wide[:, 64:301]
    assert_equal_bits(poisoned(view, ScaleLayout.ROW_MAJOR), reference(view))
    tiny_scale = 1e-3
    assert_equal_bits(
        poisoned(wide, ScaleLayout.ROW_MAJOR, tiny_scale), reference(wide, tensor_scale=tiny_scale)
    )


@needs_card
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_input_is_refused(bad: float) -> None:
    from kernels.quantize import triton_nvfp4

    x = torch.ones(40, 48, device="cuda", dtype=torch.bfloat16)
    x[39, 47] = bad
    with pytest.raises(NonFiniteError):
        triton_nvfp4.quantize(x)


@needs_card
def test_every_byte_is_written_and_runs_repeat() -> None:
    from kernels.quantize import triton_nvfp4

    x = torch.randn(257, 1040, device="cuda").to(torch.bfloat16)
    want = to_layout(reference(x), ScaleLayout.SWIZZLED_128X4)
    for fill in (0x00, 0xFF, 0xA5):
        out = checks.empty_output(x, fill=fill)
        triton_nvfp4.tensor_scale_into(x, out.tensor_scale)
        triton_nvfp4.quantize_into(x, out.tensor_scale, out.codes, out.scales)
        assert_equal_bits(out, want)


@needs_card
def test_two_streams_at_once() -> None:
    from kernels.quantize import triton_nvfp4

    inputs = [torch.randn(512, 2048, device="cuda").to(torch.bfloat16) for _ in range(2)]
    outs = [checks.empty_output(x) for x in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    for _ in range(20):
        for x, out, stream in zip(inputs, outs, streams, strict=True):
            with torch.cuda.stream(stream):
                triton_nvfp4.tensor_scale_into(x, out.tensor_scale)
                triton_nvfp4.quantize_into(x, out.tensor_scale, out.codes, out.scales)
    torch.cuda.synchronize()
    for x, out in zip(inputs, outs, strict=True):
        assert_equal_bits(out, to_layout(reference(x), out.layout))
        assert torch.isfinite(dequantize(out)).all()


COMPILE_SIGNATURES = {
    "_amax_kernel": {"x": "*bf16", "out": "*i32", "rows": "i32", "k": "i32", "stride": "i32"},
    "_tensor_scale_kernel": {"scale": "*fp32"},
    "_quantize_kernel": {
        "x": "*bf16", "codes": "*u8", "scales": "*u8", "tensor_scale": "*fp32",
        "rows": "i32", "k": "i32", "stride": "i32", "blocks": "i32",
    },
}  # fmt: skip

COMPILE_CONSTANTS = {
    "_amax_kernel": {"ELEMENTS": 2048},
    "_tensor_scale_kernel": {},
    "_quantize_kernel": {
        "DIVIDE": False, "SWIZZLED": True, "WHOLE": True, "FREE_BITS": 16, "ROWS": 8, "BLOCKS": 8,
    },
}  # fmt: skip


@needs_triton
@pytest.mark.parametrize("name", list(COMPILE_SIGNATURES))
def test_compiles_for_hopper_without_spills(name: str) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kernels.quantize import triton_nvfp4

    constants = COMPILE_CONSTANTS[name]
    signature = COMPILE_SIGNATURES[name] | dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=getattr(triton_nvfp4, name), signature=signature, constexprs=constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert ".local" not in compiled.asm["ptx"]

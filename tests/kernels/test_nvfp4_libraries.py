"""Bit for bit against public libraries: recorded results always, the libraries themselves where they are
installed.

Every difference must have one of the explanations that `docs/nvfp4.md` lists; which tensors have none at all
is stated.
"""

import importlib.util
from pathlib import Path

import pytest
import torch
from libraries_nvfp4 import LIBRARIES, Result, load, tensors

from kernels.nvfp4 import BLOCK, QuantizedTensor, decode_e4m3, dequantize, quantize, unpack

RECORDED = load(Path(__file__).parent / "golden" / "nvfp4_libraries.json")
TENSORS = tensors()

SMALLEST_NORMAL = 0x08
"""E4M3 bits of 2**-6, torchao's smallest scale."""

MIDPOINTS = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], dtype=torch.float64)

EXACT = {
    "torchao": {"uniform", "saturated"},
    "nvidia-modelopt": set(TENSORS) - {"zero blocks"},
    "compressed-tensors": {"uniform", "saturated"},
}
"""Tensors on which every bit agrees."""

SLACK = 2.0**-22
"""Two float32 roundings, relative: how near a midpoint a quotient lies whose rounding depends on
the order of steps.
"""


def scale_reason(library: str, ours: int, theirs: int, wanted: float) -> str | None:
    """Why a block scale differs. wanted: the scale before rounding to E4M3, in float64."""
    if wanted == 0:
        return "a block of zeros"
    if library == "torchao" and ours < SMALLEST_NORMAL and theirs == SMALLEST_NORMAL:
        return "scale clamped at the smallest normal"
    if library == "compressed-tensors" and wanted <= 2.0**-10 * (1 + SLACK):
        return "scale rounded to zero and replaced"
    middle = float((decode_e4m3(torch.tensor([ours, theirs], dtype=torch.uint8)).double()).mean())
    if abs(ours - theirs) == 1 and abs(wanted - middle) <= SLACK * middle:
        return "tie of the scale"
    return None


def unexplained(library: str, x: torch.Tensor, q: QuantizedTensor, result: Result) -> list[str]:
    """Differences without an explanation, in words."""
    scales, codes = result
    problems: list[str] = []
    exact = x.to(torch.float64).abs()
    wanted = exact.view(q.rows, -1, BLOCK).amax(-1) / 6 / q.tensor_scale.double()
    differ = scales != q.scales
    for row, block in differ.nonzero().tolist():
        ours, theirs = int(q.scales[row, block]), int(scales[row, block])
        if scale_reason(library, ours, theirs, float(wanted[row, block])) is None:
            problems.append(f"scale {ours:#x} and {theirs:#x} at {row}, {block}")

    quotient = exact.view(q.rows, -1, BLOCK) / (
        decode_e4m3(q.scales).double() * q.tensor_scale.double()
    ).unsqueeze(-1)
    near_tie = ((quotient.unsqueeze(-1) - MIDPOINTS).abs() <= SLACK * MIDPOINTS).any(-1).view(q.rows, -1)
    zero = x == 0
    same_scale = ~differ.repeat_interleave(BLOCK, dim=1)
    code_differs = (unpack(codes) != unpack(q.codes)) & same_scale
    for row, column in (code_differs & ~near_tie & ~zero).nonzero().tolist():
        problems.append(f"code at {row}, {column}")
    return problems


def assert_agreement(library: str, name: str, result: Result) -> None:
    x = TENSORS[name]
    q = quantize(x)
    assert not unexplained(library, x, q, result)
    if name in EXACT[library]:
        assert torch.equal(result[0], q.scales)
        assert torch.equal(result[1], q.codes)


@pytest.mark.parametrize("name", list(TENSORS))
@pytest.mark.parametrize("library", list(RECORDED))
def test_recorded_results(library: str, name: str) -> None:
    assert_agreement(library, name, RECORDED[library][1][name])


@pytest.mark.filterwarnings("ignore")  # the libraries' own imports warn
@pytest.mark.parametrize("library", list(LIBRARIES))
def test_installed_libraries(library: str) -> None:
    module = {"nvidia-modelopt": "modelopt"}.get(library, library.replace("-", "_"))
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{library} is not installed; its recorded results are compared instead")
    for name, x in TENSORS.items():
        assert_agreement(library, name, LIBRARIES[library](x))


def test_dequantized_values_differ_by_a_step_at_most() -> None:
    """Where a tie went the other way the values lie one E2M1 step apart, never further."""
    x = TENSORS["exact ties"]
    q = quantize(x)
    for _, results in RECORDED.values():
        scales, codes = results["exact ties"]
        other = QuantizedTensor(codes=codes, scales=scales, tensor_scale=q.tensor_scale, rows=q.rows, k=q.k)
        step = (decode_e4m3(q.scales) * q.tensor_scale * 2).repeat_interleave(BLOCK, dim=1)
        assert ((dequantize(other) - dequantize(q)).abs() <= step * (1 + 1e-6)).all()

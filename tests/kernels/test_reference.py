"""The reference products: independent of every kernel, right by hand, and refusing what does not fit."""

import ast
from pathlib import Path

import pytest
import torch

from kernels.gemm import reference
from kernels.nvfp4 import FormatError, dequantize, quantize


def test_references_import_no_kernel() -> None:
    allowed = {"kernels.nvfp4", "kernels.registry"}
    for path in (Path(reference.__file__), Path(reference.__file__).parents[1] / "nvfp4.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert all(name in allowed for name in names if name.startswith("kernels"))


def test_a_product_by_hand() -> None:
    weight = quantize(torch.tensor([[6.0, 3.0] + [0.0] * 14, [-1.5, 0.5] + [0.0] * 14]), tensor_scale=1.0)
    x = torch.tensor([[1.0, 2.0] + [0.0] * 14])
    assert reference.w4a16(x, weight).tolist() == [[12.0, -0.5]]
    quantized = quantize(x, tensor_scale=1 / 3)
    assert dequantize(quantized, torch.float64)[0, :2].tolist() == pytest.approx([1, 2])
    assert reference.w4a4(quantized, weight).tolist() == [pytest.approx([12.0, -0.5])]


def test_truncation_goes_toward_zero() -> None:
    sums = torch.tensor([1 + 2.0**-23, 1 + 1.9 * 2.0**-24, -1 - 1.9 * 2.0**-24, 0.0], dtype=torch.float64)
    assert reference.round_toward_zero(sums).tolist() == [1 + 2.0**-23, 1.0, -1.0, 0.0]
    assert reference.round_to_nearest(sums).tolist() == [1 + 2.0**-23, 1 + 2.0**-23, -1 - 2.0**-23, 0.0]


def test_another_k_is_refused() -> None:
    weight = quantize(torch.ones(2, 32))
    with pytest.raises(FormatError, match="K = 16, the weight has K = 32"):
        reference.w4a16(torch.ones(1, 16), weight)
    for product in (reference.w4a4, reference.tensor_core_w4a4, reference.tensor_core_bound):
        with pytest.raises(FormatError):
            product(quantize(torch.ones(2, 16)), weight)

"""The peer to compare with on Hopper: humming-kernels, NVFP4 weights and 16-bit activations."""

import importlib
from typing import Any

import torch

from kernels.nvfp4 import QuantizedTensor, ScaleLayout, to_layout
from kernels.registry import Implementation, Kind, Machine, Precision


def _why_not(machine: Machine) -> str | None:
    return machine.needs(major=9, packages=("humming",))


def _prepare(weight: QuantizedTensor) -> Any:
    rows = to_layout(weight, ScaleLayout.ROW_MAJOR)
    layer = (
        importlib.import_module("humming.layer")
        .HummingLayer(
            shape_n=weight.rows,
            shape_k=weight.k,
            weight_config={"quant_method": "modelopt", "quant_algo": "nvfp4"},
            torch_dtype=torch.bfloat16,
        )
        .to(rows.codes.device)
    )
    layer.load_from_tensors(
        {
            "weight": rows.codes,
            "weight_scale": rows.scales.view(weight.rows, -1).view(torch.float8_e4m3fn),
            "weight_scale_2": rows.tensor_scale.reshape(1),
        }
    )
    layer.transform()
    return layer


def _run(layer: Any, x: torch.Tensor, out: torch.Tensor) -> None:
    layer(x, outputs=out)


HUMMING = Implementation(
    name="humming-nvfp4",
    kind=Kind.GEMM,
    precision=Precision.W4A16,
    summary="humming-kernels, its own choice of kernel",
    tolerance=6e-3,
    why_not=_why_not,
    prepare=_prepare,
    run=_run,
)

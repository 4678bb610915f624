"""The linear layer reads both checkpoint namings and agrees with the reference on the CPU."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from kernels.gemm.hopper.linear import CheckpointError, NVFP4Linear
from kernels.nvfp4 import QuantizedTensor, dequantize, quantize

N, K = 48, 64


def weight(seed: int, n: int = N) -> QuantizedTensor:
    return quantize(torch.randn(n, K, generator=torch.Generator().manual_seed(seed)))


def compressed_tensors(prefix: str, q: QuantizedTensor) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}weight_packed": q.codes,
        f"{prefix}weight_scale": q.scales.view(torch.float8_e4m3fn),
        f"{prefix}weight_global_scale": (1.0 / q.tensor_scale).reshape(1),
    }


def modelopt(prefix: str, q: QuantizedTensor) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}weight": q.codes,
        f"{prefix}weight_scale": q.scales.view(torch.float8_e4m3fn),
        f"{prefix}weight_scale_2": q.tensor_scale.clone(),
    }


def expected(x: torch.Tensor, parts: list[QuantizedTensor], bias: torch.Tensor | None = None) -> torch.Tensor:
    exact = torch.cat([dequantize(q, torch.float64) for q in parts])
    return x.double() @ exact.T + (0 if bias is None else bias.double())


@pytest.mark.parametrize("naming", [compressed_tensors, modelopt])
def test_reads_a_checkpoint_file(tmp_path: Path, naming) -> None:  # type: ignore[no-untyped-def]
    q, bias = weight(1), torch.randn(N, generator=torch.Generator().manual_seed(2))
    path = tmp_path / "layer.safetensors"
    save_file({**naming("mlp.down_proj.", q), "mlp.down_proj.bias": bias}, path)
    layer = NVFP4Linear.from_checkpoint(load_file(path), "mlp.down_proj.")
    x = torch.randn(2, 3, K, generator=torch.Generator().manual_seed(3))
    assert layer(x).shape == (2, 3, N)
    torch.testing.assert_close(layer(x).double(), expected(x, [q], bias), rtol=1e-5, atol=1e-5)
    assert layer(x.bfloat16()).dtype == torch.bfloat16


def test_fuses_layers_with_scales_of_their_own() -> None:
    parts = [weight(4), weight(5, n=16)]
    parts[1].tensor_scale.mul_(3)
    tensors = {**modelopt("q_proj.", parts[0]), **modelopt("k_proj.", parts[1])}
    layer = NVFP4Linear.from_checkpoint(tensors, ["q_proj.", "k_proj."])
    x = torch.randn(5, K, generator=torch.Generator().manual_seed(6))
    torch.testing.assert_close(layer(x).double(), expected(x, parts), rtol=1e-5, atol=1e-5)


def test_buffers_travel_with_the_module() -> None:
    layer = NVFP4Linear.from_checkpoint(modelopt("", weight(7)), "")
    assert set(layer.state_dict()) == {"codes", "scales", "tensor_scale"}


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("weight_packed", "not an NVFP4 layer"),
        ("weight_scale", "no tensor"),
        ("weight_global_scale", "no tensor"),
    ],
)
def test_a_missing_tensor_is_named(lost: str, message: str) -> None:
    tensors = compressed_tensors("", weight(8))
    del tensors[lost]
    with pytest.raises(CheckpointError, match=message):
        NVFP4Linear.from_checkpoint(tensors, "")


def test_tensors_of_another_form_are_refused() -> None:
    tensors = compressed_tensors("", weight(9))
    with pytest.raises(CheckpointError, match="codes"):
        NVFP4Linear.from_checkpoint({**tensors, "weight_scale": tensors["weight_scale"][:, :1]}, "")
    with pytest.raises(CheckpointError, match="float16"):
        NVFP4Linear.from_checkpoint({**tensors, "weight_packed": torch.zeros(N, K, dtype=torch.float16)}, "")


def test_a_bias_on_some_fused_layers_only_is_refused() -> None:
    tensors = {**modelopt("a.", weight(10)), **modelopt("b.", weight(11)), "a.bias": torch.zeros(N)}
    with pytest.raises(CheckpointError, match="bias"):
        NVFP4Linear.from_checkpoint(tensors, ["a.", "b."])

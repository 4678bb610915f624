"""A linear layer that loads NVFP4 checkpoints: compressed-tensors and ModelOpt naming, and runs on CPU by
reference.
"""

from collections.abc import Mapping, Sequence

import torch

from kernels.gemm.hopper.build import Activation
from kernels.gemm.hopper.gemm import Weight, matmul, prepare, quantize_activations
from kernels.nvfp4 import BLOCK

VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
HOPPER = (9, 0)


class CheckpointError(ValueError):
    """The tensors of a layer are missing, incomplete or of another form; the message names them."""


def _take(tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    if name not in tensors:
        raise CheckpointError(f"the checkpoint has no tensor {name}")
    return tensors[name]


def _read(
    tensors: Mapping[str, torch.Tensor], prefix: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """uint8 codes [N, K / 2], uint8 scale bits [N, K / 16], float32 tensor scale in the decode direction."""
    if f"{prefix}weight_packed" in tensors:  # compressed-tensors stores the inverse
        codes = tensors[f"{prefix}weight_packed"]
        tensor_scale = 1.0 / _take(tensors, f"{prefix}weight_global_scale").float()
    elif f"{prefix}weight_scale_2" in tensors:  # ModelOpt
        codes = _take(tensors, f"{prefix}weight")
        tensor_scale = tensors[f"{prefix}weight_scale_2"].float()
    else:
        raise CheckpointError(f"{prefix!r} has neither weight_packed nor weight_scale_2: not an NVFP4 layer")
    scales = _take(tensors, f"{prefix}weight_scale")
    if codes.dtype != torch.uint8 or scales.dtype not in (torch.float8_e4m3fn, torch.uint8):
        raise CheckpointError(f"{prefix!r} has codes in {codes.dtype} and scales in {scales.dtype}")
    if scales.shape != (codes.shape[0], codes.shape[1] * 2 // BLOCK):
        raise CheckpointError(f"{prefix!r} has codes {tuple(codes.shape)} and scales {tuple(scales.shape)}")
    return codes, scales.view(torch.uint8), tensor_scale.reshape(()).expand(codes.shape[0])


class NVFP4Linear(torch.nn.Module):
    """y = x . weight transposed + bias, weight [N, K] in NVFP4.

    codes: uint8 [N, K / 2]; scales: E4M3 bits, uint8 [N, K / 16]; tensor_scale: float32 [N], so that fused
    layers keep the scale of each part. x and y: bfloat16 or float16 (any float on CPU), with any leading
    dimensions. w4a8: quantize the activations to E4M3 and round the weights likewise, on Hopper only.
    """

    def __init__(
        self,
        codes: torch.Tensor,
        scales: torch.Tensor,
        tensor_scale: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        w4a8: bool = False,
        batch_invariant: bool = False,
    ) -> None:
        super().__init__()
        self.codes: torch.Tensor
        self.scales: torch.Tensor
        self.tensor_scale: torch.Tensor
        self.bias: torch.Tensor | None
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)
        self.register_buffer("tensor_scale", tensor_scale)
        self.register_buffer("bias", bias)
        self.w4a8 = w4a8
        self.batch_invariant = batch_invariant
        self._ready: dict[torch.dtype, Weight] = {}

    @classmethod
    def from_checkpoint(
        cls,
        tensors: Mapping[str, torch.Tensor],
        prefixes: str | Sequence[str],
        *,
        w4a8: bool = False,
        batch_invariant: bool = False,
    ) -> "NVFP4Linear":
        """The layer at `prefix` ("model.layers.0.mlp.down_proj."), or several fused one below the other."""
        names = [prefixes] if isinstance(prefixes, str) else list(prefixes)
        parts = [_read(tensors, name) for name in names]
        codes, scales, tensor_scale = (torch.cat([part[i] for part in parts]) for i in range(3))
        biases = [tensors[f"{name}bias"] for name in names if f"{name}bias" in tensors]
        if biases and len(biases) != len(names):
            raise CheckpointError(f"some of {names} have a bias and some have none")
        bias = torch.cat(biases) if biases else None
        return cls(codes, scales, tensor_scale, bias, w4a8=w4a8, batch_invariant=batch_invariant)

    def dequantized(self) -> torch.Tensor:
        """float32 [N, K], exact up to the one product with the tensor scale."""
        table = torch.tensor([*VALUES, *(-v for v in VALUES)], device=self.codes.device)
        pairs = torch.stack((self.codes & 15, self.codes >> 4), dim=-1).long()
        scale = self.scales.view(torch.float8_e4m3fn).float().repeat_interleave(BLOCK, dim=1)
        return table[pairs.reshape(self.codes.shape[0], -1)] * scale * self.tensor_scale[:, None]

    def prepare(self, dtype: torch.dtype) -> Weight:
        """The packed weight for activations of this type; made once, at the first call."""
        if dtype not in self._ready:
            sixteen = Activation.FP16 if dtype == torch.float16 else Activation.BF16
            self._ready[dtype] = prepare(
                self.codes,
                self.scales,
                self.tensor_scale,
                activation=Activation.E4M3 if self.w4a8 else sixteen,
                bias=self.bias,
                batch_invariant=self.batch_invariant,
            )
        return self._ready[dtype]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., K] to [..., N]."""
        if x.is_cuda and torch.cuda.get_device_capability(x.device) == HOPPER:
            return self._on_hopper(x)
        bias = None if self.bias is None else self.bias.float()
        return torch.nn.functional.linear(x.float(), self.dequantized(), bias).to(x.dtype)

    def _on_hopper(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.prepare(x.dtype)
        rows = x.reshape(-1, x.shape[-1])
        out = torch.empty(rows.shape[0], self.codes.shape[0], dtype=x.dtype, device=x.device)
        if rows.shape[0]:
            matmul(quantize_activations(rows) if self.w4a8 else rows.contiguous(), weight, out)
        return out.reshape(*x.shape[:-1], out.shape[1])

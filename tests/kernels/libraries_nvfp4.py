"""NVFP4 quantization by public libraries, put into one form, and the tensors on which we compare with them.

Run as a script it records what the installed libraries give, for machines that have not got them:

    python tests/kernels/libraries_nvfp4.py tests/kernels/golden/nvfp4_libraries.json
"""

import base64
import importlib.metadata
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from kernels.nvfp4 import BLOCK, choose_tensor_scale

Result = tuple[torch.Tensor, torch.Tensor]
"""Block scale bits `[rows, blocks]` and packed codes `[rows, 8 * blocks]`, both uint8."""


def tensors() -> dict[str, torch.Tensor]:
    """Random and adversarial tensors, the same everywhere: built from integers, with no
    floating-point generator.
    """
    generator = torch.Generator().manual_seed(20260801)

    def integers(low: int, high: int, rows: int = 64, k: int = 256) -> torch.Tensor:
        return torch.randint(low, high, (rows, k), generator=generator)

    mantissas = (integers(-(2**23), 2**23).to(torch.float64) * 2.0**-23).to(torch.float32)
    row_scale = 2.0 ** integers(-9, 10, k=1).to(torch.float32)
    block_scale = 2.0 ** integers(-12, 4, k=256 // BLOCK).repeat_interleave(BLOCK, dim=1).to(torch.float32)
    zero_blocks = mantissas * (integers(0, 4, k=256 // BLOCK) > 0).repeat_interleave(BLOCK, dim=1)
    return {
        "uniform": mantissas,
        "bfloat16": mantissas.to(torch.bfloat16),
        "rows of many sizes": (mantissas * row_scale).to(torch.bfloat16),
        "blocks of many sizes": (mantissas * block_scale).to(torch.bfloat16),
        "exact ties": integers(-24, 25).to(torch.float32),
        "saturated": integers(-1, 2).to(torch.float32) * 3e38,
        "tiny": mantissas * 2.0**-100,
        "zero blocks": zero_blocks,
    }


def by_torchao(x: torch.Tensor) -> Result:
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize

    scales, codes = nvfp4_quantize(x.contiguous(), BLOCK, choose_tensor_scale(x))
    return scales.view(torch.uint8), codes.view(torch.uint8)


def by_modelopt(x: torch.Tensor) -> Result:
    from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor

    quantized, scales, _ = NVFP4QTensor.quantize(x.clone(), BLOCK, None, choose_tensor_scale(x))
    return scales.view(torch.uint8), quantized._quantized_data


def by_compressed_tensors(x: torch.Tensor) -> Result:
    from compressed_tensors.compressors.nvfp4.helpers import quantize_and_pack_fp4
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.utils.helpers import calculate_qparams, generate_gparam

    x = x.to(torch.float32)
    e4m3 = torch.float8_e4m3fn
    arguments = QuantizationArgs(
        num_bits=4, type="float", strategy="tensor_group", group_size=BLOCK, symmetric=True, scale_dtype=e4m3
    )
    inverse = generate_gparam(x.min(), x.max())
    grouped = x.view(x.shape[0], -1, BLOCK)
    scales, _ = calculate_qparams(grouped.amin(-1), grouped.amax(-1), arguments, global_scale=inverse)
    scales = scales.to(e4m3)
    codes = quantize_and_pack_fp4(x, scales.to(torch.float32), inverse)
    return scales.view(torch.uint8), codes


LIBRARIES: dict[str, Callable[[torch.Tensor], Result]] = {
    "torchao": by_torchao,
    "nvidia-modelopt": by_modelopt,
    "compressed-tensors": by_compressed_tensors,
}


def _text(tensor: torch.Tensor) -> str:
    return base64.b64encode(bytes(tensor.flatten().tolist())).decode()


def load(path: Path) -> dict[str, tuple[str, dict[str, Result]]]:
    """For each recorded library, its version and its results by tensor."""
    document = json.loads(path.read_text())
    shapes = {name: x.shape for name, x in tensors().items()}

    def tensor(text: str, rows: int) -> torch.Tensor:
        return torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8).view(rows, -1)

    return {
        library: (
            entry["version"],
            {
                name: (tensor(found["scales"], shapes[name][0]), tensor(found["codes"], shapes[name][0]))
                for name, found in entry["results"].items()
            },
        )
        for library, entry in document.items()
    }


def record(path: Path) -> None:
    """Write what every installed library gives."""
    document = {}
    for library, quantize in LIBRARIES.items():
        results = {name: quantize(x) for name, x in tensors().items()}
        document[library] = {
            "version": importlib.metadata.version(library),
            "results": {n: {"scales": _text(s), "codes": _text(c)} for n, (s, c) in results.items()},
        }
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    record(Path(sys.argv[1]))

"""NVFP4 weights times 16-bit or E4M3 activations on Hopper: out[M, N] = x[M, K] . weight[N, K] transposed +
bias.

    weight = prepare(codes, scales, tensor_scale, activation=Activation.BF16)
    matmul(x, weight, out)

The weights are exact for 16-bit activations: E2M1 times E4M3 fits BF16 and FP16, the tensor scale multiplies
the fp32 sum. For E4M3 activations `quantize_activations` gives x one scale a token, and the kernel rounds
code times scale to E4M3 (`pack`). A call allocates nothing, may be captured in a CUDA graph and never
compiles: the first `prepare` does.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from kernels.gemm.hopper import build
from kernels.gemm.hopper.build import Activation, Launch
from kernels.gemm.hopper.pack import Bits, Packed, pack
from kernels.gemm.hopper.select import CONFIGS, SLAB_TOKENS, Plan, choose, choose_invariant
from kernels.nvcc import LaunchError

BITS = {Activation.BF16: Bits.BF16, Activation.FP16: Bits.FP16, Activation.E4M3: Bits.E4M3}
DTYPES = {Activation.BF16: torch.bfloat16, Activation.FP16: torch.float16}
UNWRITTEN = 0xFF
"""Every byte of an idle workspace: a part of a tile is there when its words differ from this."""
ALIGNMENT = 16


class OperandError(ValueError):
    """An operand has a shape, type, place or stride that the kernel cannot take; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The loaded library and what the card has. One for each device, made by the first `prepare`."""

    library: ctypes.CDLL
    multiprocessors: int
    workspace_bytes: int


class Workspace:
    """Where CTAs leave parts of tiles for one another. Launches that may overlap in time need one each.

    Calls outside graphs use one for each stream by themselves. Graphs use one for each device: graphs that
    are replayed at the same time must be captured with workspaces of their own, given to `matmul`.
    """

    def __init__(self, device: torch.device) -> None:
        self.bytes = torch.full((card(device).workspace_bytes,), UNWRITTEN, dtype=torch.uint8, device=device)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedActivations:
    """Activations in E4M3: uint8 codes [M, K padded to 64], columns permuted as the kernel reads them, and
    fp32 scales [M]: x = code * scale.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A weight ready to be multiplied. bias: float32 [N padded to 64] or None."""

    packed: Packed
    activation: Activation
    bias: torch.Tensor | None
    batch_invariant: bool
    plans: dict[int, Plan] = field(default_factory=dict)


_cards: dict[int, Card] = {}
_workspaces: dict[tuple[int, int], Workspace] = {}
_GRAPHS = -1


def card(device: torch.device) -> Card:
    """The card's library, compiled and loaded at the first call."""
    index = _index(device)
    if index not in _cards:
        configs = tuple(c for family in CONFIGS.values() for c in family)
        multiprocessors = torch.cuda.get_device_properties(index).multi_processor_count
        _cards[index] = Card(
            library=ctypes.CDLL(str(build.library(configs))),
            multiprocessors=multiprocessors,
            workspace_bytes=max(c.partial_bytes * c.resident for c in configs) * multiprocessors,
        )
    return _cards[index]


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def _workspace(device: torch.device, stream: int) -> Workspace:
    index = _index(device)
    key = (index, _GRAPHS if torch.cuda.is_current_stream_capturing() else stream)
    if key not in _workspaces:
        _workspaces[key] = Workspace(torch.device("cuda", index))
    return _workspaces[key]


def prepare(
    codes: torch.Tensor,
    scales: torch.Tensor,
    tensor_scale: torch.Tensor,
    *,
    activation: Activation,
    bias: torch.Tensor | None = None,
    batch_invariant: bool = False,
) -> Weight:
    """Pack a weight that lies on the card; offline. codes: uint8 [N, K / 2]. scales: E4M3 bits, uint8 [N, K /
    16].

    tensor_scale: float32, one value or one per row. batch_invariant: a token's result then has the same bits
    whatever the other tokens and their number. Raises UnpackableError, and BuildError when the compiler
    fails.
    """
    device = codes.device
    card(device)
    key = (_index(device), _GRAPHS)
    if key not in _workspaces:
        _workspaces[key] = Workspace(device)
    packed = pack(codes, scales, tensor_scale, BITS[activation])
    padded = None
    if bias is not None:
        padded = torch.zeros_like(packed.row_scale)
        padded[: packed.n] = bias.to(device=device, dtype=torch.float32)
    # The kernel may read weights before earlier work on the stream has ended, so they must be there by now.
    torch.cuda.synchronize(device)
    return Weight(packed=packed, activation=activation, bias=padded, batch_invariant=batch_invariant)


def quantize_activations(x: torch.Tensor, out: QuantizedActivations | None = None) -> QuantizedActivations:
    """x [M, K] in bfloat16 or float16 to E4M3, scale amax / 448 for each token; into `out` where it is
    given.
    """
    _expect_matrix("x", x)
    m, k = x.shape
    if out is None:
        out = QuantizedActivations(
            codes=torch.empty(m, -(-k // 64) * 64, dtype=torch.uint8, device=x.device),
            scales=torch.empty(m, dtype=torch.float32, device=x.device),
            k=k,
        )
    code = card(x.device).library.hopper_quantize(
        ctypes.c_void_p(x.data_ptr()),
        ctypes.c_void_p(out.codes.data_ptr()),
        ctypes.c_void_p(out.scales.data_ptr()),
        m,
        k,
        x.stride(0),
        out.codes.stride(0),
        int(x.dtype == torch.float16),
        1,
        ctypes.c_void_p(torch.cuda.current_stream(x.device).cuda_stream),
    )
    if code:
        raise LaunchError(code)
    return out


def matmul(
    x: torch.Tensor | QuantizedActivations,
    weight: Weight,
    out: torch.Tensor,
    workspace: Workspace | None = None,
) -> None:
    """out [M, N] = x [M, K] times weight transposed, plus its bias, on the current stream.

    x: in the weight's 16-bit type, or QuantizedActivations for E4M3. Raises OperandError and LaunchError.
    """
    operand = x.codes if isinstance(x, QuantizedActivations) else x
    _check(x, weight, out)
    device, packed = out.device, weight.packed
    stream = torch.cuda.current_stream(device).cuda_stream
    space = (workspace or _workspace(device, stream)).bytes
    launch = Launch(
        weights=packed.blocks.data_ptr(),
        row_scale=packed.row_scale.data_ptr(),
        bias=None if weight.bias is None else weight.bias.data_ptr(),
        partials=space.data_ptr(),
        partial_bytes=space.numel(),
        n=packed.n,
        k=operand.shape[1],
        ldx=operand.stride(0),
        ldo=out.stride(0),
        panels=packed.blocks.shape[0],
        chunks=packed.blocks.shape[1],
        out_fp16=int(out.dtype == torch.float16),
        pdl=1,
    )
    m = operand.shape[0]
    slab = SLAB_TOKENS[weight.activation] if weight.batch_invariant else m
    for start in range(0, m, slab):
        count = min(slab, m - start)
        plan = _plan(weight, count, card(device).multiprocessors)
        launch.m, launch.ctas = count, plan.ctas
        launch.x = operand.data_ptr() + start * operand.stride(0) * operand.element_size()
        launch.out = out.data_ptr() + start * out.stride(0) * out.element_size()
        launch.x_scale = x.scales.data_ptr() + start * 4 if isinstance(x, QuantizedActivations) else None
        function: Callable[..., int] = getattr(card(device).library, plan.config.symbol)
        code = function(ctypes.byref(launch), ctypes.c_void_p(stream))
        if code:
            raise LaunchError(code)


def _plan(weight: Weight, m: int, multiprocessors: int) -> Plan:
    if m not in weight.plans:
        packed = weight.packed
        weight.plans[m] = (
            choose_invariant(weight.activation, m, multiprocessors)
            if weight.batch_invariant
            else choose(weight.activation, m, packed.n, packed.k, multiprocessors)
        )
    return weight.plans[m]


def _expect_matrix(name: str, tensor: torch.Tensor) -> None:
    if tensor.dim() != 2 or tensor.shape[0] < 1:
        raise OperandError(f"{name} must be a matrix with at least one row, not {tuple(tensor.shape)}")
    if tensor.stride(1) != 1 or (tensor.stride(0) * tensor.element_size()) % ALIGNMENT:
        raise OperandError(
            f"the rows of {name} must be contiguous and start at multiples of {ALIGNMENT} bytes"
        )
    if tensor.data_ptr() % ALIGNMENT:
        raise OperandError(f"{name} must start at a multiple of {ALIGNMENT} bytes")


def _check(x: torch.Tensor | QuantizedActivations, weight: Weight, out: torch.Tensor) -> None:
    quantized = isinstance(x, QuantizedActivations)
    operand = x.codes if isinstance(x, QuantizedActivations) else x
    k = x.k if isinstance(x, QuantizedActivations) else operand.shape[-1]
    _expect_matrix("x", operand)
    _expect_matrix("out", out)
    if quantized != (weight.activation is Activation.E4M3):
        raise OperandError(f"the weight is packed for {weight.activation.name} activations")
    if not quantized and operand.dtype != DTYPES[weight.activation]:
        raise OperandError(f"x is {operand.dtype}, the weight is packed for {weight.activation.name}")
    if out.dtype not in DTYPES.values() or (not quantized and out.dtype != operand.dtype):
        raise OperandError(f"out cannot be {out.dtype}")
    if k != weight.packed.k or tuple(out.shape) != (operand.shape[0], weight.packed.n):
        raise OperandError(f"x {(operand.shape[0], k)} and out {tuple(out.shape)} do not fit the weight")
    if len({operand.device, out.device, weight.packed.blocks.device}) != 1:
        raise OperandError("x, out and the weight lie on different devices")

"""On a Hopper card: exact products, odd sizes, extremes, repeated and concurrent runs, graphs, batch
invariance.
"""

import pytest
import torch

from kernels.gemm.hopper.build import Activation
from kernels.gemm.hopper.gemm import (
    UNWRITTEN,
    OperandError,
    QuantizedActivations,
    Weight,
    Workspace,
    matmul,
    prepare,
    quantize_activations,
)
from kernels.gemm.hopper.linear import NVFP4Linear
from kernels.gemm.hopper.pack import decoded

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
pytestmark = pytest.mark.skipif(not HOPPER, reason="needs a Hopper card")

SIXTEEN = [Activation.BF16, Activation.FP16]
TYPE = {Activation.BF16: torch.bfloat16, Activation.FP16: torch.float16, Activation.E4M3: torch.bfloat16}
TOLERANCE = {Activation.BF16: 3e-3, Activation.FP16: 5e-4, Activation.E4M3: 3e-3}
SIZES = [
    (1, 16, 16), (1, 64, 256), (3, 80, 272), (7, 5120, 1536), (8, 1024, 2048), (13, 1040, 1040), (16, 2048,
    4096), (31, 144, 48), (64, 640, 5120), (65, 4096, 512), (129, 1040, 1040), (200, 17024, 512), (300, 4096,
    512), (513, 2064, 784),
]  # fmt: skip
VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)


def exact(codes: torch.Tensor, scales: torch.Tensor, tensor_scale: float) -> torch.Tensor:
    table = torch.cat((VALUES, -VALUES)).to(codes.device)
    pairs = torch.stack((codes & 15, codes >> 4), dim=-1).reshape(codes.shape[0], -1).long()
    blocks = scales.view(torch.float8_e4m3fn).double().repeat_interleave(16, dim=1)
    return table[pairs] * blocks * tensor_scale


def weight(
    n: int, k: int, act: Activation, *, extreme: bool = False, invariant: bool = False, bias: bool = False
):  # type: ignore[no-untyped-def]
    codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device="cuda")
    low, high = (0, 0x7F) if extreme else (0x50, 0x7F)
    scales = torch.randint(low, high, (n, k // 16), dtype=torch.uint8, device="cuda")
    added = torch.randn(n, device="cuda") if bias else None
    tensor_scale = torch.tensor(2.0**-14, device="cuda")
    ready = prepare(codes, scales, tensor_scale, activation=act, bias=added, batch_invariant=invariant)
    return ready, exact(codes, scales, 2.0**-14), added


def product(x: torch.Tensor, ready: Weight, workspace: Workspace | None = None) -> torch.Tensor:
    """With an operand, and rows around the result, that must stay as they are."""
    m, n = x.shape[0], ready.packed.n
    around = torch.full((m + 2, n), torch.nan, dtype=x.dtype, device="cuda")
    operand = quantize_activations(x) if ready.activation is Activation.E4M3 else x
    matmul(operand, ready, around[1 : m + 1], workspace)
    assert bool(around[0].isnan().all())
    assert bool(around[-1].isnan().all())
    assert bool(around[1 : m + 1].isfinite().all())
    return around[1 : m + 1]


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.double() - want).norm() / want.norm())


def read_back(q: QuantizedActivations) -> torch.Tensor:
    m = q.codes.shape[0]
    values = q.codes.view(torch.float8_e4m3fn).double().reshape(m, -1, 4, 4, 4).transpose(2, 3).reshape(m, -1)
    return values[:, : q.k] * q.scales[:, None].double()


@pytest.mark.parametrize("act", SIXTEEN)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("extreme", [False, True])
def test_sixteen_bit_products_match_float64(act: Activation, m: int, n: int, k: int, extreme: bool) -> None:
    ready, want, bias = weight(n, k, act, extreme=extreme, bias=m % 2 == 1)
    x = torch.randn(m, k, device="cuda").to(TYPE[act])
    reference = x.double() @ want.T + (0 if bias is None else bias.double())
    assert error(product(x, ready), reference) < TOLERANCE[act]


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("extreme", [False, True])
def test_e4m3_products_match_their_rounded_operands(m: int, n: int, k: int, extreme: bool) -> None:
    ready, want, bias = weight(n, k, Activation.E4M3, extreme=extreme, bias=m % 2 == 1)
    x = torch.randn(m, k, device="cuda").bfloat16()
    added = 0 if bias is None else bias.double()
    rounded = decoded(ready.packed) * ready.packed.row_scale[:n, None].double()
    got = product(x, ready)
    assert error(got, read_back(quantize_activations(x)) @ rounded.T + added) < TOLERANCE[Activation.E4M3]
    assert error(got, x.double() @ want.T + added) < 6e-2


@pytest.mark.parametrize("act", list(Activation))
def test_every_code_and_scale_comes_out_as_it_is(act: Activation) -> None:
    n, k = 128, 256
    scales = torch.arange(n * k // 16, device="cuda").remainder(256).to(torch.uint8).reshape(n, -1)
    scales[(scales & 0x7F) == 0x7F] = 0
    codes = (torch.arange(8, device="cuda", dtype=torch.uint8) * 0x22 + 0x10).repeat(n, k // 16)
    ready = prepare(codes, scales, torch.ones((), device="cuda"), activation=act)
    got = product(torch.eye(k, device="cuda", dtype=TYPE[act]), ready).double().T
    rounded = decoded(ready.packed) * ready.packed.row_scale[:n, None].double()
    assert torch.equal(got, rounded)
    if act is not Activation.E4M3:
        assert torch.equal(got, exact(codes, scales, 1.0))


@pytest.mark.parametrize("act", list(Activation))
@pytest.mark.parametrize("m", [5, 48, 130, 700])
def test_repeated_runs_have_equal_bits_and_leave_the_workspace_idle(act: Activation, m: int) -> None:
    ready, _, _ = weight(1040, 4096, act)
    x = torch.randn(m, 4096, device="cuda").to(TYPE[act])
    space = Workspace(torch.device("cuda"))
    first = product(x, ready, space).clone()
    for _ in range(20):
        assert torch.equal(product(x, ready, space), first)
    assert bool((space.bytes == UNWRITTEN).all())


@pytest.mark.parametrize("act", list(Activation))
@pytest.mark.parametrize(("n", "k"), [(5120, 8192), (1040, 4096)])
def test_batch_invariant_results_do_not_depend_on_m(act: Activation, n: int, k: int) -> None:
    ready, _, _ = weight(n, k, act, invariant=True)
    x = torch.randn(333, k, device="cuda").to(TYPE[act])
    whole = product(x, ready).clone()
    for m in (1, 2, 9, 17, 40, 64, 65, 128, 200):
        assert torch.equal(product(x[:m].contiguous(), ready), whole[:m]), m


def test_concurrent_streams() -> None:
    made = [weight(5120, 2048, act) for act in (Activation.BF16, Activation.FP16, Activation.BF16)]
    inputs = [torch.randn(24, 2048, device="cuda").to(TYPE[w[0].activation]) for w in made]
    alone = [product(x, w[0]).clone() for x, w in zip(inputs, made, strict=True)]
    streams = [torch.cuda.Stream() for _ in made]
    outs = [torch.empty_like(one) for one in alone]
    torch.cuda.synchronize()
    for _ in range(50):
        for stream, x, w, out in zip(streams, inputs, made, outs, strict=True):
            with torch.cuda.stream(stream):
                matmul(x, w[0], out)
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(alone, outs, strict=True))


@pytest.mark.parametrize("act", list(Activation))
def test_graphs_replay_with_new_inputs_and_allocate_nothing(act: Activation) -> None:
    ready, _, _ = weight(2048, 4096, act)
    x = torch.randn(20, 4096, device="cuda").to(TYPE[act])
    operand = quantize_activations(x) if act is Activation.E4M3 else x
    out = torch.empty(20, 2048, dtype=TYPE[act], device="cuda")
    matmul(operand, ready, out)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    matmul(operand, ready, out)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if isinstance(operand, QuantizedActivations):
            quantize_activations(x, operand)
        for _ in range(5):
            matmul(operand, ready, out)
    for _ in range(3):
        x.normal_()
        out.fill_(torch.nan)
        graph.replay()
        assert torch.equal(out, product(x, ready))


def test_rows_with_gaps_and_what_is_refused() -> None:
    ready, want, _ = weight(256, 512, Activation.BF16)
    wide = torch.randn(40, 1024, device="cuda").bfloat16()
    assert error(product(wide[:, :512], ready), wide[:, :512].double() @ want.T) < 3e-3
    out = torch.empty(40, 256, dtype=torch.bfloat16, device="cuda")
    for x, match in [
        (wide, "do not fit"), (wide[:, 1:513], "start at"), (wide[:, :512].half(), "packed for"), (wide.T,
        "contiguous"),
    ]:  # fmt: skip
        with pytest.raises(OperandError, match=match):
            matmul(x, ready, out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("w4a8", [False, True])
def test_the_linear_layer(dtype: torch.dtype, w4a8: bool) -> None:
    codes = torch.randint(0, 256, (96, 64), dtype=torch.uint8)
    scales = torch.randint(0x50, 0x7F, (96, 8), dtype=torch.uint8)
    tensor_scale = torch.rand(96) * 2.0**-12
    cpu = NVFP4Linear(codes, scales, tensor_scale, torch.randn(96), w4a8=w4a8)
    x = torch.randn(3, 5, 128)
    want = cpu(x)
    got = cpu.cuda()(x.to("cuda", dtype))
    assert got.shape == (3, 5, 96)
    assert got.dtype == dtype
    assert error(got.cpu(), want.double()) < (6e-2 if w4a8 else 4e-3)

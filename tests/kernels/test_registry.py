"""Choice by capability: a decision with its reason, by table."""

import pytest
import torch

from kernels.registry import (
    DuplicateNameError,
    Kind,
    Machine,
    Precision,
    choose,
    implementations,
    this_machine,
)

HOPPER = Machine(device="cuda", capability=(9, 0), card="H200", packages=frozenset({"triton"}))
BLACKWELL = Machine(
    device="cuda", capability=(12, 0), packages=frozenset({"triton", "flashinfer"}), tools=frozenset({"nvcc"})
)
ADA = Machine(device="cuda", capability=(8, 9))
CPU = Machine(device="cpu")


@pytest.mark.parametrize(
    ("machine", "needs", "reason"),
    [
        (CPU, {"capability": (9, 0)}, "needs a CUDA device, and none is visible"),
        (CPU, {"major": 12}, "needs a CUDA device, and none is visible"),
        (CPU, {}, None),
        (HOPPER, {"capability": (9, 0)}, None),
        (HOPPER, {"capability": (12, 0)}, "needs compute capability 12.0, this card has 9.0"),
        (HOPPER, {"at_least": (8, 9)}, None),
        (HOPPER, {"at_least": (10, 0)}, "needs compute capability 10.0 or later, this card has 9.0"),
        (HOPPER, {"major": 12}, "needs compute capability 12.x, this card has 9.0"),
        (HOPPER, {"at_least": (8, 0), "packages": ("triton",)}, None),
        (HOPPER, {"packages": ("flashinfer",)}, "needs the package flashinfer, which is not installed"),
        (HOPPER, {"tools": ("nvcc",)}, "needs the tool nvcc, which is not installed"),
        (BLACKWELL, {"major": 12, "packages": ("flashinfer",), "tools": ("nvcc",)}, None),
    ],
)
def test_why_not(machine: Machine, needs: dict[str, object], reason: str | None) -> None:
    assert machine.needs(**needs) == reason  # type: ignore[arg-type]


@pytest.mark.parametrize("machine", [CPU, ADA, HOPPER, BLACKWELL])
@pytest.mark.parametrize("kind", list(Kind))
def test_each_machine_has_a_choice_and_each_refusal_a_reason(machine: Machine, kind: Kind) -> None:
    choices = choose(kind, machine)
    assert {c.implementation.name for c in choices} == {i.name for i in implementations(kind)}
    assert all(c.reason is None or len(c.reason) > 10 for c in choices)
    if machine not in (ADA,) or kind is Kind.GEMM:
        assert any(c.reason is None for c in choices)


def usable(machine: Machine) -> set[str]:
    return {c.implementation.name for c in choose(Kind.GEMM, machine) if c.reason is None}


def test_references_run_on_a_cpu_only() -> None:
    assert usable(CPU) == {"reference-w4a16", "reference-w4a4"}
    assert not any(name.startswith("reference") for name in usable(HOPPER))


def test_fp4_tensor_cores_are_asked_for() -> None:
    native = {i.name for i in implementations(Kind.GEMM) if i.precision is Precision.W4A4 and not i.cpu_only}
    assert not native & usable(HOPPER)
    assert native <= usable(BLACKWELL)


def test_what_was_never_run_says_so() -> None:
    for implementation in implementations(Kind.GEMM):
        native = implementation.precision is Precision.W4A4 and not implementation.cpu_only
        assert (implementation.never_run is not None) == native


def test_every_gemm_can_prepare() -> None:
    assert all(i.prepare is not None for i in implementations(Kind.GEMM))
    assert all(i.summary and i.tolerance >= 0 for kind in Kind for i in implementations(kind))


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError, match="no gemm implementation is named nonsense"):
        choose(Kind.GEMM, CPU, ("nonsense",))


def test_this_machine_agrees_with_torch() -> None:
    assert (this_machine().device == "cuda") == torch.cuda.is_available()


def test_an_uninstalled_provider_is_passed_over() -> None:
    found = implementations(Kind.GEMM, ("kernels.gemm.reference", "kernels.gemm.no_such_module"))
    assert {i.name for i in found} == {"reference-w4a16", "reference-w4a4"}


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(DuplicateNameError, match="reference-w4a16"):
        implementations(Kind.GEMM, ("kernels.gemm.reference", "kernels.gemm.reference"))

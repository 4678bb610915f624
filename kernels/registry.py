"""Which implementations exist, which of them this machine can run, and why not the others.

To add an implementation, define `IMPLEMENTATIONS: tuple[Implementation, ...]` in a module named in
`PROVIDERS`. A provider must import on a machine without a GPU, a compiler or Triton: import those inside
`prepare` or `run`.

    def why_not(machine: Machine) -> str | None:
        return machine.needs(capability=(9, 0), packages=("triton",))

    IMPLEMENTATIONS = (
        Implementation(
            name="hopper-w4a16",
            kind=Kind.GEMM,
            precision=Precision.W4A16,
            summary="...",
            tolerance=4e-3,
            ours=True,
            why_not=why_not,
            prepare=repack,      # (weight: QuantizedTensor) -> state; offline, may be slow
            run=launch,          # (state, x, out) -> None; allocates nothing
        ),
    )

The benchmark checks each implementation against the reference of its precision before it times it.
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch

from kernels import nvcc
from kernels.nvfp4 import QuantizedTensor

PROVIDERS = (
    "kernels.gemm.reference",
    "kernels.gemm.libraries",
    "kernels.gemm.sm120",
    "kernels.gemm.hopper.implementations",
    "kernels.quantize.implementations",
)
"""Modules that define `IMPLEMENTATIONS`. One that is not installed is passed over."""


class Kind(StrEnum):
    """What an implementation computes."""

    GEMM = "gemm"
    QUANTIZE = "quantize"


class Precision(StrEnum):
    """What a GEMM multiplies: weights, then activations. It selects the reference and the column of
    a table.
    """

    W4A16 = "w4a16"
    """NVFP4 weights decoded exactly, 16-bit activations."""
    W4A8 = "w4a8"
    """NVFP4 weights, E4M3 activations."""
    W4A4 = "w4a4"
    """NVFP4 weights and activations."""
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    NVFP4 = "nvfp4"
    """Output format of a quantizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What an implementation may ask of the machine.

    device: "cpu" or "cuda". capability: compute capability of the card, or None without one.
    packages: importable packages among those that some implementation needs. tools: compilers on the PATH.
    """

    device: str
    capability: tuple[int, int] | None = None
    card: str | None = None
    packages: frozenset[str] = field(default_factory=frozenset)
    tools: frozenset[str] = field(default_factory=frozenset)

    def needs(
        self,
        *,
        capability: tuple[int, int] | None = None,
        at_least: tuple[int, int] | None = None,
        major: int | None = None,
        packages: tuple[str, ...] = (),
        tools: tuple[str, ...] = (),
    ) -> str | None:
        """The first thing that is missing, in words, or None.

        capability: exactly this one. at_least: this or a later one. major: any minor of this major version.
        """
        wants_card = capability or at_least or major is not None
        if wants_card and self.capability is None:
            return "needs a CUDA device, and none is visible"
        have = self.capability or (0, 0)
        if capability is not None and have != capability:
            return f"needs compute capability {_dotted(capability)}, this card has {_dotted(have)}"
        if at_least is not None and have < at_least:
            return f"needs compute capability {_dotted(at_least)} or later, this card has {_dotted(have)}"
        if major is not None and have[0] != major:
            return f"needs compute capability {major}.x, this card has {_dotted(have)}"
        return self._missing("package", packages, self.packages) or self._missing("tool", tools, self.tools)

    @staticmethod
    def _missing(what: str, wanted: tuple[str, ...], have: frozenset[str]) -> str | None:
        return next(
            (f"needs the {what} {name}, which is not installed" for name in wanted if name not in have), None
        )


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def _always(_: Machine) -> str | None:
    return None


def _any_shape(*_: int) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """One way to compute a product or a quantization.

    For a GEMM, `prepare(weight)` turns weights `[N, K]` into whatever `run` wants and may be slow;
    `run(state, x, out)` writes x `[M, K]` times weight transposed into out `[M, N]`, for bfloat16 x and out
    on the machine's device, on the current stream. It neither allocates nor synchronizes nor compiles anew
    when M changes.

    An implementation whose activations are quantized gives `quantize_input(state, x) -> object`; `run` then
    takes that object as x, and the benchmark reports the time with and without this step.

    For a quantizer, `prepare` is not called; `run(None, x, out)` fills the codes and the swizzled scales of
    the QuantizedTensor `out` from x `[rows, k]`. One that `finds_scale` also fills its tensor scale; another
    one reads the tensor scale that stands there.

    tolerance: the largest relative Frobenius error against the reference of its precision. 0 asks for equal
    bits.
    dtype: of x and out. ours: False for a library that we compare with. cpu_only: a reference, not run on a
    card.
    why_not: what keeps this machine from running it, in words, or None.
    why_not_shape: likewise for a size (M, N, K).
    never_run: the reason why no measured result of it exists, printed beside it; None when it has been run.
    """

    name: str
    kind: Kind
    precision: Precision
    summary: str
    tolerance: float
    run: Callable[[Any, Any, Any], None]
    prepare: Callable[[QuantizedTensor], Any] | None = None
    quantize_input: Callable[[Any, torch.Tensor], Any] | None = None
    why_not: Callable[[Machine], str | None] = _always
    why_not_shape: Callable[[int, int, int], str | None] = _any_shape
    dtype: torch.dtype = torch.bfloat16
    ours: bool = False
    cpu_only: bool = False
    finds_scale: bool = True
    never_run: str | None = None


WANTED_PACKAGES = ("triton", "humming", "flashinfer", "cutlass")


def this_machine() -> Machine:
    """What this machine has, as far as implementations ask for it. Looks at the current CUDA device."""
    packages = frozenset(name for name in WANTED_PACKAGES if importlib.util.find_spec(name) is not None)
    tools = frozenset({"nvcc"} if nvcc.find() else ())
    if not torch.cuda.is_available():
        return Machine(device="cpu", packages=packages, tools=tools)
    return Machine(
        device="cuda",
        capability=torch.cuda.get_device_capability(),
        card=torch.cuda.get_device_name(),
        packages=packages,
        tools=tools,
    )


class DuplicateNameError(ValueError):
    """Two providers offer an implementation of the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Whether one implementation can be used here. `reason` says why not, and is None when it can."""

    implementation: Implementation
    reason: str | None


def implementations(kind: Kind, providers: Iterable[str] = PROVIDERS) -> tuple[Implementation, ...]:
    """All implementations of `kind`, in the order of the providers. Raises DuplicateNameError."""
    found: dict[str, Implementation] = {}
    for provider in providers:
        spec = importlib.util.find_spec(provider)
        if spec is None or spec.origin is None:
            continue
        for implementation in importlib.import_module(provider).IMPLEMENTATIONS:
            if implementation.name in found:
                raise DuplicateNameError(implementation.name)
            found[implementation.name] = implementation
    return tuple(i for i in found.values() if i.kind is kind)


def choose(kind: Kind, machine: Machine, names: tuple[str, ...] = ()) -> tuple[Choice, ...]:
    """One Choice for each implementation of `kind`, or for those in `names` only.

    Raises KeyError for a name that no provider offers.
    """
    known = implementations(kind)
    unknown = set(names) - {i.name for i in known}
    if unknown:
        raise KeyError(f"no {kind} implementation is named {', '.join(sorted(unknown))}")
    wanted = [i for i in known if not names or i.name in names]
    return tuple(Choice(implementation=i, reason=_reason(i, machine)) for i in wanted)


def _reason(implementation: Implementation, machine: Machine) -> str | None:
    if implementation.cpu_only and machine.device != "cpu":
        return "a reference for machines without a card"
    return implementation.why_not(machine)

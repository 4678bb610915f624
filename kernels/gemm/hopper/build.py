"""Compiles the Hopper kernels with nvcc at their first use and keeps the library in a cache keyed by its
sources.

Each configuration is one translation unit, so that a build uses every core; nothing of torch is included, so
that one takes seconds. The library is loaded through ctypes and takes plain pointers: it works with any torch
of the process.
"""

import ctypes
import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from kernels.nvcc import BuildError, compile_source

CSRC = Path(__file__).resolve().parents[2] / "csrc"
SOURCES = ("hopper_gemm.cuh", "hopper_launch.cuh", "hopper_quantize.cu")
FLAGS = ("-gencode=arch=compute_90a,code=sm_90a", "-Xcompiler", "-fPIC")
SERIALIZED = "wgmma.mma_async instructions are serialized"
"""What ptxas says when it gives up the overlap that the kernels live by."""


class Activation(IntEnum):
    """Type of the activations, and with it of the decoded weights. The value is `hopper::Act`."""

    BF16 = 0
    FP16 = 1
    E4M3 = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One compiled variant of the GEMM.

    groups: warpgroups that decode and multiply. m64: 64-row weight tiles of each. tokens: width of B.
    chunks: 64-column chunks in a stage. stages: depth of the pipeline. resident: CTAs that fit on a
    multiprocessor. batch: `wgmma` steps that are issued together: 1, 2 or 4.
    """

    act: Activation
    groups: int
    m64: int
    tokens: int
    chunks: int
    stages: int
    resident: int = 1
    batch: int = 1

    @property
    def rows(self) -> int:
        """Weight rows of a tile."""
        return self.groups * self.m64 * 64

    @property
    def symbol(self) -> str:
        """Name of its C function."""
        shape = (
            f"{self.groups}x{self.m64}x{self.tokens}_{self.chunks}_{self.stages}_{self.resident}_{self.batch}"
        )
        return f"hopper_gemm_{self.act.name.lower()}_{shape}"

    @property
    def partial_bytes(self) -> int:
        """Workspace of one CTA, for the part of a tile that another CTA finishes."""
        return self.rows * self.tokens * 4

    def source(self) -> str:
        """Its translation unit."""
        numbers = (
            self.act,
            self.groups,
            self.m64,
            self.tokens,
            self.chunks,
            self.stages,
            self.resident,
            self.batch,
        )
        arguments = ", ".join(str(int(number)) for number in numbers)
        return (
            '#include "hopper_launch.cuh"\n'
            f'extern "C" int {self.symbol}(const hopper::Launch* l, cudaStream_t s) {{\n'
            f"  return hopper::launch<hopper::Config<{arguments}>>(*l, s);\n}}\n"
        )


class Launch(ctypes.Structure):
    """Arguments of one launch, field by field as `hopper::Launch`."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in ("x", "weights", "row_scale", "bias", "x_scale", "out", "partials")
        ),
        ("partial_bytes", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in ("m", "n", "k", "ldx", "ldo", "panels", "chunks", "ctas")),
        *((name, ctypes.c_int) for name in ("out_fp16", "pdl")),
    )


def wgmma_header(widths: tuple[int, ...]) -> str:
    """`Wgmma<ACT, N>::run(acc, a, descriptor)` for each width: m64nN, A in registers, B K-major in shared
    memory.
    """
    lines = [
        "#pragma once\n#include <stdint.h>\nnamespace hopper {",
        "static __device__ __forceinline__ void wgmma_fence() {",
        '  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n}',
        "static __device__ __forceinline__ void wgmma_commit() {",
        '  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");\n}',
        "template <int N> static __device__ __forceinline__ void wgmma_wait() {",
        '  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");\n}',
        "template <int ACT, int N> struct Wgmma;",
    ]
    kinds = ((0, "k16.f32.bf16.bf16", ", 0"), (1, "k16.f32.f16.f16", ", 0"), (2, "k32.f32.e4m3.e4m3", ""))
    lines += [_wgmma(n, act, kind, tail) for n in widths for act, kind, tail in kinds]
    lines.append("}  // namespace hopper\n")
    return "\n".join(lines)


def _wgmma(n: int, act: int, kind: str, tail: str) -> str:
    count = n // 2
    registers = ", ".join(f"%{i}" for i in range(count))
    a = ", ".join(f"%{count + i}" for i in range(4))
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    return (
        f"template <> struct Wgmma<{act}, {n}> {{\n"
        f"  static __device__ __forceinline__ void run(float (&d)[{count}], const uint32_t (&a)[4],\n"
        f"                                             uint64_t b) {{\n"
        f'    asm volatile("wgmma.mma_async.sync.aligned.m64n{n}{kind} {{{registers}}}, {{{a}}}, '
        f'%{count + 4}, 1, 1, 1{tail};"\n'
        f'                 : {outputs} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));\n  }}\n}};'
    )


def library(configs: tuple[Config, ...], *, cache: Path | None = None, jobs: int = 16) -> Path:
    """The shared library with every function of `configs` and the quantizer, built unless the cache has it.

    Two processes may build at once: each works in its own folder and the last rename wins, with equal
    contents. Raises BuildError, also when the compiler serializes the matrix instructions.
    """
    generated = wgmma_header(tuple(sorted({c.tokens for c in configs})))
    units = {c.symbol: c.source() for c in configs}
    key = hashlib.sha256()
    for text in (*FLAGS, generated, *units.values(), *((CSRC / s).read_text() for s in SOURCES)):
        key.update(text.encode() + b"\0")
    folder = cache or Path.home() / ".cache" / "assay" / "kernels"
    built = folder / f"hopper-{key.hexdigest()[:20]}.so"
    if built.exists():
        return built
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        here = Path(scratch)
        (here / "wgmma_generated.cuh").write_text(generated)
        for name, text in units.items():
            (here / f"{name}.cu").write_text(text)
        inputs = [*(here / f"{name}.cu" for name in units), CSRC / "hopper_quantize.cu"]
        objects = [here / f"{source.stem}.o" for source in inputs]
        flags = (*FLAGS, "-I", str(CSRC), "-I", str(here), "-c")

        def one(pair: tuple[Path, Path]) -> str:
            return compile_source(pair[0], pair[1], flags)

        with ThreadPoolExecutor(jobs) as pool:
            said = "".join(pool.map(one, zip(inputs, objects, strict=True)))
        if SERIALIZED in said:
            raise BuildError(said)
        compile_source(objects[0], here / built.name, ("-shared", *map(str, objects[1:])))
        (here / built.name).rename(built)
    return built

"""Check, then time, the implementations that this machine can run.

    python -m kernels.bench --suite qwen3-32b [--m 1,16] [--only NAME,...] [--json FILE] [--quick]

Progress goes to standard error, the table to standard output, everything measured to the JSON file. Without
a card, or with --quick, the sizes of the suite are cut down, so that the references get through them in
seconds. A failed check gives a failed row and no time; the exit status is then 1.
"""

import argparse
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from kernels import checks, timing
from kernels.checks import Check, Data
from kernels.nvfp4 import QuantizedTensor
from kernels.registry import Choice, Implementation, Kind, Machine, Precision, choose, this_machine
from kernels.shapes import Shape, Suite, shapes, shrunk

FORMAT = 1

WEIGHT_BYTES = {
    Precision.W4A16: 0.5625, Precision.W4A8: 0.5625, Precision.W4A4: 0.5625,
    Precision.BF16: 2.0, Precision.FP16: 2.0, Precision.FP8: 1.0,
}  # fmt: skip
"""Bytes of one weight in memory: an NVFP4 weight is half a byte and a sixteenth of its scale's byte."""

INPUT_BYTES = {Precision.W4A4: 0.5625, Precision.W4A8: 1.0, Precision.FP8: 1.0}
"""Bytes of one activation as the product reads it; 2 for the others."""

RATE_OF = {
    Precision.W4A16: Precision.BF16, Precision.BF16: Precision.BF16, Precision.FP16: Precision.BF16,
    Precision.W4A8: Precision.FP8, Precision.FP8: Precision.FP8,
}  # fmt: skip
"""Which measured matrix rate bounds a precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How much is measured."""

    samples: int
    eager_samples: int
    seed: int


FULL = Settings(samples=50, eager_samples=20, seed=20260801)
QUICK = Settings(samples=7, eager_samples=5, seed=20260801)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What this card reached in this run. Bytes a second count reading and writing; None where not
    measured.
    """

    copy_bytes_per_s: float | None = None
    bf16_flop_per_s: float | None = None
    fp8_flop_per_s: float | None = None
    l2_bytes: int = 0

    def flop_per_s(self, precision: Precision) -> float | None:
        rate = RATE_OF.get(precision)
        return {Precision.BF16: self.bf16_flop_per_s, Precision.FP8: self.fp8_flop_per_s, None: None}[rate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One implementation at one size. Times are milliseconds a call, None when it was not timed.

    floor_ms: the least time that the bytes or the operations of this precision take at the measured ceilings.
    with_input_ms: the median with the quantization of the activations; median_ms leaves it out.
    """

    layer: str
    M: int
    N: int
    K: int
    implementation: str
    precision: str
    ours: bool
    ok: bool
    rel_error: float | None = None
    reason: str | None = None
    median_ms: float | None = None
    p10_ms: float | None = None
    p90_ms: float | None = None
    floor_ms: float | None = None
    with_input_ms: float | None = None
    eager_median_ms: float | None = None
    samples_ms: tuple[float, ...] = ()
    eager_samples_ms: tuple[float, ...] = ()
    with_input_samples_ms: tuple[float, ...] = ()


def gemm_floor_ms(precision: Precision, shape: Shape, ceilings: Ceilings) -> float | None:
    """Bytes over the copy bandwidth or operations over the matrix rate, whichever is more."""
    if ceilings.copy_bytes_per_s is None:
        return None
    moved = (
        WEIGHT_BYTES[precision] * shape.n * shape.k
        + INPUT_BYTES.get(precision, 2.0) * shape.m * shape.k
        + 2 * shape.m * shape.n
    )
    seconds = moved / ceilings.copy_bytes_per_s
    rate = ceilings.flop_per_s(precision)
    if rate is not None:
        seconds = max(seconds, 2 * shape.m * shape.n * shape.k / rate)
    return seconds * 1e3


def quantize_floor_ms(shape: Shape, ceilings: Ceilings, finds_scale: bool) -> float | None:
    """Bytes over the copy bandwidth: 2 read and 0.5625 written an element, 2 more where amax must
    be found.
    """
    if ceilings.copy_bytes_per_s is None:
        return None
    return (4.5625 if finds_scale else 2.5625) * shape.m * shape.k / ceilings.copy_bytes_per_s * 1e3


def measure_ceilings() -> Ceilings:
    """A large copy, the fastest of three ways, and large BF16 and FP8 products of random matrices.
    Needs a card.
    """
    size = 8192
    source = torch.empty(1 << 28, dtype=torch.int32, device="cuda").random_()
    target = torch.empty_like(source)
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)

    def copy() -> None:
        target.copy_(source)

    def add() -> None:  # a kernel, where a copy inside a graph may go to a slower copy engine
        torch.add(source, 1, out=target)

    def bf16() -> None:
        torch.mm(a, b.T, out=out)

    def fp8() -> None:
        torch._scaled_mm(a8, b8.T, scale_a=one, scale_b=one, out_dtype=out.dtype, out=out)

    calls: dict[str, timing.Call] = {"copy": copy, "add": add, "bf16": bf16}
    if torch.cuda.get_device_capability() >= (8, 9):
        a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        one = torch.ones((), device="cuda")
        calls["fp8"] = fp8
    times = timing.time_on_card({n: timing.Candidate(calls=[c]) for n, c in calls.items()}, 15, 15)
    seconds = {name: timed.best.median / 1e3 for name, timed in times.items()}
    copied = min(seconds["copy"], times["copy"].eager.median / 1e3, seconds["add"])
    return Ceilings(
        copy_bytes_per_s=2 * source.nbytes / copied,
        bf16_flop_per_s=2 * size**3 / seconds["bf16"],
        fp8_flop_per_s=2 * size**3 / seconds["fp8"] if "fp8" in seconds else None,
        l2_bytes=torch.cuda.get_device_properties(0).L2_cache_size,
    )


class Bench:
    """One run: the machine, what it may use, how much to measure, and where progress is told."""

    def __init__(
        self, machine: Machine, settings: Settings, ceilings: Ceilings, tell: Callable[[str], None]
    ) -> None:
        self.machine = machine
        self.settings = settings
        self.ceilings = ceilings
        self.tell = tell

    def gemm(self, todo: Sequence[Shape], usable: Sequence[Implementation]) -> Iterator[Row]:
        """All sizes, grouped by weight so that each is prepared once."""
        by_weight = sorted(todo, key=lambda s: (s.n, s.k, s.layer, s.m))
        for (n, k, layer), group in groupby(by_weight, key=lambda s: (s.n, s.k, s.layer)):
            self.tell(f"{layer} {n}x{k}: preparing")
            generator = torch.Generator(self.machine.device).manual_seed(self.settings.seed)
            weights = {data: checks.random_weight(n, k, data, generator) for data in Data}
            prepared: dict[str, dict[Data, Any]] = {}
            broken: dict[str, str] = {}
            for implementation in usable:
                try:
                    prepared[implementation.name] = {
                        d: _prepare(implementation, w) for d, w in weights.items()
                    }
                except Exception as error:  # what a library raises for a size is not known beforehand
                    broken[implementation.name] = f"prepare: {_first_line(error)}"
            spare = _Spare(weight=weights[Data.NORMAL], l2_bytes=self.ceilings.l2_bytes)
            for shape in group:
                yield from self._gemm_shape(shape, usable, weights, prepared, broken, spare, generator)

    def _gemm_shape(
        self,
        shape: Shape,
        usable: Sequence[Implementation],
        weights: dict[Data, QuantizedTensor],
        prepared: dict[str, dict[Data, Any]],
        broken: dict[str, str],
        spare: "_Spare",
        generator: torch.Generator,
    ) -> Iterator[Row]:
        rows: dict[str, Row] = {}
        plain: dict[str, timing.Candidate] = {}
        with_input: dict[str, timing.Candidate] = {}
        for implementation in usable:
            name = implementation.name
            self.tell(f"{shape.layer} M={shape.m}: checking {name}")
            limit = implementation.why_not_shape(shape.m, shape.n, shape.k) or broken.get(name)
            check = (
                Check(ok=False, rel_error=None, reason=limit)
                if limit
                else self._check(implementation, weights, prepared[name], shape.m, generator)
            )
            floor = gemm_floor_ms(implementation.precision, shape, self.ceilings)
            rows[name] = _row(shape, implementation, check, floor)
            if check.ok:
                states = spare.states(implementation, prepared[name][Data.NORMAL])
                plain[name], extra = _gemm_candidates(implementation, states, shape, generator)
                if extra:
                    with_input[name] = extra
        self.tell(f"{shape.layer} M={shape.m}: timing {len(plain)}")
        times, input_times = self._time(plain), self._time(with_input)
        for name, row in rows.items():
            yield _timed_row(row, times.get(name), input_times.get(name))

    @staticmethod
    def _check(
        implementation: Implementation,
        weights: dict[Data, QuantizedTensor],
        states: dict[Data, Any],
        m: int,
        generator: torch.Generator,
    ) -> Check:
        try:
            done = {
                d: checks.check_gemm(implementation, w, states[d], m, generator) for d, w in weights.items()
            }
        except Exception as error:  # a library's refusal becomes a failed row
            return Check(ok=False, rel_error=None, reason=_first_line(error))
        for data, check in done.items():
            if not check.ok:
                return replace(check, reason=f"{data} weights: {check.reason}")
        return done[Data.NORMAL]

    def quantize(self, todo: Sequence[Shape], usable: Sequence[Implementation]) -> Iterator[Row]:
        """All sizes of x, of which m and k count."""
        device = self.machine.device
        for shape in todo:
            rows: dict[str, Row] = {}
            candidates: dict[str, timing.Candidate] = {}
            generator = torch.Generator(device).manual_seed(self.settings.seed)
            copies = timing.copies_for_cold_cache(2 * shape.m * shape.k, self.ceilings.l2_bytes)
            inputs = [checks.random_input(shape.m, shape.k, torch.bfloat16, generator) for _ in range(copies)]
            for implementation in usable:
                self.tell(f"quantize {shape.m}x{shape.k}: checking {implementation.name}")
                check = checks.check_quantizer(
                    implementation, shape.m, shape.k, seed=self.settings.seed, device=device
                )
                floor = quantize_floor_ms(shape, self.ceilings, implementation.finds_scale)
                rows[implementation.name] = _row(shape, implementation, check, floor)
                if check.ok:
                    outs = [checks.empty_output(x) for x in inputs]
                    calls = [_bind(implementation, None, x, o) for x, o in zip(inputs, outs, strict=True)]
                    candidates[implementation.name] = timing.Candidate(calls=calls)
            times = self._time(candidates)
            for name, row in rows.items():
                yield _timed_row(row, times.get(name), None)

    def _time(self, candidates: dict[str, timing.Candidate]) -> dict[str, timing.Timed]:
        if not candidates:
            return {}
        if self.machine.device == "cpu":
            return timing.time_on_cpu(candidates, self.settings.samples)
        return timing.time_on_card(candidates, self.settings.samples, self.settings.eager_samples)


@dataclass(slots=True)
class _Spare:
    """Copies of prepared weights, so that a rotation of them outruns the L2 cache. Made when first asked
    for.
    """

    weight: QuantizedTensor
    l2_bytes: int

    def states(self, implementation: Implementation, first: Any) -> list[Any]:
        size = int(WEIGHT_BYTES[implementation.precision] * self.weight.rows * self.weight.k)
        copies = timing.copies_for_cold_cache(size, self.l2_bytes) if self.l2_bytes else 1
        return [first, *(_prepare(implementation, self.weight) for _ in range(copies - 1))]


def _prepare(implementation: Implementation, weight: QuantizedTensor) -> Any:
    assert implementation.prepare is not None, f"{implementation.name} is a GEMM without prepare"
    return implementation.prepare(weight)


def _gemm_candidates(
    implementation: Implementation, states: list[Any], shape: Shape, generator: torch.Generator
) -> tuple[timing.Candidate, timing.Candidate | None]:
    """The product alone, and, where activations are quantized, quantization and product."""
    dtype = implementation.dtype
    plain: list[timing.Call] = []
    with_input: list[timing.Call] = []
    for state in states:
        x = checks.random_input(shape.m, shape.k, dtype, generator)
        out = torch.full((shape.m, shape.n), torch.nan, dtype=dtype, device=x.device)
        if implementation.quantize_input is None:
            plain.append(_bind(implementation, state, x, out))
        else:
            plain.append(_bind(implementation, state, implementation.quantize_input(state, x), out))
            with_input.append(_bind_with_input(implementation, state, x, out))
    return timing.Candidate(calls=plain), timing.Candidate(calls=with_input) if with_input else None


def _bind(implementation: Implementation, state: Any, x: Any, out: Any) -> timing.Call:
    return lambda: implementation.run(state, x, out)


def _bind_with_input(implementation: Implementation, state: Any, x: torch.Tensor, out: Any) -> timing.Call:
    assert implementation.quantize_input is not None
    quantize_input = implementation.quantize_input
    return lambda: implementation.run(state, quantize_input(state, x), out)


def _row(shape: Shape, implementation: Implementation, check: Check, floor_ms: float | None) -> Row:
    return Row(
        layer=shape.layer,
        M=shape.m,
        N=shape.n,
        K=shape.k,
        implementation=implementation.name,
        precision=implementation.precision,
        ours=implementation.ours,
        ok=check.ok,
        rel_error=check.rel_error,
        reason=check.reason,
        floor_ms=floor_ms,
    )


def _timed_row(row: Row, timed: timing.Timed | None, with_input: timing.Timed | None) -> Row:
    if timed is None:
        return row
    best = timed.best
    return replace(
        row,
        median_ms=best.median,
        p10_ms=best.quantile(0.1),
        p90_ms=best.quantile(0.9),
        samples_ms=best.ms,
        eager_median_ms=timed.eager.median if timed.eager.ms else None,
        eager_samples_ms=timed.eager.ms if timed.graph else (),
        with_input_ms=with_input.best.median if with_input else None,
        with_input_samples_ms=with_input.best.ms if with_input else (),
    )


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:200]


def summarize(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Ratio to BF16 by M: the sum over layers of the BF16 medians over that of the fastest candidate's
    medians.

    A ratio exists only where every layer of that M was measured on both sides. "peer" is the fastest library
    with NVFP4 weights.
    """
    sides: dict[str, Callable[[Row], bool]] = {
        Precision.W4A16: lambda r: r.ours and r.precision == Precision.W4A16,
        Precision.W4A8: lambda r: r.ours and r.precision == Precision.W4A8,
        Precision.W4A4: lambda r: r.ours and r.precision == Precision.W4A4,
        "peer": lambda r: not r.ours and r.precision in (Precision.W4A16, Precision.W4A8, Precision.W4A4),
    }
    summary: dict[str, dict[str, float]] = {}
    for m in sorted({row.M for row in rows}):
        at_m = [row for row in rows if m == row.M]
        base = _total_ms(at_m, lambda r: r.precision == Precision.BF16)
        for side, belongs in sides.items():
            total = _total_ms(at_m, belongs)
            if base is not None and total is not None:
                summary.setdefault(str(side), {})[str(m)] = base / total
    return summary


def _total_ms(rows: Sequence[Row], belongs: Callable[[Row], bool]) -> float | None:
    total = 0.0
    for layer in {row.layer for row in rows}:
        times = [r.median_ms for r in rows if r.layer == layer and belongs(r) and r.median_ms is not None]
        if not times:
            return None
        total += min(times)
    return total


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal."""
    lines = [
        f"{'layer':<14}{'M':>6}{'N':>7}{'K':>7}  {'implementation':<28}{'error':>9}"
        f"{'median ms':>11}{'p10':>10}{'p90':>10}{'floor':>10}{'eager':>10}"
    ]
    for r in rows:
        head = f"{r.layer:<14}{r.M:>6}{r.N:>7}{r.K:>7}  {r.implementation:<28}"
        if r.median_ms is None:
            lines.append(f"{head} FAILED: {r.reason}")
            continue
        error = "-" if r.rel_error is None else f"{r.rel_error:.1e}"
        figures = (r.median_ms, r.p10_ms, r.p90_ms, r.floor_ms, r.eager_median_ms)
        cells = "".join(f"{'-' if f is None else format(f, '.4f'):>10}" for f in figures)
        lines.append(f"{head}{error:>9} {cells}")
    return "\n".join(lines)


def environment(machine: Machine) -> dict[str, Any]:
    """The machine and the versions of what computes."""
    versions = {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda}
    for name in sorted(machine.packages):
        module = sys.modules.get(name)
        versions[name] = getattr(module, "__version__", "installed, not used")
    found: dict[str, Any] = {
        "device": machine.device,
        "card": machine.card,
        "processor": platform.processor(),
    }
    if machine.device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {
            "capability": machine.capability,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": properties.L2_cache_size,
            "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        }
    return {"machine": found, "versions": versions}


def commit() -> str | None:
    """The commit of the source, with a mark when the tree differs from it, or None outside a checkout."""
    here = str(Path(__file__).parent)
    head = _output("git", "-C", here, "rev-parse", "HEAD")
    if head is None:
        return None
    return f"{head} with changes" if _output("git", "-C", here, "status", "--porcelain", ".") else head


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m kernels.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Suite, choices=list(Suite), required=True)
    parser.add_argument("--only", type=_names, default=(), help="names of implementations, comma separated")
    parser.add_argument("--m", type=_names, default=(), help="only these M, comma separated")
    parser.add_argument("--json", type=Path, help="where to write everything that was measured")
    parser.add_argument("--quick", action="store_true", help="small sizes and few samples")
    return parser.parse_args(argv)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _refused(choices: Sequence[Choice]) -> dict[str, str]:
    return {c.implementation.name: c.reason for c in choices if c.reason is not None}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one suite. Returns 0, or 1 when a check failed or nothing could be run."""
    arguments = _arguments(argv)
    machine = this_machine()
    small = arguments.quick or machine.device == "cpu"
    kind = Kind.QUANTIZE if arguments.suite is Suite.QUANTIZE else Kind.GEMM
    choices = choose(kind, machine, arguments.only)
    usable = [c.implementation for c in choices if c.reason is None]
    for name, reason in _refused(choices).items():
        _tell(f"not here: {name}: {reason}")

    todo = shapes(arguments.suite, tuple(int(m) for m in arguments.m))
    todo = shrunk(todo) if small else todo
    ceilings = measure_ceilings() if machine.device == "cuda" else Ceilings()
    bench = Bench(machine, QUICK if small else FULL, ceilings, _tell)
    started_at = datetime.now(UTC)  # noqa: TID251 - kernels is used apart from the service and its clock
    rows, card = _run(bench, kind, todo, usable)
    print(table(rows))

    if arguments.json:
        document = {
            "format": FORMAT,
            "command": shlex.join(["python", "-m", "kernels.bench", *(argv or sys.argv[1:])]),
            "commit": commit(),
            "started_at": started_at.isoformat(),
            **environment(machine),
            "suite": arguments.suite,
            "reduced_sizes": small,
            "settings": asdict(bench.settings),
            "ceilings": asdict(ceilings),
            "card_state": asdict(card) if card else None,
            "not_run": _refused(choices),
            "rows": [asdict(row) for row in rows],
            "summary": summarize(rows),
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if rows and all(row.ok for row in rows) else 1


def _run(
    bench: Bench, kind: Kind, todo: Sequence[Shape], usable: Sequence[Implementation]
) -> tuple[list[Row], timing.CardState | None]:
    work = bench.gemm if kind is Kind.GEMM else bench.quantize
    if bench.machine.device == "cpu":
        return list(work(todo, usable)), None
    with timing.watch_card() as readings:
        rows = list(work(todo, usable))
    return rows, timing.summarize_readings(readings)


if __name__ == "__main__":
    sys.exit(main())

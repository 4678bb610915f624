"""How far do the operands alone move the rate of a matrix product? Needs a card.

    python -m kernels.audit_rates --json FILE [--size 8192] [--seconds 0.3] [--rounds 4]

The same kernels at the same size on three kinds of operands: zeros, those of the audited harness (see
`kernels.audit`), and weights and activations quantized from a normal distribution. The arms take turns; each
turn lasts long enough for clocks and power to settle on it, and these are read while it runs.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from kernels import bench, timing
from kernels.audit import harness_operand
from kernels.nvfp4 import QuantizedTensor, dequantize, quantize
from kernels.registry import Implementation, Kind, choose, this_machine

SETTLE = 0.3
"""The first part of a turn whose card readings are left out."""


class Operands(StrEnum):
    """How both operands are drawn."""

    ZEROS = "zeros"
    HARNESS = "harness"
    QUANTIZED_NORMAL = "quantized-normal"


@dataclass(slots=True)
class Arm:
    """One implementation on one kind of operands, and what was measured of it."""

    implementation: str
    operands: Operands
    call: timing.OnCard
    samples_ms: list[float] = field(default_factory=list)
    readings: list[timing.Reading] = field(default_factory=list)


def operand(kind: Operands, rows: int, k: int, generator: torch.Generator) -> QuantizedTensor:
    """One operand `[rows, k]`."""
    if kind is Operands.HARNESS:
        return harness_operand(rows, k, generator)
    normal = quantize(torch.randn(rows, k, device=generator.device, generator=generator))
    if kind is Operands.ZEROS:
        return replace(normal, codes=torch.zeros_like(normal.codes), scales=torch.zeros_like(normal.scales))
    return normal


def _arm(implementation: Implementation, kind: Operands, size: int, seed: int) -> Arm:
    generator = torch.Generator("cuda").manual_seed(seed)
    weight, x = (operand(kind, size, size, generator) for _ in range(2))
    assert implementation.prepare is not None
    state = implementation.prepare(weight)
    dense = dequantize(x, implementation.dtype)
    fed = implementation.quantize_input(state, dense) if implementation.quantize_input else dense
    out = torch.empty(size, size, dtype=implementation.dtype, device="cuda")

    def call() -> None:
        implementation.run(state, fed, out)

    return Arm(
        implementation=implementation.name, operands=kind, call=timing.capture(timing.Candidate(calls=[call]))
    )


def take_turns(arms: Sequence[Arm], seconds: float, rounds: int) -> timing.CardState:
    """Run every arm for `seconds`, `rounds` times over; fills samples and readings."""
    spans: list[tuple[Arm, float, float]] = []
    with timing.watch_card() as readings:
        for turn in range(rounds):
            # Every other round runs backwards, so that no arm always follows the same neighbour.
            for arm in arms if turn % 2 == 0 else reversed(arms):
                begin = time.monotonic()
                while time.monotonic() - begin < seconds:
                    arm.samples_ms.append(timing.event_ms(arm.call.replay) / arm.call.calls)
                spans.append((arm, begin + SETTLE * seconds, time.monotonic()))
    for arm, begin, end in spans:
        arm.readings += [r for r in readings if begin <= r.at_s <= end]
    return timing.summarize_readings(readings)


def report(arms: Sequence[Arm], size: int) -> list[dict[str, Any]]:
    """One row an arm, with its speed relative to the same implementation on quantized normal operands."""
    medians = {(a.implementation, a.operands): timing.Samples(ms=tuple(a.samples_ms)) for a in arms}
    rows = []
    for arm in arms:
        samples = medians[arm.implementation, arm.operands]
        usual = medians[arm.implementation, Operands.QUANTIZED_NORMAL]
        rows.append(
            {
                "implementation": arm.implementation,
                "operands": arm.operands,
                "size": size,
                "median_ms": samples.median,
                "p10_ms": samples.quantile(0.1),
                "p90_ms": samples.quantile(0.9),
                "tflop_per_s": 2 * size**3 / samples.median / 1e9,
                "speed_over_quantized_normal": usual.median / samples.median,
                "card_state": asdict(timing.summarize_readings(arm.readings)),
                "samples_ms": arm.samples_ms,
            }
        )
    return rows


def _print(rows: Sequence[dict[str, Any]]) -> None:
    print(
        f"{'implementation':<24}{'operands':<18}{'median ms':>10}{'TFLOP/s':>9}{'speed':>8}  MHz, W (medians)"
    )
    for row in rows:
        state = row["card_state"]
        clock, power = (state[key][1] if state[key] else None for key in ("sm_clock_mhz", "power_w"))
        print(
            f"{row['implementation']:<24}{row['operands']:<18}{row['median_ms']:>10.4f}{row['tflop_per_s']:>9.1f}"
            f"{row['speed_over_quantized_normal']:>8.3f}  {clock}, {power}"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write the file. Returns 1 without a card."""
    parser = argparse.ArgumentParser(
        prog="python -m kernels.audit_rates", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", default="", help="names of implementations, comma separated")
    arguments = parser.parse_args(argv)
    machine = this_machine()
    if machine.device == "cpu":
        print("needs a card, and none is visible", file=sys.stderr)
        return 1
    names = tuple(name for name in arguments.only.split(",") if name)
    usable = [c.implementation for c in choose(Kind.GEMM, machine, names) if c.reason is None]
    arms = []
    for implementation in usable:
        for kind in Operands:
            print(f"preparing {implementation.name} on {kind}", file=sys.stderr, flush=True)
            arms.append(_arm(implementation, kind, arguments.size, seed=1))
    state = take_turns(arms, arguments.seconds, arguments.rounds)
    rows = report(arms, arguments.size)
    _print(rows)
    document = {
        "format": bench.FORMAT,
        "command": shlex.join(["python", "-m", "kernels.audit_rates", *(argv or sys.argv[1:])]),
        "commit": bench.commit(),
        **bench.environment(machine),
        "card_state": asdict(state),
        "rows": rows,
    }
    arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

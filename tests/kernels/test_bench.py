"""The harness: checks before times, failed rows, statistics, floors, and the whole command on a CPU."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels import bench, checks, timing
from kernels.bench import Bench, Ceilings, Row, Settings, gemm_floor_ms, main, quantize_floor_ms, summarize
from kernels.gemm.reference import w4a16
from kernels.nvfp4 import QuantizedTensor
from kernels.registry import Implementation, Kind, Machine, Precision
from kernels.shapes import Shape, Suite, shapes, shrunk

FEW = Settings(samples=3, eager_samples=2, seed=1)
SHAPE = Shape(layer="o", m=3, n=80, k=72)


def gemm(name: str, run: Callable[[Any, Any, Any], None], **more: Any) -> Implementation:
    fields: dict[str, Any] = {
        "precision": Precision.W4A16, "summary": "for a test", "tolerance": 4e-3,
        "prepare": lambda weight: weight,
    }  # fmt: skip
    return Implementation(name=name, kind=Kind.GEMM, run=run, **(fields | more))


def right(state: QuantizedTensor, x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(w4a16(x, state))


def one_column_short(state: QuantizedTensor, x: torch.Tensor, out: torch.Tensor) -> None:
    out[:, :-1].copy_(w4a16(x, state)[:, :-1])


def one_strip_off(state: QuantizedTensor, x: torch.Tensor, out: torch.Tensor) -> None:
    right(state, x, out)
    out[-1, 64:128] *= 1.1


def slightly_off(state: QuantizedTensor, x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(w4a16(x, state) * 1.02)


def raises(*_: object) -> None:
    raise RuntimeError("no kernel for this size\nsecond line")


def run_bench(*implementations: Implementation, shape: Shape = SHAPE) -> dict[str, Row]:
    harness = Bench(Machine(device="cpu"), FEW, Ceilings(), lambda _: None)
    return {row.implementation: row for row in harness.gemm([shape], implementations)}


def test_a_right_result_is_timed() -> None:
    row = run_bench(gemm("right", right))["right"]
    assert row.ok
    assert row.reason is None
    assert row.rel_error is not None
    assert row.rel_error < 4e-3
    assert row.median_ms is not None
    assert row.p10_ms is not None
    assert row.p90_ms is not None
    assert row.p10_ms <= row.median_ms <= row.p90_ms
    assert len(row.samples_ms) == FEW.samples


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (one_column_short, "not every element is written"),
        (slightly_off, "relative error 2.0"),
        (one_strip_off, "in one strip of 64 columns"),
        (raises, "RuntimeError: no kernel for this size"),
    ],
)
def test_a_wrong_result_is_a_failed_row_without_a_time(
    run: Callable[[Any, Any, Any], None], words: str
) -> None:
    rows = run_bench(
        gemm("wrong", run, tolerance=6e-3), gemm("right", right), shape=Shape(layer="o", m=64, n=640, k=72)
    )
    wrong = rows["wrong"]
    assert not wrong.ok
    assert wrong.reason is not None
    assert words in wrong.reason
    assert wrong.median_ms is None
    assert not wrong.samples_ms
    assert rows["right"].median_ms is not None


def test_a_wrong_result_is_never_called_again() -> None:
    calls: list[int] = []

    def wrong(*_: object) -> None:
        calls.append(1)

    run_bench(gemm("wrong", wrong))
    assert len(calls) == len(checks.Data)


def test_a_size_that_is_refused_and_a_failing_preparation() -> None:
    def refuse(_m: int, _n: int, k: int) -> str:
        return f"K = {k} is too odd"

    def fail(_: QuantizedTensor) -> None:
        raise ValueError("cannot repack")

    rows = run_bench(gemm("refused", right, why_not_shape=refuse), gemm("broken", right, prepare=fail))
    assert rows["refused"].reason == "K = 72 is too odd"
    assert rows["broken"].reason == "prepare: ValueError: cannot repack"


def test_extreme_weights_are_checked_too() -> None:
    def loses_small_scales(state: QuantizedTensor, x: torch.Tensor, out: torch.Tensor) -> None:
        right(state, x, out)
        if int(state.scales.max()) == 0x7E and int(state.scales.min()) < 8:
            out *= 2

    row = run_bench(gemm("partial", loses_small_scales))["partial"]
    assert row.reason is not None
    assert row.reason.startswith("extreme weights")


def test_quantized_inputs_are_timed_with_and_without() -> None:
    row = run_bench(gemm("a4", right, quantize_input=lambda state, x: x * 1))["a4"]
    assert row.with_input_ms is not None
    assert len(row.with_input_samples_ms) == FEW.samples


def test_a_wrong_quantizer_is_named_by_the_part() -> None:
    def keeps_poison(*_: object) -> None:
        return

    broken = Implementation(
        name="broken",
        kind=Kind.QUANTIZE,
        precision=Precision.NVFP4,
        summary="",
        tolerance=0.0,
        run=keeps_poison,
    )
    harness = Bench(Machine(device="cpu"), FEW, Ceilings(), lambda _: None)
    (row,) = harness.quantize([Shape(layer="x", m=20, n=1, k=72)], [broken])
    assert not row.ok
    assert row.median_ms is None
    assert row.reason is not None
    assert "of the codes differ" in row.reason


def test_statistics() -> None:
    samples = timing.Samples(ms=(5.0, 1.0, 2.0, 4.0, 3.0))
    assert samples.median == 3.0
    assert samples.quantile(0.1) == pytest.approx(1.4)
    assert samples.quantile(0.9) == pytest.approx(4.6)
    assert timing.Samples(ms=(7.0,)).quantile(0.9) == 7.0


def test_enough_copies_for_a_cold_cache() -> None:
    assert timing.copies_for_cold_cache(10, 0) == 2
    assert timing.copies_for_cold_cache(50, 100) == 7
    assert timing.copies_for_cold_cache(1, 10**9) == 64


def test_card_readings() -> None:
    lines = (
        "1980, 3201, 350.5, 40, 0x0000000000000000",
        "1700, 3201, 690.0, 60, 0x4",
        "[N/A], 3201, 600, 50, x",
        "",
    )
    state = timing.summarize_readings([timing.Reading(at_s=0.0, line=line) for line in lines])
    assert state.sm_clock_mhz == (1700, 1840, 1980)
    assert state.power_w == (350.5, 600, 690)
    assert state.throttle_reasons == ("power cap",)
    assert timing.throttle_reasons(0x1 | 0x40) == ("idle", "hardware thermal")


CEILINGS = Ceilings(copy_bytes_per_s=4.25e12, bf16_flop_per_s=790e12, fp8_flop_per_s=1400e12, l2_bytes=1)


def test_floors() -> None:
    """NVFP4 at M = 1: 9/16 byte a weight over the copy bandwidth; BF16 at M = 4096: the matrix rate."""
    small = Shape(layer="down", m=1, n=5120, k=25600)
    assert gemm_floor_ms(Precision.W4A16, small, CEILINGS) == pytest.approx(
        5120 * 25600 * 0.5625 / 4.25e9, rel=1e-2
    )
    large = Shape(layer="down", m=4096, n=5120, k=25600)
    assert gemm_floor_ms(Precision.BF16, large, CEILINGS) == pytest.approx(2 * 4096 * 5120 * 25600 / 790e9)
    assert gemm_floor_ms(Precision.BF16, large, Ceilings()) is None
    square = Shape(layer="x", m=8192, n=1, k=8192)
    given, found = (quantize_floor_ms(square, CEILINGS, finds) for finds in (False, True))
    assert given == pytest.approx(8192**2 * 2.5625 / 4.25e9)
    assert found == pytest.approx(8192**2 * 4.5625 / 4.25e9)


def row(layer: str, m: int, precision: Precision, ms: float | None, ours: bool = False) -> Row:
    return Row(
        layer=layer, M=m, N=1, K=1, implementation=f"{precision}-{ours}", precision=precision, ours=ours,
        ok=ms is not None, median_ms=ms,
    )  # fmt: skip


def test_summary_is_a_ratio_of_sums_and_needs_every_layer() -> None:
    rows = [
        row("a", 1, Precision.BF16, 4.0), row("b", 1, Precision.BF16, 2.0),
        row("a", 1, Precision.W4A16, 1.0, ours=True), row("b", 1, Precision.W4A16, 1.0, ours=True),
        row("a", 1, Precision.W4A16, 2.0), row("b", 1, Precision.W4A16, None),
        row("a", 8, Precision.BF16, 4.0), row("a", 8, Precision.W4A8, 2.0, ours=True),
    ]  # fmt: skip
    assert summarize(rows) == {"w4a16": {"1": 3.0}, "w4a8": {"8": 2.0}}


def test_suites() -> None:
    for suite in Suite:
        assert shapes(suite)
        assert all(s.m <= 16 and s.n <= 192 and s.k <= 256 for s in shrunk(shapes(suite)))
    assert {s.m for s in shapes(Suite.QWEN3_32B, (1, 16))} == {1, 16}
    weights = sum(s.n * s.k for s in shapes(Suite.QWEN3_32B, (1,)))
    assert weights == 10240 * 5120 + 5120 * 8192 + 51200 * 5120 + 5120 * 25600


ROW_KEYS = {
    "layer",
    "M",
    "N",
    "K",
    "implementation",
    "ok",
    "rel_error",
    "median_ms",
    "p10_ms",
    "p90_ms",
    "floor_ms",
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="the command uses the card here; this is its CPU path")
@pytest.mark.parametrize("suite", ["llama-3.1-8b", "quantize"])
def test_the_command(suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    assert main(["--suite", suite, "--quick", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert {"command", "commit", "machine", "versions", "rows", "summary", "ceilings", "card_state"} <= set(
        document
    )
    assert document["command"].startswith("python -m kernels.bench --suite")
    assert document["reduced_sizes"] is True
    for found in document["rows"]:
        assert set(found) >= ROW_KEYS
        assert found["ok"]
        assert found["samples_ms"]
    captured = capsys.readouterr()
    assert "median ms" in captured.out
    assert "checking reference-" in captured.err


def test_the_table_shows_failures() -> None:
    text = bench.table([row("a", 1, Precision.BF16, 1.5), row("a", 2, Precision.BF16, None)])
    assert "1.5000" in text
    assert "FAILED: None" in text

"""How long does a call take? Every sample, buffers rotated so that the L2 cache is cold, candidates
interleaved.

On a card: replays of a CUDA graph (kernel time) and plain calls (with their launch cost), both with events.
On a CPU: the wall clock.
"""

import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

Call = Callable[[], None]

MIN_WINDOW_MS = 1.0
"""The least time that one sample should span: short calls are repeated within it."""

MAX_CALLS = 200
"""The most calls in one sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Milliseconds a call, one figure a sample, in the order taken."""

    ms: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.ms)

    def quantile(self, q: float) -> float:
        """Linear interpolation between order statistics; q in [0, 1]."""
        ordered = sorted(self.ms)
        place = q * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Samples of graph replays (on a card only) and of plain calls."""

    eager: Samples
    graph: Samples | None = None

    @property
    def best(self) -> Samples:
        """What a table shows: the graph's figures where there are any."""
        return self.graph or self.eager


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The calls of one implementation, one for each copy of its buffers. One sample goes through all in
    turn.
    """

    calls: Sequence[Call]


def copies_for_cold_cache(bytes_touched: int, cache_bytes: int, limit: int = 64) -> int:
    """How many copies of the buffers a rotation needs so that three caches' worth lies between two uses of
    one.
    """
    return max(2, min(limit, -(-3 * cache_bytes // max(bytes_touched, 1)) + 1))


def time_on_cpu(candidates: Mapping[str, Candidate], samples: int) -> dict[str, Timed]:
    """Interleaved wall-clock samples, one call each, after one unmeasured call."""
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for candidate in candidates.values():
        candidate.calls[0]()
    for index in range(samples):
        for name, candidate in candidates.items():
            begin = time.perf_counter()
            candidate.calls[index % len(candidate.calls)]()
            taken[name].append((time.perf_counter() - begin) * 1e3)
    return {name: Timed(eager=Samples(ms=tuple(ms))) for name, ms in taken.items()}


@dataclass(slots=True)
class OnCard:
    """One candidate made ready: its graph, how many calls that holds, and what was measured."""

    loop: Call
    replay: Call
    calls: int
    graph_ms: list[float] = field(default_factory=list)
    eager_ms: list[float] = field(default_factory=list)


def time_on_card(candidates: Mapping[str, Candidate], samples: int, eager_samples: int) -> dict[str, Timed]:
    """Interleaved samples on the current CUDA device. Each call must be safe to capture in a graph."""
    ready = {name: capture(candidate) for name, candidate in candidates.items()}
    for _ in range(samples):
        for one in ready.values():
            one.graph_ms.append(event_ms(one.replay) / one.calls)
    for _ in range(eager_samples):
        for one in ready.values():
            one.eager_ms.append(event_ms(one.loop) / one.calls)
    return {
        name: Timed(graph=Samples(ms=tuple(one.graph_ms)), eager=Samples(ms=tuple(one.eager_ms)))
        for name, one in ready.items()
    }


def capture(candidate: Candidate) -> OnCard:
    """Run the calls twice, then capture as many turns of them as fill one sample."""

    def once() -> None:
        for call in candidate.calls:
            call()

    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        once()
        once()
    torch.cuda.current_stream().wait_stream(stream)
    turns = _turns(event_ms(once), len(candidate.calls))

    def loop() -> None:
        for _ in range(turns):
            once()

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loop()
    graph.replay()
    torch.cuda.synchronize()
    return OnCard(loop=loop, replay=graph.replay, calls=turns * len(candidate.calls))


def _turns(round_ms: float, calls: int) -> int:
    return max(1, min(int(MIN_WINDOW_MS / max(round_ms, 1e-3)), MAX_CALLS // calls))


def event_ms(work: Call) -> float:
    """Milliseconds of `work` on the current stream, between two events; waits for the second."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


@dataclass(frozen=True, slots=True, kw_only=True)
class CardState:
    """What the card reported while something ran: lowest, median and highest of each, and the throttle
    reasons.
    """

    sm_clock_mhz: tuple[float, float, float] | None
    memory_clock_mhz: tuple[float, float, float] | None
    power_w: tuple[float, float, float] | None
    temperature_c: tuple[float, float, float] | None
    throttle_reasons: tuple[str, ...]
    readings: int


_FIELDS = "clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active"
_INTERVAL_MS = 100

# Bits of nvmlDeviceGetCurrentClocksEventReasons, from the NVML reference.
_REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "hardware power brake",
    0x100: "display clocks",
}


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """The names of the bits of a clocks-event mask."""
    return tuple(name for bit, name in _REASONS.items() if mask & bit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One line of `nvidia-smi --format=csv,noheader,nounits` with the fields above, and when it came.

    at_s: of `time.monotonic`.
    """

    at_s: float
    line: str


def summarize_readings(readings: Sequence[Reading]) -> CardState:
    """Put readings together into a CardState; a line that does not parse is left out."""
    columns: list[list[float]] = [[], [], [], []]
    mask = 0
    for reading in readings:
        parts = [part.strip() for part in reading.line.split(",")]
        if len(parts) != len(columns) + 1:
            continue
        for column, part in zip(columns, parts, strict=False):
            with _ignore_not_available():
                column.append(float(part))
        with _ignore_not_available():
            mask |= int(parts[-1], 16)
    spreads = [(min(c), statistics.median(c), max(c)) if c else None for c in columns]
    return CardState(
        sm_clock_mhz=spreads[0],
        memory_clock_mhz=spreads[1],
        power_w=spreads[2],
        temperature_c=spreads[3],
        throttle_reasons=throttle_reasons(mask),
        readings=len(readings),
    )


@contextmanager
def _ignore_not_available() -> Iterator[None]:
    """A field that the card does not offer reads "[N/A]": it is left out."""
    try:
        yield
    except ValueError:
        return


@contextmanager
def watch_card() -> Iterator[list[Reading]]:
    """Collect readings into the yielded list while the body runs; none where there is no nvidia-smi."""
    readings: list[Reading] = []
    command = [
        "nvidia-smi",
        f"--query-gpu={_FIELDS}",
        "--format=csv,noheader,nounits",
        f"--loop-ms={_INTERVAL_MS}",
    ]
    card = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
    try:
        process = subprocess.Popen([*command, f"--id=GPU-{card}"], stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        yield readings
        return

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            readings.append(Reading(at_s=time.monotonic(), line=line))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield readings
    finally:
        process.terminate()
        process.wait()
        reader.join()

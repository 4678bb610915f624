"""Words, shapes and numbers as pages show them. Word and shape carry a mark's meaning; colour only helps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from app.domain.case import State, Verb
from app.domain.evidence import Criterion, Status
from app.domain.route import Route
from app.domain.verdict import Uncertainty, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A word with a shape. `tone` names a colour class: good, bad, warn, calm, plain or strong."""

    word: str
    icon: str
    tone: str
    meaning: str


def _mark(word: str, icon: str, tone: str, meaning: str) -> Mark:
    return Mark(word=word, icon=icon, tone=tone, meaning=meaning)


STATES: Final = {
    State.ACTIVE: _mark("active", "disc", "good", "inside its horizon"),
    State.REPRICED: _mark("repriced", "turn", "strong", "judged anew on evidence since it opened"),
    State.EXPIRED: _mark("expired", "glass", "calm", "its horizon passed without end-to-end validation"),
}
VERDICTS: Final = {
    Verdict.OPEN: _mark("open", "ring", "plain", "no qualifying result decides it yet"),
    Verdict.SUPPORTED: _mark("supported", "check", "good", "qualifying results say that the claim holds"),
    Verdict.REFUTED: _mark("refuted", "cross", "bad", "qualifying results say that the claim does not hold"),
    Verdict.MIXED: _mark("mixed", "split", "warn", "qualifying results contradict each other"),
}
UNCERTAINTIES: Final = {
    Uncertainty.HIGH: _mark(
        "high uncertainty", "wide", "warn", "the 95 % interval spans no effect and twice δ"
    ),
    Uncertainty.MEDIUM: _mark("medium uncertainty", "middle", "plain", "between high and low"),
    Uncertainty.LOW: _mark("low uncertainty", "narrow", "good", "half-width of the interval under half of δ"),
}
STATUSES: Final = {
    Status.MET: _mark("met", "check", "good", "the evidence shows it"),
    Status.UNMET: _mark("unmet", "cross", "bad", "the evidence shows that it does not hold"),
    Status.UNKNOWN: _mark("unknown", "query", "warn", "the evidence does not tell"),
}
ROUTES: Final = {
    Route.INTERRUPT: _mark("interrupt", "bell", "bad", "tells the owner at once"),
    Route.DIGEST: _mark("digest", "lines", "strong", "goes into the next digest"),
    Route.SILENT: _mark("silent", "mute", "calm", "recorded, nobody is told"),
}
HEATS: Final = {
    None: _mark("never measured", "dash", "calm", "no reading was ever taken; this is not the same as low"),
    "low": _mark("low heat", "bar1", "plain", "less than one deviation above its peers"),
    "medium": _mark("medium heat", "bar2", "warn", "one to three deviations above its peers"),
    "high": _mark("high heat", "bar3", "bad", "more than three deviations above its peers"),
}
VERBS: Final = {
    Verb.CREATE: "disc",
    Verb.PROMOTE_ANCHOR: "star",
    Verb.GROUND: "lines",
    Verb.SURFACE_CANDIDATE: "bar1",
    Verb.OBSERVE: "ring",
    Verb.REPRICE: "turn",
    Verb.EXPIRE: "glass",
    Verb.REVIVE: "disc",
    Verb.ALERT_ROUTE: "split",
    Verb.ALERT_INTERRUPT: "bell",
    Verb.ALERT_DIGEST: "lines",
    Verb.ALERT_SILENT: "mute",
    Verb.CORRECT: "query",
    Verb.MERGE: "split",
}
"""The shape of each entry of a decision trace."""

CRITERIA: Final = {
    Criterion.INDEPENDENT: "Independent",
    Criterion.END_TO_END: "End to end",
    Criterion.WORKLOAD_MATCHED: "Workload matched",
    Criterion.FACTOR_ISOLATED: "Factor isolated",
    Criterion.QUALITY_RETAINED: "Quality retained",
    Criterion.QUANTIZATION_COUNTED: "Quantization counted",
    Criterion.MEASURED_SOUNDLY: "Measured soundly",
    Criterion.REPRODUCIBLE: "Reproducible",
}

MET_WHEN: Final = {
    Criterion.INDEPENDENT: "who publishes it neither makes the claim, nor is paid by or repeats who does",
    Criterion.END_TO_END: "it is measured at the settling level or above",
    Criterion.WORKLOAD_MATCHED: "both arms share model, request mix, hardware, engine and version",
    Criterion.FACTOR_ISOLATED: "the arms differ in the claim's factor and in nothing else",
    Criterion.QUALITY_RETAINED: "quality is reported for both arms and its loss is inside the tolerance",
    Criterion.QUANTIZATION_COUNTED: "the cost of quantization is inside the measured time, or given",
    Criterion.MEASURED_SOUNDLY: "its runs are valid, repeated, and their spread is given",
    Criterion.REPRODUCIBLE: "raw output, exact command and software versions are attached",
}
"""What each criterion asks for."""

PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def words(name: str) -> str:
    """A name of the vocabulary as words: `output_throughput` is "output throughput"."""
    return name.replace("_", " ")


def in_words(reason: str) -> str:
    """A reason that begins with the name of a criterion, with that name as words."""
    first, space, rest = reason.partition(" ")
    return f"{words(first)}{space}{rest}" if first in list(Criterion) else reason


def quantity(value: float, unit: str) -> str:
    """A value with its unit, four significant digits; FLOP/s by prefix and short times in ms."""
    if unit == "FLOP/s":
        for size, prefix in PREFIXES:
            if abs(value) >= size:
                return f"{digits(value / size)} {prefix}{unit}"
    if unit == "s" and 0 < abs(value) < 1:
        return f"{digits(value * 1e3)} ms"
    if unit == "ratio":
        return ratio(value)
    return digits(value) if unit == "1" else f"{digits(value)} {unit}"


def digits(value: float) -> str:
    """Four significant digits; thousands are set apart by a thin space, never rounded away."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number that a page can show")
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size >= 15 or size < -6:
        return f"{value:.3e}"
    places = max(3 - size, 0)
    return f"{value:,.{places}f}".replace(",", "\u202f")


def ratio(value: float, places: int = 2) -> str:
    """A ratio of treatment over baseline: 1.34×, with enough digits to be read at both ends."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no ratio that a page can show")
    if 0.01 <= value < 100:
        return f"{value:.{places}f}×"
    return f"{value:.2e}×" if not 1e-4 <= value < 1e6 else f"{value:,.4g}×"


def signed_percent(share: float) -> str:
    """A share as a signed per cent: +10 %."""
    return f"{share:+.0%}".replace("%", " %")


def percent(share: float) -> str:
    """A share as per cent: 10 %."""
    return f"{share * 100:g} %" if share < 0.01 and share else f"{share:.0%}".replace("%", " %")


def size_of(count: int) -> str:
    """A number of bytes, in decimal multiples."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def unbroken(text: str) -> str:
    """A date or quantity that no line may break."""
    return text.replace(" ", "\u00a0")


def web_link(text: str | None) -> str | None:
    """`text` where it may become a link: http or https with a host, nothing that a browser would run."""
    if not text or any(char.isspace() or ord(char) < 32 for char in text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.scheme.lower() in ("http", "https") and parts.netloc else None

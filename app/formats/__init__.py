"""Result files of other tools: bytes in, `Parsed` out, or a refusal that names the field.

Each format has a file of its own and maps by definition, never by a field's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.domain.errors import Refused
from app.formats import inference_perf
from app.formats.parsed import Likeness, Parsed, Source

__all__ = ["FORMATS", "Detected", "Parsed", "detect", "parse"]

FORMATS: Final = {format.name: format for format in (inference_perf.FORMAT,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """The format of a file, and what it was recognised by."""

    format: str
    why: str


def parse(data: bytes, *, name: str, format: str = "auto") -> Parsed:
    """Read a result file.

    Args:
        data: its bytes.
        name: its name, for messages and where a tool tells something by it.
        format: a name of `FORMATS`, or `auto`.

    Raises:
        Refused: the format is unknown, or the file is not of it, or it must not be compared.
    """
    source = Source(data, name)
    known = FORMATS.get(_detect(source).format if format == "auto" else format)
    if known is None:
        raise Refused(
            f"{format!r} is not a format that is read.",
            field="format",
            value=format,
            remedy=f"Use auto or one of {', '.join(sorted(FORMATS))}.",
            code="unknown-format",
        )
    return known.read(source)


def detect(data: bytes, name: str) -> Detected:
    """Name the format of a file, and why.

    Raises:
        Refused: nothing fits; says which format came closest and what it lacks.
    """
    return _detect(Source(data, name))


def _detect(source: Source) -> Detected:
    closest: tuple[float, str, Likeness] | None = None
    for format in FORMATS.values():
        likeness = format.liken(source)
        if likeness.complete:
            return Detected(format=format.name, why=likeness.why)
        share = likeness.found / likeness.wanted
        if closest is None or share > closest[0]:
            closest = (share, format.name, likeness)
    raise _nothing_fits(closest)


def _nothing_fits(closest: tuple[float, str, Likeness] | None) -> Refused:
    remedy = (
        f"Send a file of one of these formats: {', '.join(sorted(FORMATS))}; or state the metrics themselves."
    )
    if closest is None or closest[2].found == 0:
        missing = closest[2].missing if closest else None
        detail = "This is no result file of a known format: it has none of the fields that tell one."
        return Refused(detail, field=missing or "format", remedy=remedy, code="unknown-format")
    _, name, likeness = closest
    detail = (
        f"This is no result file of a known format. {name} comes closest "
        f"({likeness.found} of {likeness.wanted} marks); {likeness.missing} is missing or not an object."
    )
    return Refused(detail, field=likeness.missing or "format", remedy=remedy, code="unknown-format")

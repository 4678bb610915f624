"""Values of configuration maps, compared by what they mean rather than by how they are spelled."""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache
from typing import Final

from app.domain.claim import Scalar

PLACEHOLDERS: Final = frozenset(
    (
        "",
        "-",
        "?",
        "n/a",
        "na",
        "nan",
        "null",
        "tbd",
        "todo",
        "unknown",
        "unspecified",
        "not stated",
        "not recorded",
    )
)
"""Texts that fill a field without stating anything: as good as leaving it out."""

TRUE: Final = frozenset(("true", "yes", "on", "enabled"))
FALSE: Final = frozenset(("false", "no", "off", "disabled"))
NUMBER: Final = re.compile(r"[+-]?\d{1,15}(\.\d{1,15})?(e[+-]?\d{1,2})?")

FORMATS: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}
"""Number formats with two usual names."""


def folded(text: str) -> str:
    """A text without what the eye overlooks: case, width, spacing, hyphens for underscores, invisible
    characters."""
    return _short(text) if len(text) <= 200 else _fold(text)


def _fold(text: str) -> str:
    visible = "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")
    # A hyphen inside a word is spelling; before a number or an option it means something.
    words = re.sub(r"(?<=\w)[_\-‐‑‒–—]+(?=\w)", " ", visible.casefold())
    return " ".join(words.replace("_", " ").split())


_short = lru_cache(maxsize=4096)(_fold)
"""The same few words are compared again and again; long ones are not kept."""


def stated(value: Scalar) -> Scalar:
    """The value, or `None` where it states nothing."""
    if isinstance(value, str) and folded(value).strip() in PLACEHOLDERS:
        return None
    return value


def same(left: Scalar, right: Scalar, tolerance: float = 0.0) -> bool:
    """Equal by meaning: 1, 1.0 and "1" agree, so do true, "True" and 1; texts agree whatever their case and
    spacing.

    "0.10" and "0.1" stay apart, because versions are texts.
    """
    one, other = _plain(left), _plain(right)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=0.0)
    return one == other


def same_format(left: Scalar, right: Scalar) -> bool:
    """Equal as number formats: "NVFP4" and "nv_fp4" agree, so do "bfloat16" and "bf16"."""
    return format_name(left) == format_name(right)


def format_name(value: Scalar) -> str:
    """A number format's name without separators, in its short form."""
    compact = folded(str(value)).replace(" ", "")
    return FORMATS.get(compact, compact)


def spelled(value: Scalar) -> str:
    """One spelling for all values that `same` holds equal."""
    return str(_plain(value))


def number(value: Scalar) -> float | None:
    """The value as a number, if it is one however it is written."""
    plain = _plain(value)
    return plain if isinstance(plain, float) else None


def _plain(value: Scalar) -> float | str | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        return float(value)
    text = value.strip().casefold()
    if text in TRUE or text in FALSE:
        return float(text in TRUE)
    if NUMBER.fullmatch(text):
        read = float(text)
        # A fraction with trailing zeros is a version, not a number.
        if read.is_integer() or repr(read) == text:
            return read
    return folded(value)

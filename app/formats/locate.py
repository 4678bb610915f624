"""Where the first fault of a JSON text stands: the slow second look, taken only when there is one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from app.domain.errors import Refused, shorten

MAX_DEPTH: Final = 64
MAX_INTEGER: Final = 2**53
"""Integers beyond this lose digits in any reader that keeps numbers as doubles."""

TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{},:]|[^\s"\[\]{},:]+', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Line and column, both from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def position_of(text: str, at: int) -> Position:
    """Line and column of a character."""
    start = text.rfind("\n", 0, at) + 1
    return Position(line=text.count("\n", 0, at) + 1, column=at - start + 1)


@dataclass(slots=True)
class _Level:
    """An open object or array, as far as it has been read."""

    is_object: bool
    keys: set[str] = field(default_factory=set)
    key: str | None = None
    index: int = 0


def first_fault(text: str) -> Refused:
    """The refusal of the first fault in `text`, which is known to hold one."""
    open_levels: list[_Level] = []
    for token in TOKEN.finditer(text):
        fault = _step(open_levels, token.group())
        if fault:
            code, detail, remedy = fault
            path = _path(open_levels)
            where = position_of(text, token.start())
            return Refused(
                f"{detail} ({where}).",
                field=shorten(path) or str(where),
                value=token.group(),
                remedy=remedy,
                code=code,
            )
    return Refused(
        "This is not JSON.", field="line 1, column 1", remedy="Send a JSON document.", code="not-json"
    )


Fault = tuple[str, str, str]


def _step(levels: list[_Level], token: str) -> Fault | None:
    top = levels[-1] if levels else None
    if token in "[{":
        levels.append(_Level(is_object=token == "{"))
        if len(levels) > MAX_DEPTH:
            return ("too-deep", f"Nested deeper than {MAX_DEPTH} levels", "Flatten the document.")
    elif token in "]}":
        del levels[-1:]
    elif top is None:
        return _number_fault(token)
    elif token == ",":
        top.index += 1
        top.key = None
    elif token != ":":
        return _member(top, token)
    return None


def _member(top: _Level, token: str) -> Fault | None:
    if not (top.is_object and top.key is None):
        return _number_fault(token)
    top.key = _unquoted(token)
    if top.key in top.keys:
        return (
            "duplicate-key",
            f"The key {shorten(token, 80)} stands twice in one object",
            "Keep one of them.",
        )
    top.keys.add(top.key)
    return None


def _unquoted(token: str) -> str:
    # Two spellings of one key ("a" and "\u0061") are one key.
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def _number_fault(token: str) -> Fault | None:
    if token[0] == '"' or token in ("true", "false", "null"):
        return None
    if token in ("NaN", "Infinity", "-Infinity"):
        remedy = "Write null, or leave it out, where there is no value."
        return ("not-finite", f"{token} is not a number that can be compared", remedy)
    if re.fullmatch(r"-?\d+", token):
        if len(token) > 17 or abs(int(token)) > MAX_INTEGER:
            remedy = "Send it as a string, or as a decimal number."
            return ("number-too-large", "An integer beyond 2^53 loses digits in most readers", remedy)
        return None
    try:
        finite = math.isfinite(float(token))
    except ValueError:
        return None
    if finite:
        return None
    return ("not-finite", f"{token[:40]} is beyond what a double can hold", "Send a finite number.")


def _path(levels: list[_Level]) -> str:
    return "".join(_parts(levels)).lstrip(".")


def _parts(levels: list[_Level]) -> Iterator[str]:
    for level in levels[:MAX_DEPTH]:
        if not level.is_object:
            yield f"[{level.index}]"
        elif level.key is not None:
            yield f".{level.key}"

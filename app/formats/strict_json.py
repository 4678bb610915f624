"""JSON as it may enter: UTF-8, finite numbers, unique keys, bounded depth, text that can be stored.

The usual reader takes NaN, reads 1e999 as infinity, keeps the last of two equal keys and recurses as deep as
the sender likes. This one refuses each by name. It stays fast because it only *detects* on the way through,
with operations that run in C; where something is wrong, `locate` walks the text again to say where.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, Final

import numpy as np

from app.domain.errors import Refused
from app.formats.locate import MAX_DEPTH, MAX_INTEGER, Position, first_fault, position_of

GZIP: Final = b"\x1f\x8b"
ZIP: Final = b"PK\x03\x04"
ZSTD: Final = b"\x28\xb5\x2f\xfd"

ONLY_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
BETWEEN_BRACKETS: Final = 0x5C
"""The code between "[" and "]": minus a bracket's own it is +1 for an opening, -1 for a closing one."""
SLICE: Final = 1 << 20
NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'"{}[]'))

LONE_SURROGATE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


MAX_VALUES: Final = 4_000_000
"""Values in a document: each costs some 60 bytes of memory, however few it has in the text."""


class _Fault(ValueError):
    """Something that JSON's grammar allows and we do not; where it stands is found afterwards."""


def strict_json(data: bytes) -> Any:
    """The document in `data`.

    Raises:
        Refused: with code `not-json`, `not-finite`, `duplicate-key`, `too-deep`, `number-too-large` or
            `bad-text`, and the line and column or the JSON path of the first fault.
    """
    text = _text(data)
    _refuse_unstorable(text)
    if _too_deep(data):
        raise first_fault(text)
    if data.count(b",") > MAX_VALUES:
        raise Refused(
            f"The document has more than {MAX_VALUES:,} values.",
            field="body",
            remedy="Send fewer at once; raw output goes in as a file.",
            code="too-many-values",
        )
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _syntax(text, error) from None
    except _Fault:
        raise first_fault(text) from None


def _text(data: bytes) -> str:
    for magic, kind in ((GZIP, "gzip"), (ZIP, "zip"), (ZSTD, "zstd")):
        if data.startswith(magic):
            raise Refused(
                f"This is {kind}-compressed data, not JSON.",
                field="line 1, column 1",
                value=data[:8],
                remedy="Decompress it and send the JSON itself.",
                code="not-json",
            )
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        raise Refused(
            f"Byte {error.start + 1} is not UTF-8.",
            field=str(position_of(before, len(before))),
            value=data[error.start : error.start + 8],
            remedy="Save the file as UTF-8.",
            code="bad-text",
        ) from None


def _refuse_unstorable(text: str) -> None:
    """NUL cannot be stored in a PostgreSQL text, half a surrogate pair cannot be written as UTF-8."""
    at = text.find("\0")
    if at >= 0:
        raise _bad_text(position_of(text, at), "\\u0000", "A NUL character")
    if "\\u" not in text:
        return
    # An escaped backslash is neutralized in place, so that what follows it is not taken for an escape.
    neutral = text.replace("\\\\", "__") if "\\\\" in text else text
    at = neutral.find("\\u0000")
    if at >= 0:
        raise _bad_text(position_of(text, at), "\\u0000", "A NUL character")
    lone = LONE_SURROGATE.search(neutral)
    if lone:
        raise _bad_text(position_of(text, lone.start()), lone.group(), "Half a surrogate pair")


def _bad_text(where: Position, value: str, what: str) -> Refused:
    return Refused(
        f"{what} cannot be stored as text.",
        field=str(where),
        value=value,
        remedy="Leave the character out.",
        code="bad-text",
    )


def _too_deep(data: bytes) -> bool:
    """Whether brackets nest beyond the limit, without recursion and with no Python loop over the text.

    Everything but quotes and brackets is deleted and strings are cut out; then an opening bracket counts +1,
    a closing one -1, and the largest running sum is the depth. In a text that is no JSON the sum is right up
    to the first fault, and further the reader does not go.
    """
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = data.translate(ONLY_SQUARE, NOT_STRUCTURE)
    # Two neighbouring quotes enclose nothing; removing them keeps every other character inside or outside.
    left = left.replace(b'""', b"")
    if b'"' in left:
        left = b"".join(left.split(b'"')[::2])
    codes = np.frombuffer(left, dtype=np.uint8)
    depth = 0
    for start in range(0, len(codes), SLICE):
        sums = np.cumsum(BETWEEN_BRACKETS - codes[start : start + SLICE].astype(np.int32)) + depth
        if sums.max() > MAX_DEPTH:
            return True
        depth = int(sums[-1])
    return False


def _syntax(text: str, error: json.JSONDecodeError) -> Refused:
    where = f"line {error.lineno}, column {error.colno}"
    found = text[error.pos : error.pos + 24].partition("\n")[0]
    if not text.strip():
        detail, remedy = "There is nothing in it.", "Send the file's contents."
    elif error.msg == "Extra data":
        detail = "Something follows the end of the JSON document."
        remedy = "Send one document a file; several (JSON Lines, concatenated) are not one."
    elif not found:
        detail = f"The text ends where the document does not ({error.msg})."
        remedy = "The file looks cut off: send it whole."
    else:
        detail = f"This is not JSON: {error.msg}."
        remedy = "Correct the text there, or send the file as the tool wrote it."
    return Refused(detail, field=where, value=found, remedy=remedy, code="not-json")


def _finite(text: str) -> float:
    value = float(text)
    if value - value != 0.0:
        raise _Fault(text)
    return value


def _integer(text: str) -> int:
    # The length first: thousands of digits cost time, and Python refuses them with an error of its own.
    if len(text) > 17:
        raise _Fault(text)
    value = int(text)
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise _Fault(text)
    return value


def _constant(text: str) -> float:
    raise _Fault(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Fault
    return members


_DECODER: Final = json.JSONDecoder(
    parse_float=_finite, parse_int=_integer, parse_constant=_constant, object_pairs_hook=_unique
)

"""Pydantic pieces that every JSON document of ours is built from: strict, closed, aware times only."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from app.domain.claim import Scalar
from app.domain.errors import Refused

M = TypeVar("M", bound=BaseModel)


class Wire(BaseModel):
    """Base of all documents: unknown fields are refused, values are not coerced, floats are finite."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")


def _read_time(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not RFC3339.fullmatch(value):
        raise ValueError("give a time as text with a zone, such as 2026-11-30T12:00:00Z")
    return datetime.fromisoformat(value)


def _bounded(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("give a time with a zone, such as 2026-11-30T12:00:00Z")
    if not 1990 <= value.year <= 2200:
        raise ValueError("give a time between 1990 and 2200")
    return value


Time = Annotated[datetime, BeforeValidator(_read_time), AfterValidator(_bounded)]
"""An aware time, written as RFC 3339 text with a zone."""


def _one_line(value: str) -> str:
    if any(unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") for char in value):
        raise ValueError("control characters, line breaks and invisible characters are not allowed here")
    return value


def _storable(value: str) -> str:
    if "\x00" in value:
        raise ValueError("the NUL character is not allowed")
    if any(0xD800 <= ord(char) <= 0xDFFF for char in value):
        raise ValueError("unpaired surrogates are not allowed")
    return value


Line = Annotated[
    str,
    StringConstraints(min_length=1, max_length=300, strip_whitespace=True),
    AfterValidator(_one_line),
    AfterValidator(_storable),
]
Text = Annotated[str, StringConstraints(max_length=20_000), AfterValidator(_storable)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", min_length=3, max_length=120)]
Url = Annotated[
    str, StringConstraints(pattern=r"^https?://[^\s<>\"']+$", max_length=2000), AfterValidator(_storable)
]
FieldName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.\-]*$", max_length=120)]


def _scalar(value: Any) -> Any:
    if isinstance(value, list | dict):
        raise ValueError("a configuration is a flat map: its values are texts, numbers, true, false or null")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        raise ValueError("integers beyond 2^53 are not kept exactly by JSON readers; give them as text")
    return value


ConfigValue = Annotated[Scalar, BeforeValidator(_scalar)]
Config = Annotated[dict[FieldName, ConfigValue], Field(max_length=200)]


def read_document(model: type[M], value: Any) -> M:
    """Plain JSON values as a document.

    Raises:
        Refused: a field is missing, unknown or wrong; all of them are named.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise refused_by(error.errors(include_url=False)) from error


def refused_by(errors: Sequence[Mapping[str, Any]], skip: int = 0) -> Refused:
    """A validator's findings as one refusal: the first, with the others at hand.

    `skip` leaves out leading parts of each location, such as "body".
    """
    found = [_refused(error, skip) for error in errors]
    first = found[0]
    return Refused(
        first.detail,
        field=first.field,
        value=first.value,
        remedy=first.remedy,
        code=first.code,
        others=tuple(found[1:]),
    )


REMEDIES: Final = {
    "missing": "Give this field.",
    "extra_forbidden": "Remove this field or correct its name; unknown fields are not kept.",
    "finite_number": "Give a finite number; leave the field out where nothing was measured.",
}


def _refused(error: Mapping[str, Any], skip: int) -> Refused:
    kind, where = str(error["type"]), error["loc"][skip:]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
    message = str(error["msg"]).removeprefix("Value error, ")
    value = None if kind in ("missing", "extra_forbidden") else error.get("input")
    return Refused(
        f"{message[0].upper()}{message[1:]}.",
        field=path or "body",
        value=value if isinstance(value, str | int | float | bool) else None,
        remedy=REMEDIES.get(kind, "Correct this field; the schema says what it takes."),
        code=kind.replace("_", "-"),
    )

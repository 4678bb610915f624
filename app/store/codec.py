"""Domain values to JSON and back, and the digest over what is stored."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import rfc8785
from pydantic import TypeAdapter

T = TypeVar("T")


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def dump(value: Any) -> Any:
    """A domain value as plain JSON values."""
    kind: Any = type(value)
    return _adapter(kind).dump_python(value, mode="json")


def load(kind: type[T], value: Any) -> T:
    """A domain value from plain JSON values."""
    wanted: Any = kind
    loaded: T = _adapter(wanted).validate_python(value)
    return loaded


def digest(value: Any) -> str:
    """SHA-256 over the RFC 8785 canonical form of JSON values."""
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Column values as JSON values: times as RFC 3339 text in UTC with microseconds."""
    return {
        name: value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value
        for name, value in row.items()
    }

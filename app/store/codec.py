"""Domain values to JSON and back, and the digest over what is stored."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
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
    return hashlib.sha256(canonical(value)).hexdigest()


def canonical(value: Any) -> bytes:
    """The RFC 8785 form, by the standard library's fast writer wherever it writes the same.

    The two differ in floats outside [1e-4, 2^53), in the order of keys beyond ASCII, and in what is refused.
    """
    try:
        return _write(_alike(value)).encode()
    except (_Unlike, UnicodeEncodeError):
        return rfc8785.dumps(_exact(value))


def _exact(value: Any) -> Any:
    """The value with ±2^53 as a float: it enters as the last exact integer, and the reference refuses it as
    one."""
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    return float(value) if isinstance(value, int) and abs(value) == 2**53 else value


class _Unlike(Exception):
    """A value that the two might write differently."""


_write = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, check_circular=False
).encode


def _alike(value: Any) -> Any:
    """The value with whole floats as integers, as RFC 8785 writes them."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float | int):
        return _number(value)
    if isinstance(value, list | tuple):
        return [_alike(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) and key.isascii() for key in value):
        return {key: _alike(item) for key, item in value.items()}
    raise _Unlike


def _number(value: float) -> float:
    if value == 0:
        return 0
    if not 1e-4 <= abs(value) < 2**53:
        raise _Unlike
    return value if value % 1 else int(value)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Column values as JSON values: times as RFC 3339 text in UTC with microseconds."""
    return {
        name: value.astimezone(UTC).isoformat(timespec="microseconds")
        if isinstance(value, datetime)
        else value
        for name, value in row.items()
    }

"""The error tree. Everything that Assay raises on purpose descends from `AssayError`.

AssayError
├── Refused        bad input: names the field, the value and the remedy; nothing was stored
├── NotFound       the thing asked for does not exist
├── Conflict       the request contradicts what is already recorded
└── Busy           the database did not answer in time
"""

from __future__ import annotations

from typing import Any


class AssayError(Exception):
    """Base of every error raised on purpose."""


class Refused(AssayError):
    """Input that cannot be taken. Carries what a person needs in order to mend it.

    Args:
        detail: one plain sentence.
        field: where it is, as a JSON path or a file name with a line.
        value: what was found there (shown shortened).
        remedy: what to do instead.
        code: stable short name, used as the problem's type.
        others: further refusals of the same document.
    """

    def __init__(
        self,
        detail: str,
        *,
        field: str,
        value: Any = None,
        remedy: str,
        code: str,
        others: tuple[Refused, ...] = (),
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.value = shorten(value)
        self.remedy = remedy
        self.code = code
        self.others = others

    def within(self, prefix: str) -> Refused:
        """The same refusal, its field seen from an outer document."""
        joint = ", " if self.field.startswith("line ") else "."
        field = f"{prefix}{joint}{self.field}" if self.field else prefix
        others = tuple(other.within(prefix) for other in self.others)
        return Refused(
            self.detail, field=field, value=self.value, remedy=self.remedy, code=self.code, others=others
        )

    def __str__(self) -> str:
        return f"{self.field}: {self.detail} {self.remedy}"


class NotFound(AssayError):
    """Nothing under that name.

    Args:
        what: kind of thing, such as "case".
        key: the name that was asked for.
    """

    def __init__(self, what: str, key: str) -> None:
        super().__init__(f"There is no {what} {key!r}.")
        self.what = what
        self.key = key


class Conflict(AssayError):
    """The request contradicts what is recorded (another body under one key, a slug that is taken)."""

    def __init__(self, detail: str, *, remedy: str, code: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy
        self.code = code


class Busy(AssayError):
    """The database did not answer in time; trying again may help."""


def shorten(value: Any, limit: int = 120) -> str | None:
    """A value as text for an error message, never longer than `limit` characters."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return f"bytes {value[:8].hex(' ')} …"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"

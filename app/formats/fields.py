"""Fields of a JSON document by path: absent and null are `None`, a wrong type or sign is refused by name."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.domain.errors import Refused
from app.formats.locate import MAX_INTEGER

STATISTICS: Final = ("mean", "min", "median", "p90", "p99", "max")
ASCENDING: Final = STATISTICS[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """An object of a document, with the path at which it stands."""

    path: str
    members: Mapping[str, Any]

    def at(self, key: str) -> str:
        """Path of a member."""
        return f"{self.path}.{key}" if self.path else key

    def section(self, key: str) -> Section | None:
        """A member that is an object."""
        value = self.members.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return Section(path=self.at(key), members=value)

    def number(self, key: str, *, signed: bool = False) -> float | None:
        """A member that is a number; below zero only where `signed`."""
        value = self.members.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        if value < 0 and not signed:
            raise Refused(
                f"{self.at(key)} is negative, which it cannot be.",
                field=self.at(key),
                value=value,
                remedy="Check the clock that the tool used, or leave the value out.",
                code="negative",
            )
        return float(value)

    def count(self, key: str) -> int | None:
        """A member that counts something."""
        value = self.number(key)
        if value is None:
            return None
        if value != int(value) or value > MAX_INTEGER:
            raise self._wrong(key, "a whole number")
        return int(value)

    def distribution(self, key: str, *, signed: bool = False) -> dict[str, float]:
        """Those of `STATISTICS` that a member tells; empty where the tool had nothing to summarize."""
        section = self.section(key)
        if section is None:
            return {}
        found = {name: section.number(name, signed=signed) for name in STATISTICS}
        values = {name: value for name, value in found.items() if value is not None}
        ordered = [values[name] for name in ASCENDING if name in values]
        for low, high in itertools.pairwise(ordered):
            if low > high + 1e-9 * abs(high):
                raise Refused(
                    f"The statistics of {section.path} are out of order: {low:g} stands before {high:g}.",
                    field=section.path,
                    value=values,
                    remedy="Send the file as the tool wrote it.",
                    code="not-ordered",
                )
        return values

    def _wrong(self, key: str, wanted: str) -> Refused:
        return Refused(
            f"{self.at(key)} should be {wanted}.",
            field=self.at(key),
            value=self.members[key],
            remedy="Send the file as the tool wrote it.",
            code="wrong-type",
        )

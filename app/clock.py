"""The only reader of the clock."""

from __future__ import annotations

from datetime import UTC, datetime


class Clock:
    """The present, in UTC."""

    def now(self) -> datetime:
        """An aware time."""
        return datetime.now(UTC)

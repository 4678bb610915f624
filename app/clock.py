"""The only reader of the clock."""

from __future__ import annotations

from datetime import UTC, datetime


class Clock:
    """The present, in UTC."""

    def now(self) -> datetime:
        """An aware time."""
        return datetime.now(UTC)


class FixedClock(Clock):
    """A clock that stands where it is set, for `--at`."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        """The time set."""
        return self.moment

"""Times as a page shows them: one zone, named; relative to a present that is handed in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

STEPS: Final = (
    # from, unit in seconds, word
    (45, 60, "min"),
    (90 * 60, 3600, "h"),
    (36 * 3600, 86400, "day"),
    (45 * 86400, 30.44 * 86400, "month"),
    (548 * 86400, 365.25 * 86400, "year"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One time in every form that a page needs.

    Attributes:
        iso: UTC with a Z, for markup.
        exact: day, time and zone.
        minute: day and time, for columns under a heading that names the zone.
        day: the day.
        relative: distance from the present.
    """

    iso: str
    exact: str
    minute: str
    day: str
    relative: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """A zone and a present: everything that is needed to show a time."""

    zone: str
    now: datetime

    def __post_init__(self) -> None:
        if self.now.tzinfo is None:
            raise ValueError("the present needs a zone")

    def show(self, at: datetime) -> Moment:
        """A time in the owner's zone.

        Raises:
            ValueError: it has no zone.
        """
        if at.tzinfo is None:
            raise ValueError(f"{at.isoformat()} has no zone")
        local = at.astimezone(ZoneInfo(self.zone))
        day = f"{local.day} {local:%b %Y}"
        return Moment(
            iso=at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            exact=f"{day}, {local:%H:%M:%S} {offset(local)}",
            minute=f"{day}, {local:%H:%M}",
            day=day,
            relative=relative(at - self.now),
        )

    @property
    def label(self) -> str:
        """The zone with its present offset."""
        here = offset(self.now.astimezone(ZoneInfo(self.zone)))
        return here if self.zone == here else f"{self.zone} ({here})"


def offset(local: datetime) -> str:
    """Offset of a local time: UTC, or UTC+10:00."""
    shift = local.utcoffset() or timedelta(0)
    if not shift:
        return "UTC"
    minutes = abs(int(shift.total_seconds())) // 60
    return f"UTC{'-' if shift < timedelta(0) else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def relative(distance: timedelta) -> str:
    """A distance from the present in words: "3 h ago", "in 2 days", "just now"."""
    seconds = abs(distance.total_seconds())
    found = None
    for start, size, word in STEPS:
        if seconds >= start:
            found = (max(round(seconds / size), 1), word)
    if found is None:
        return "just now"
    count, word = found
    plural = "s" if count > 1 and word not in ("min", "h") else ""
    return f"in {count} {word}{plural}" if distance > timedelta(0) else f"{count} {word}{plural} ago"

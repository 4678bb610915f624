"""Times in one zone, with the zone shown, relative to a present that is handed in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.web.times import Dial, relative

NOW = datetime(2026, 8, 14, 0, 0, tzinfo=UTC)


def test_one_time_in_every_form() -> None:
    shown = Dial(zone="Australia/Sydney", now=NOW).show(datetime(2026, 8, 12, 20, 32, 45, tzinfo=UTC))
    assert shown.iso == "2026-08-12T20:32:45Z"
    assert shown.exact == "13 Aug 2026, 06:32:45 UTC+10:00"
    assert shown.minute == "13 Aug 2026, 06:32"
    assert shown.day == "13 Aug 2026"
    assert shown.relative == "27 h ago"


def test_the_offset_is_that_of_the_time_not_of_the_present() -> None:
    dial = Dial(zone="Europe/Vienna", now=datetime(2026, 7, 1, tzinfo=UTC))
    assert dial.label == "Europe/Vienna (UTC+02:00)"
    assert dial.show(datetime(2026, 1, 1, 12, tzinfo=UTC)).exact.endswith("13:00:00 UTC+01:00")
    assert dial.show(datetime(2026, 10, 25, 0, 30, tzinfo=UTC)).exact.endswith("02:30:00 UTC+02:00")
    assert dial.show(datetime(2026, 10, 25, 1, 30, tzinfo=UTC)).exact.endswith("02:30:00 UTC+01:00")


def test_utc_is_called_utc() -> None:
    assert Dial(zone="UTC", now=NOW).label == "UTC"
    assert Dial(zone="America/St_Johns", now=NOW).label == "America/St_Johns (UTC-02:30)"


@pytest.mark.parametrize(
    ("distance", "words"),
    [
        (timedelta(0), "just now"),
        (timedelta(seconds=-44), "just now"),
        (timedelta(seconds=-50), "1 min ago"),
        (timedelta(minutes=-89), "89 min ago"),
        (timedelta(minutes=-90), "2 h ago"),
        (timedelta(hours=-35), "35 h ago"),
        (timedelta(hours=-36), "2 days ago"),
        (timedelta(days=-44), "44 days ago"),
        (timedelta(days=-45), "1 month ago"),
        (timedelta(days=-800), "2 years ago"),
        (timedelta(minutes=5), "in 5 min"),
        (timedelta(days=3), "in 3 days"),
    ],
)
def test_relative(distance: timedelta, words: str) -> None:
    assert relative(distance) == words


def test_a_naive_time_is_refused() -> None:
    naive = NOW.replace(tzinfo=None)
    with pytest.raises(ValueError, match="needs a zone"):
        Dial(zone="UTC", now=naive)
    with pytest.raises(ValueError, match="has no zone"):
        Dial(zone="UTC", now=NOW).show(naive)

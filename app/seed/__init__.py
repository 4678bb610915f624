"""The seed case, as data."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable


def seed_files() -> tuple[Traversable, ...]:
    """Case files that an empty database starts with, by name."""
    found = (item for item in files(__package__).iterdir() if item.name.endswith(".json"))
    return tuple(sorted(found, key=lambda item: item.name))

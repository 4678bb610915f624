"""The seed case, as data: the page that the project began with, in the form that `assay cases import` reads.

`docs/seed.md` says where each part of that page went, and what was added.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable


def seed_files() -> tuple[Traversable, ...]:
    """Case files that an empty database starts with, by name."""
    found = (item for item in files(__package__).iterdir() if item.name.endswith(".json"))
    return tuple(sorted(found, key=lambda item: item.name))

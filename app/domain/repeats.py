"""What is said of several runs, each thing once."""

from __future__ import annotations

from collections.abc import Sequence


def told_once(said: Sequence[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """Texts in their first order. One that holds for all runs stands bare, another names its runs.

    Args:
        said: for each run its name and what is said of it.
    """
    holders: dict[str, list[str]] = {}
    for name, texts in said:
        for text in dict.fromkeys(texts):
            holders.setdefault(text, []).append(name)
    return tuple(
        text if len(names) == len(said) else f"{', '.join(names)}: {text}" for text, names in holders.items()
    )

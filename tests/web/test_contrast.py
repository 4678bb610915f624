"""Contrast of every pair of colours that the style sheets put together, light and dark (WCAG 2.2 AA)."""

from __future__ import annotations

import re

import pytest

from app.web.render import STATIC

TEXT = ("ink", "quiet", "link", "good", "bad", "warn", "strong", "delta")
SURFACES = ("ground", "panel", "zone", "highlight")
MARKS = ("edge", "grey-mark", "raw-mark", "strong", "delta")


def palettes() -> dict[str, dict[str, str]]:
    """The variables of the light and of the dark palette."""
    sheet = (STATIC / "assay.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root\s*\{([^}]*)\}", sheet)
    light, dark = (dict(re.findall(r"--([\w-]+):\s*(#[0-9a-fA-F]{6})", block)) for block in blocks[:2])
    return {"light": light, "dark": light | dark}


def luminance(colour: str) -> float:
    """Relative luminance."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    """Contrast ratio."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_formula() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("text", TEXT)
def test_text(mode: str, surface: str, text: str) -> None:
    colours = palettes()[mode]
    assert contrast(colours[text], colours[surface]) >= 4.5


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_main_button(mode: str) -> None:
    colours = palettes()[mode]
    assert contrast(colours["on-strong"], colours["strong"]) >= 4.5


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("surface", ["ground", "panel"])
@pytest.mark.parametrize("mark", MARKS)
def test_marks_and_borders_of_controls(mode: str, surface: str, mark: str) -> None:
    colours = palettes()[mode]
    assert contrast(colours[mark], colours[surface]) >= 3.0


def test_both_palettes_define_the_same_variables() -> None:
    found = palettes()
    assert set(found["dark"]) == set(found["light"])


def test_rules_use_variables_only() -> None:
    for sheet in ("assay.css", "case.css"):
        text = (STATIC / sheet).read_text(encoding="utf-8")
        rules = re.sub(r":root\s*\{[^}]*\}", "", text)
        assert not re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[^{}]*\})", rules)

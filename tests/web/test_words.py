"""Numbers with their units, and which texts may become links."""

from __future__ import annotations

import math

import pytest

from app.domain.case import State, Verb
from app.domain.evidence import Criterion, Status
from app.domain.route import Route
from app.domain.verdict import Uncertainty, Verdict
from app.web import words as w


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.666e15, "FLOP/s", "1\u202f666 TFLOP/s"),
        (2.5e9, "FLOP/s", "2.500 GFLOP/s"),
        (0.2104, "s", "210.4 ms"),
        (3.2, "s", "3.200 s"),
        (6431.1, "token/s", "6\u202f431 token/s"),
        (0.71, "1", "0.7100"),
        (1.29, "ratio", "1.29×"),
        (0.0, "s", "0 s"),
        (1e-9, "J", "1.000e-09 J"),
    ],
)
def test_quantity(value: float, unit: str, text: str) -> None:
    assert w.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.00×"),
        (0.01, "0.01×"),
        (99.0, "99.00×"),
        (100.0, "100×"),
        (0.00001, "1.00e-05×"),
        (1e9, "1.00e+09×"),
    ],
)
def test_ratio(value: float, text: str) -> None:
    assert w.ratio(value) == text


def test_no_number_is_never_shown() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="that a page can show"):
            w.ratio(bad)
        with pytest.raises(ValueError, match="that a page can show"):
            w.digits(bad)


def test_shares_and_sizes() -> None:
    assert w.percent(0.1) == "10 %"
    assert w.percent(0.005) == "0.5 %"
    assert w.percent(0.0) == "0 %"
    assert w.signed_percent(0.1) == "+10 %"
    assert w.size_of(999) == "999 B"
    assert w.size_of(1999) == "2.0 kB"
    assert w.size_of(5_000_000) == "5.0 MB"


@pytest.mark.parametrize(
    "text",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,<script>1</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "//evil.example",
        "https:",
        "http://[bad",
        "",
        None,
    ],
)
def test_what_must_not_become_a_link(text: str | None) -> None:
    assert w.web_link(text) is None


@pytest.mark.parametrize("text", ["https://example.org/a?b=1#c", "HTTP://EXAMPLE.org"])
def test_what_may_become_a_link(text: str) -> None:
    assert w.web_link(text) == text


def test_every_word_of_the_domain_has_a_mark() -> None:
    assert set(w.STATES) == set(State)
    assert set(w.VERDICTS) == set(Verdict)
    assert set(w.UNCERTAINTIES) == set(Uncertainty)
    assert set(w.STATUSES) == set(Status)
    assert set(w.ROUTES) == set(Route)
    assert set(w.VERBS) == set(Verb)
    assert set(w.CRITERIA) == set(w.MET_WHEN) == set(Criterion)


@pytest.mark.parametrize("marks", [w.STATES, w.VERDICTS, w.STATUSES, w.ROUTES, w.HEATS, w.UNCERTAINTIES])
def test_marks_of_one_kind_differ_in_word_and_shape(marks: dict[object, w.Mark]) -> None:
    assert len({mark.word for mark in marks.values()}) == len(marks)
    assert len({mark.icon for mark in marks.values()}) == len(marks)


def test_reasons_name_criteria_in_words() -> None:
    assert w.in_words("factor_isolated unmet: the arms differ") == "factor isolated unmet: the arms differ"
    assert w.in_words("another metric than the claim's") == "another metric than the claim's"

"""The JSON reader at the door: what it refuses, where it says the fault is, and that nothing else escapes."""

from __future__ import annotations

import gzip
import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.errors import Refused
from app.formats.strict_json import strict_json

NESTED_64 = b"[" * 64 + b"]" * 64

REFUSED = [
    # body, code, field
    (b"", "not-json", "line 1, column 1"),
    (b" \n ", "not-json", "line 2, column 2"),
    (b'{"a": }', "not-json", "line 1, column 7"),
    (b'{"a": 1,\n "b": [1, 2', "not-json", "line 2, column 12"),
    (b'{"a": 1}\n{"a": 2}', "not-json", "line 2, column 1"),
    (b'{"a": 1}}', "not-json", "line 1, column 9"),
    (b'{"a": "x\ny"}', "not-json", "line 1, column 9"),
    (b"{'a': 1}", "not-json", "line 1, column 2"),
    (gzip.compress(b'{"a": 1}'), "not-json", "line 1, column 1"),
    (b"PK\x03\x04rest", "not-json", "line 1, column 1"),
    (b'{"runs": [{"t": NaN}]}', "not-finite", "runs[0].t"),
    (b'{"a": [1, 2, Infinity]}', "not-finite", "a[2]"),
    (b'{"a": -Infinity}', "not-finite", "a"),
    (b'{"a": 1e999}', "not-finite", "a"),
    (b'{"a": -1E+400}', "not-finite", "a"),
    (b"NaN", "not-finite", "line 1, column 1"),
    (b'{"a": {"b": 1, "c": 2, "b": 3}}', "duplicate-key", "a.b"),
    (b'{"a": 1, "\\u0061": 2}', "duplicate-key", "a"),
    (b'[{"a": 1}, {"a": 1, "a": 1}]', "duplicate-key", "[1].a"),
    (b'{"n": 9007199254740993}', "number-too-large", "n"),
    (b'{"n": -9007199254740993}', "number-too-large", "n"),
    (b'{"n": ' + b"7" * 5000 + b"}", "number-too-large", "n"),
    (b'{"deep": ' + NESTED_64 + b"}", "too-deep", None),
    (b"[" * 100_000, "too-deep", None),
    (b'{"a":' * 100_000, "too-deep", None),
    (b'{"a": "\\u0000"}', "bad-text", "line 1, column 8"),
    (b'{"a": "\x00"}', "bad-text", "line 1, column 8"),
    (b'{"a": "\\ud800"}', "bad-text", "line 1, column 8"),
    (b'{"a": "\\udc00\\ud800"}', "bad-text", "line 1, column 8"),
    (b'{"a": "\\ud83d\\\\\\ude00"}', "bad-text", "line 1, column 8"),
    (b'{"a": "x",\n "b": "\xff"}', "bad-text", "line 2, column 8"),
    ('{"a": 1}'.encode("utf-16"), "bad-text", "line 1, column 1"),
    (b'"\xed\xa0\x80"', "bad-text", "line 1, column 2"),
]


@pytest.mark.parametrize(("body", "code", "field"), REFUSED)
def test_refuses_by_name_and_place(body: bytes, code: str, field: str | None) -> None:
    with pytest.raises(Refused) as caught:
        strict_json(body)
    assert caught.value.code == code
    assert caught.value.remedy
    if field is not None:
        assert caught.value.field == field


def test_a_fault_with_a_path_also_tells_the_line() -> None:
    with pytest.raises(Refused, match=r"line 3, column 7"):
        strict_json(b'{\n "a": 1,\n "b": 1e999\n}')


TAKEN = [
    (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    (NESTED_64, json.loads(NESTED_64)),
    (b'{"n": 9007199254740992, "m": -9007199254740992}', {"n": 2**53, "m": -(2**53)}),
    (b'{"a": "NaN 1e999 [[[[ \\" {{{{ \\\\"}', {"a": 'NaN 1e999 [[[[ " {{{{ \\'}),
    (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    (b'{"a": "\\\\ud800 \\\\u0000"}', {"a": "\\ud800 \\u0000"}),
    (b"null", None),
    (b'{"a": {"k": 1}, "b": {"k": 1}}', {"a": {"k": 1}, "b": {"k": 1}}),
    (b"[0.1, 1E-400, -0.0]", [0.1, 0.0, -0.0]),
]


@pytest.mark.parametrize(("body", "document"), TAKEN)
def test_takes_what_is_sound(body: bytes, document: object) -> None:
    assert strict_json(body) == document


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    many = ["[" * 10, '"[\\', "{" * 70, ""] * 50
    assert strict_json(json.dumps(many).encode()) == many


@pytest.mark.parametrize("depth", [63, 64, 65, 66, 128, 129])
@pytest.mark.parametrize("siblings", [0, 200])
def test_the_depth_limit_is_exact(depth: int, siblings: int) -> None:
    inner = b"[" + b",".join([b'["]"]'] * siblings) + b"]"
    own = 2 if siblings else 1
    body = b'{"a":' * (depth - own) + inner + b"}" * (depth - own)
    if depth <= 64:
        strict_json(body)
    else:
        with pytest.raises(Refused) as caught:
            strict_json(body)
        assert caught.value.code == "too-deep"


@pytest.mark.parametrize(("depth", "taken"), [(64, True), (65, False)])
def test_the_depth_is_kept_over_megabytes_of_brackets(depth: int, taken: bool) -> None:
    # More brackets than are summed at a time, opened before the first and closed after the last of them.
    body = b"[" * (depth - 1) + b"[]," * 1_500_000 + b"[]" + b"]" * (depth - 1)
    if taken:
        strict_json(body)
    else:
        with pytest.raises(Refused) as caught:
            strict_json(body)
        assert caught.value.code == "too-deep"


@pytest.mark.parametrize("last", [64, 65])
def test_depth_reached_only_after_many_brackets(last: int) -> None:
    body = b"[[" + b"[]," * 1_500_000 + b"[" * (last - 2) + b"]" * (last - 2) + b"]]"
    if last <= 64:
        strict_json(body)
    else:
        with pytest.raises(Refused, match="deeper than 64"):
            strict_json(body)


ordinary = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8", min_codepoint=1)), inner)
    ),
    max_leaves=30,
)


@given(ordinary, st.booleans())
def test_reads_any_sound_document_as_written(document: object, ascii_only: bool) -> None:
    assert strict_json(json.dumps(document, ensure_ascii=ascii_only).encode()) == document


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b'{"a"')
@example(b'"\\')
@example(b'{"a": nan, "a": 1e999')
def test_arbitrary_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        strict_json(body)
    except Refused as refusal:
        assert refusal.code in {
            "not-json",
            "not-finite",
            "duplicate-key",
            "too-deep",
            "number-too-large",
            "bad-text",
        }
        assert refusal.field


@given(st.text(alphabet='[]{}",:\\ 019.eE-NaInfty\nud8c', max_size=200))
def test_near_json_is_read_or_refused_and_whatever_is_read_can_be_stored(text: str) -> None:
    try:
        document = strict_json(text.encode())
    except Refused:
        return
    json.dumps(document, allow_nan=False, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b'{"start": 123.456, "n": 64, "text": "a [x] \\" \\\\"},' * 1_000_000 + b"0]",
        b"[" * 25_000_000 + b"]" * 25_000_000,
        b'["' * 20_000_000,
        b'"' + b"\\" * 50_000_000,
        b"1" * 50_000_000,
    ],
    ids=["records", "deep", "quotes", "backslashes", "digits"],
)
def test_fifty_megabytes_take_seconds(body: bytes) -> None:
    # The bound is far above what is seen (under 5 s); it catches work that grows with the square.
    started = time.perf_counter()
    try:
        strict_json(body)
    except Refused as refusal:
        assert len(str(refusal)) < 1000
    assert time.perf_counter() - started < 60

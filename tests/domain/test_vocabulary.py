"""Names of the configuration, and values compared by meaning."""

from __future__ import annotations

import pytest

from app.domain.claim import Level, Scalar
from app.domain.errors import Refused
from app.domain.scalars import same, same_format, stated
from app.domain.vocabulary import ALSO, EFFECTIVE, FIELDS, Group, group_of, read_config, required_fields


def test_other_spellings_come_to_the_vocabularys_names() -> None:
    read = read_config(
        {
            "quantization": "fp8",
            "Enable-Prefix-Caching": True,
            "Engine.Max_Num_Seqs": 8,
            "MODEL": "m",
            "my.knob": 3,
        }
    )
    assert read.config == {
        "engine.max_num_seqs": 8,
        "engine.prefix_caching": True,
        "model.name": "m",
        "my.knob": 3,
        "weights.format": "fp8",
    }
    assert read.renamed["quantization"] == "weights.format"
    assert read.unknown == ("my.knob",)


def test_two_spellings_that_agree_are_one() -> None:
    read = read_config({"weights.format": "fp8", "quantization": "FP8"})
    assert read.config == {"weights.format": "fp8"}


def test_two_spellings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(Refused, match="given twice, as fp8 and as nvfp4") as caught:
        read_config({"weights.format": "nvfp4", "quantization": "fp8"})
    assert caught.value.code == "said-twice"


def test_a_placeholder_does_not_displace_what_is_stated() -> None:
    assert read_config({"weights.format": None, "quantization": "fp8"}).config == {"weights.format": "fp8"}
    assert read_config({"weights.format": "unknown"}).config == {"weights.format": "unknown"}


def test_unknown_names_count_as_part_of_the_system() -> None:
    assert group_of("my.knob") is Group.SYSTEM
    assert group_of("engine.chunked_prefill") is Group.SYSTEM
    assert group_of("load.rate") is Group.WORKLOAD


def test_the_tables_agree_with_each_other() -> None:
    assert set(ALSO.values()) <= set(FIELDS)
    assert not set(ALSO) & set(FIELDS)
    assert {*EFFECTIVE, *EFFECTIVE.values()} <= set(FIELDS)
    for level in Level:
        assert set(required_fields(level)) <= set(FIELDS)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (256, "256"),
        (256.0, " 256 "),
        ("256.0", "256"),
        (True, "true"),
        (True, "True"),
        (True, 1),
        (False, "off"),
        (False, 0),
        ("vLLM", "vllm "),
        ("in_time", "in-time"),
        ("NVIDIA  RTX PRO 6000", "nvidia rtx pro 6000"),
        ("nv\u200bfp4", "nvfp4"),
        ("ｎｖｆｐ４", "nvfp4"),
    ],
)
def test_same_by_meaning(left: Scalar, right: Scalar) -> None:
    assert same(left, right)
    assert same(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (True, False),
        (True, 2),
        (1, 2),
        ("0.10", "0.1"),
        ("0.10", 0.1),
        ("1.10.0", "1.1.0"),
        ("Llama-3.1-8B", "Llama-3.18B"),
        ("nvfp4", "mxfp4"),
        (None, 0),
        (None, ""),
        ("nan", "0"),
    ],
)
def test_different_by_meaning(left: Scalar, right: Scalar) -> None:
    assert not same(left, right)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ("NVFP4", "nv_fp4", True),
        ("NVFP-4", "nvfp4", True),
        ("bfloat16", "bf16", True),
        ("fp8", "FP8_E4M3", False),
        ("nvfp4", "mxfp4", False),
    ],
)
def test_formats_by_meaning(left: str, right: str, equal: bool) -> None:
    assert same_format(left, right) is equal


@pytest.mark.parametrize("value", [None, "", "  ", "?", "-", "Unknown", "n/a", "N/A", "not-recorded", "TBD"])
def test_placeholders_state_nothing(value: Scalar) -> None:
    assert stated(value) is None


@pytest.mark.parametrize("value", [0, False, "none", "0", "bf16"])
def test_zero_false_and_none_by_name_are_statements(value: Scalar) -> None:
    assert stated(value) == value


@pytest.mark.parametrize(
    ("left", "right", "equal"), [(100, 100.9, True), (100, 102, False), ("100", 100.5, True)]
)
def test_tolerance_is_relative(left: Scalar, right: Scalar, equal: bool) -> None:
    assert same(left, right, 0.01) is equal

"""The submit form read into the API's own document, every mistake beside its control."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from app.domain.contrast import Role
from app.domain.errors import Conflict, NotFound, Refused
from app.formats.native import ResultIn
from app.web.forms import Filled, Upload, carry, pack, read_draft, read_form, unpack
from app.web.mistakes import control_of, mistake_of

from . import sample

FILE = Upload(name="stage_0.json", data=b'{"a": 1}')


def filled(files: dict[Role, tuple[Upload, ...]] | None = None, **texts: str) -> Filled:
    """A form with both files, filled in."""
    both = {Role.BASELINE: (FILE,), Role.TREATMENT: (Upload(name="other.json", data=b'{"a": 2}'),)}
    return Filled(
        texts={"case": "a-case", "level": "serving"} | texts, files=both if files is None else files
    )


def test_a_form_becomes_the_document_of_the_api() -> None:
    read = read_form(
        filled(
            publisher=" Lab ",
            relation="independent",
            command="run it",
            source_url="https://example.org",
            baseline_config='{"engine.name": "vllm"}',
        )
    )
    assert read.mistakes == ()
    assert read.document is not None
    assert read.document.case == "a-case"
    assert read.document.format == "auto"
    assert read.document.publisher is not None
    assert read.document.publisher.name == "Lab"
    assert [str(arm.role) for arm in read.document.arms] == ["baseline", "treatment"]
    assert read.document.arms[0].config == {"engine.name": "vllm"}
    assert base64.b64decode(read.document.arms[1].files[0].content_base64) == b'{"a": 2}'


@pytest.mark.parametrize(
    ("texts", "control", "detail"),
    [
        ({"case": "No Such Slug"}, "case", "String should match"),
        ({"case": ""}, "case", "at least 3"),
        ({"level": "moon"}, "level", "should be 'disclosure'"),
        ({"source_url": "javascript:alert(1)"}, "source_url", "should match"),
        ({"relation": "paid"}, "publisher", "without a publisher"),
        ({"publisher": "Lab", "relation": "friend"}, "relation", "should be"),
        ({"baseline_config": "{'a': 1}"}, "baseline_config", ""),
        ({"baseline_config": "[1]"}, "baseline_config", "not a map"),
        ({"treatment_config": '{"a": NaN}'}, "treatment_config", ""),
        ({"treatment_config": '{"a": 1e999}'}, "treatment_config", ""),
        ({"treatment_config": '{"a": {"b": 1}}'}, "treatment_config", ""),
        ({"treatment_config": '{"a": 1, "a": 2}'}, "treatment_config", ""),
        ({"command": "x" * 20_001}, "command", "at most"),
        ({"document": "{}"}, "document", "Both a document and files"),
    ],
)
def test_a_mistake_stands_beside_its_control(texts: dict[str, str], control: str, detail: str) -> None:
    read = read_form(filled(**texts))
    assert read.document is None
    assert {mistake.control for mistake in read.mistakes} == {control}
    assert any(detail in mistake.detail for mistake in read.mistakes)
    assert all(mistake.detail and mistake.remedy for mistake in read.mistakes)


def test_missing_files_are_named_by_arm() -> None:
    read = read_form(filled(files={Role.BASELINE: (FILE,)}))
    assert [mistake.control for mistake in read.mistakes] == ["treatment_files"]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("{", ""),
        ('{"case": "a-case", "arms": [], "extra": 1}', "Extra inputs"),
        ('{"case": "a-case", "measured_at": "2026-01-01T00:00:00", "arms": []}', "with a zone"),
        (
            '{"case": "a-case", "arms": [{"role": "baseline", "metrics": [{"values": [1.0]}]}]}',
            "Field",
        ),
    ],
)
def test_mistakes_of_a_pasted_document_stand_beside_it(text: str, detail: str) -> None:
    read = read_form(filled(files={}, document=text))
    assert read.document is None
    assert {mistake.control for mistake in read.mistakes} == {"document"}
    assert any(detail in mistake.detail for mistake in read.mistakes)


def test_a_pasted_document_is_taken() -> None:
    read = read_form(filled(files={}, document=json.dumps(sample.result_document())))
    assert read.document == sample.result()


def test_a_document_survives_being_carried() -> None:
    document = sample.result()
    assert read_draft(pack(document)).document == document


@pytest.mark.parametrize("draft", ["", "%%%", "bm90IGpzb24=", base64.b64encode(b"{}").decode()])
def test_a_draft_that_was_tampered_with_is_refused(draft: str) -> None:
    read = read_draft(draft)
    assert read.document is None
    assert read.mistakes


def test_files_are_carried_and_replaced() -> None:
    kept = carry(filled(), Role.BASELINE)
    assert kept.names == ("stage_0.json",)
    again = Filled(texts={"case": "a-case"}, files={}, kept={role: kept.carried for role in Role})
    read = read_form(again)
    assert read.document is not None
    assert read.document.arms[0].files[0].name == "stage_0.json"
    assert carry(filled(files={}), Role.BASELINE).names == ()


@pytest.mark.parametrize("value", [1, "text", [1], [{"name": "x"}], [{"name": "x", "content_base64": 1}]])
def test_carried_text_that_is_not_ours_is_no_file(value: Any) -> None:
    assert unpack(base64.b64encode(json.dumps(value).encode()).decode()) == []
    assert unpack("not base64!") == []


@pytest.mark.parametrize(
    ("path", "control"),
    [
        ("case", "case"),
        ("arms[0].files[1].ttft", "baseline_files"),
        ("arms[1].config.load.rate", "treatment_config"),
        ("arms[baseline].metrics[x].values[0]", "baseline_files"),
        ("arms[treatment]", "treatment_files"),
        ("arms", "form"),
        ("publisher.name", "publisher"),
        ("publisher.relation", "relation"),
        ("commander", "form"),
        ("", "form"),
    ],
)
def test_where_a_field_stands_in_the_form(path: str, control: str) -> None:
    assert control_of(path, pasted=False) == control
    assert control_of(path, pasted=True) == "document"


def test_errors_of_the_service_become_mistakes() -> None:
    refused = Refused("It is bad.", field="arms[0].files[0]", value=3, remedy="Mend it.", code="bad")
    found = mistake_of(refused, pasted=False)
    assert (found.control, found.value, found.remedy) == ("baseline_files", "3", "Mend it.")
    assert mistake_of(NotFound("case", "nope"), pasted=False).control == "case"
    conflict = mistake_of(Conflict("Taken.", remedy="Choose another.", code="taken"), pasted=False)
    assert (conflict.control, conflict.remedy) == ("form", "Choose another.")


def test_the_document_is_the_api_s_own() -> None:
    assert isinstance(read_form(filled()).document, ResultIn)

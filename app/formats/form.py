"""A result as form fields and files: what the submit page and multipart requests send."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.errors import Refused
from app.formats.native import ResultIn
from app.formats.strict_json import strict_json
from app.formats.wire import read_document

TEXT_FIELDS = ("case", "format", "level", "title", "measured_at", "source_url", "command", "note")
CONFIG_FIELDS = ("baseline_config", "treatment_config")
FILE_FIELDS = ("baseline", "treatment")
FIELDS = (*TEXT_FIELDS, *CONFIG_FIELDS, "publisher", "publisher_relation", "document")


def from_form(fields: Mapping[str, str], files: Mapping[str, Sequence[tuple[str, bytes]]]) -> ResultIn:
    """One result.

    Args:
        fields: `document` alone (a native result as JSON), or the names of `FIELDS`; empty ones count as
        absent.
        files: `baseline` and `treatment`, each with names and bytes; several are replicates.

    Raises:
        Refused: an unknown field, or anything that the native result refuses.
    """
    given = {name: value for name, value in fields.items() if value.strip()}
    for name in (*given, *files):
        if name not in FIELDS and name not in FILE_FIELDS:
            raise Refused(
                f"{name!r} is not a field of this form.",
                field=name,
                remedy=f"Use {', '.join((*FIELDS, *FILE_FIELDS))}.",
                code="extra-forbidden",
            )
    if "document" in given:
        return _pasted(given, files)
    document: dict[str, Any] = {name: given[name] for name in TEXT_FIELDS if name in given}
    if "publisher" in given:
        document["publisher"] = {"name": given["publisher"]}
        if "publisher_relation" in given:
            document["publisher"]["relation"] = given["publisher_relation"]
    document["arms"] = [_arm(role, given, files) for role in FILE_FIELDS if _told(role, given, files)]
    return read_document(ResultIn, document)


def _pasted(given: Mapping[str, str], files: Mapping[str, Sequence[tuple[str, bytes]]]) -> ResultIn:
    others = sorted({*given, *(role for role, some in files.items() if some)} - {"document", "case"})
    if others:
        raise Refused(
            f"A pasted document stands alone, but {', '.join(others)} came with it.",
            field="document",
            remedy="Clear the other fields or the pasted document.",
            code="document-not-alone",
        )
    try:
        value = strict_json(given["document"].encode("utf-8", "surrogatepass"))
    except Refused as error:
        raise error.within("document") from error
    if isinstance(value, dict) and "case" in given:
        value.setdefault("case", given["case"])
    return read_document(ResultIn, value)


def _told(role: str, given: Mapping[str, str], files: Mapping[str, Sequence[tuple[str, bytes]]]) -> bool:
    return bool(files.get(role)) or f"{role}_config" in given


def _arm(
    role: str, given: Mapping[str, str], files: Mapping[str, Sequence[tuple[str, bytes]]]
) -> dict[str, Any]:
    field = f"{role}_config"
    try:
        config = strict_json(given[field].encode("utf-8", "surrogatepass")) if field in given else {}
    except Refused as error:
        raise error.within(field) from error
    if not isinstance(config, dict):
        raise Refused(
            "A configuration is a flat JSON map.",
            field=field,
            value=given[field],
            remedy='Give an object such as {"weights.format": "nvfp4"}.',
            code="not-a-map",
        )
    return {
        "role": role,
        "config": config,
        "files": [
            {"name": name or f"{role}-{index}", "content_base64": base64.b64encode(data).decode()}
            for index, (name, data) in enumerate(files.get(role, ()), start=1)
        ],
    }

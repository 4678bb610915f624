"""The submit form read into the same document that the API takes, every mistake named beside its control."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from app.domain.claim import Level
from app.domain.contrast import Role
from app.domain.errors import Refused
from app.domain.evidence import Relation
from app.formats.native import ResultIn
from app.formats.strict_json import strict_json
from app.web.contexts import SubmitContext
from app.web.mistakes import invalid, mistake_of
from app.web.parts import Command, KeptFiles, Mistake, Option, Shell

TEXTS: Final = (
    "case",
    "level",
    "publisher",
    "relation",
    "source_url",
    "command",
    "baseline_config",
    "treatment_config",
    "document",
)
"""Controls that hold text, in the order of the form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file as it came through the form."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The form as it was filled in. `kept` holds files that an earlier page carried forward."""

    texts: Mapping[str, str]
    files: Mapping[Role, tuple[Upload, ...]]
    kept: Mapping[Role, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Text of a control, without the space around it."""
        return self.texts.get(name, "").strip()

    @property
    def pasted(self) -> bool:
        """Whether a whole document was pasted instead."""
        return bool(self.text("document"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What came of reading a form: a document, or mistakes."""

    document: ResultIn | None
    mistakes: tuple[Mistake, ...]


def read_form(filled: Filled) -> Read:
    """The document that a form describes, or its mistakes."""
    try:
        return read_document(_pasted(filled) if filled.pasted else _assembled(filled), pasted=filled.pasted)
    except Refused as error:
        return Read(document=None, mistakes=(mistake_of(error, pasted=filled.pasted),))


def read_document(body: Any, *, pasted: bool) -> Read:
    """A document of JSON values, or its mistakes."""
    try:
        return Read(document=ResultIn.model_validate(body), mistakes=())
    except ValidationError as error:
        found = tuple(
            invalid(entry, pasted) for entry in error.errors(include_url=False, include_context=False)
        )
        return Read(document=None, mistakes=found)


def _pasted(filled: Filled) -> Any:
    if any(filled.files.values()) or any(filled.kept.values()):
        raise Refused(
            "Both a document and files are given.",
            field="document",
            remedy="Give one of them: empty this box, or leave the files out.",
            code="two-inputs",
        )
    return strict_json(filled.texts["document"].encode())


def _assembled(filled: Filled) -> dict[str, Any]:
    body: dict[str, Any] = {
        "case": filled.text("case"),
        "format": "auto",
        "level": filled.text("level") or str(Level.SERVING),
        "arms": [_arm(filled, role) for role in (Role.BASELINE, Role.TREATMENT)],
    }
    if filled.text("publisher"):
        body["publisher"] = {"name": filled.text("publisher")}
        if filled.text("relation"):
            body["publisher"]["relation"] = filled.text("relation")
    elif filled.text("relation"):
        raise Refused(
            "A relation is given without a publisher.",
            field="publisher",
            remedy="Say who publishes the result.",
            code="publisher-missing",
        )
    for name in ("source_url", "command"):
        if filled.text(name):
            body[name] = filled.text(name)
    return body


def _arm(filled: Filled, role: Role) -> dict[str, Any]:
    given = filled.files.get(role, ())
    files = [_encoded(upload) for upload in given] if given else unpack(filled.kept.get(role, ""))
    if not files:
        raise Refused(
            f"The {role} has no result file.",
            field=f"arms[{_index(role)}].files",
            remedy="Choose the load generator's files, one a repeat; or paste a native result below.",
            code="no-files",
        )
    return {"role": str(role), "config": _config(filled, role), "files": files}


def _index(role: Role) -> int:
    return 0 if role is Role.BASELINE else 1


def _encoded(upload: Upload) -> dict[str, str]:
    return {"name": upload.name, "content_base64": base64.b64encode(upload.data).decode()}


def _config(filled: Filled, role: Role) -> dict[str, Any]:
    text = filled.text(f"{role}_config")
    where = f"arms[{_index(role)}].config"
    if not text:
        return {}
    try:
        config = strict_json(text.encode())
    except Refused as error:
        raise error.within(where) from error
    if not isinstance(config, dict):
        raise Refused(
            "The configuration is not a map.",
            field=where,
            value=text,
            remedy='Write a flat JSON object: {"engine.name": "vllm", "engine.version": "0.11.0"}.',
            code="not-a-map",
        )
    return config


def pack(document: ResultIn) -> str:
    """A document as hidden text, carried from the preview to the sending."""
    return base64.b64encode(document.model_dump_json(exclude_defaults=True).encode()).decode()


def read_draft(text: str) -> Read:
    """The document that a preview carried."""
    try:
        return read_document(strict_json(base64.b64decode(text, validate=True)), pasted=False)
    except (binascii.Error, ValueError, Refused):
        lost = Mistake(
            control="form",
            field="draft",
            detail="The previewed document did not come through.",
            value="",
            remedy="Choose the files again and look at the preview once more.",
        )
        return Read(document=None, mistakes=(lost,))


def carry(filled: Filled, role: Role) -> KeptFiles:
    """The files of an arm, to be carried on to the next page."""
    given = filled.files.get(role, ())
    files = [_encoded(upload) for upload in given] if given else unpack(filled.kept.get(role, ""))
    if not files:
        return KeptFiles(names=(), carried="")
    packed = base64.b64encode(json.dumps(files).encode()).decode()
    return KeptFiles(names=tuple(file["name"] for file in files), carried=packed)


def unpack(carried: str) -> list[dict[str, str]]:
    """Files that an earlier page carried; none where the text is not ours."""
    try:
        files = strict_json(base64.b64decode(carried, validate=True)) if carried else []
    except (binascii.Error, ValueError, Refused):
        return []
    wanted = {"name", "content_base64"}
    fits = isinstance(files, list) and all(
        isinstance(file, dict)
        and set(file) == wanted
        and all(isinstance(text, str) for text in file.values())
        for file in files
    )
    return files if fits else []


def submit_context(
    filled: Filled,
    mistakes: Sequence[Mistake],
    *,
    slugs: Sequence[tuple[str, str]],
    csrf: str,
    shell: Shell,
    base: str,
) -> SubmitContext:
    """The form, as it was filled in, with its mistakes."""
    by_control: dict[str, tuple[Mistake, ...]] = {}
    for mistake in mistakes:
        by_control[mistake.control] = (*by_control.get(mistake.control, ()), mistake)
    level = filled.text("level") or str(Level.SERVING)
    relation = filled.text("relation")
    none = Option(value="", label="not stated", chosen=not relation)
    return SubmitContext(
        shell=shell,
        csrf=csrf,
        fields={name: filled.texts.get(name, "") for name in TEXTS},
        levels=tuple(Option(value=one, label=one, chosen=one == level) for one in Level),
        relations=(none, *(Option(value=one, label=one, chosen=one == relation) for one in Relation)),
        slugs=tuple(slugs),
        kept={str(role): carry(filled, role) for role in (Role.BASELINE, Role.TREATMENT)},
        mistakes=tuple(mistakes),
        by_control=by_control,
        commands=_commands(base),
    )


def _commands(base: str) -> tuple[Command, ...]:
    return (
        Command(
            name="The same from a terminal",
            line="assay submit --case CASE --arm baseline=before.json --arm treatment=after.json --dry-run",
        ),
        Command(
            name="The same over HTTP",
            line=(
                f'curl -s {base}/api/v1/results/validate -H "Authorization: Bearer $ASSAY_TOKEN" '
                "-H 'Content-Type: application/json' --data @result.json"
            ),
        ),
    )

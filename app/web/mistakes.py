"""Mistakes of a form: each beside its control, with what was found there and what to do."""

from __future__ import annotations

from typing import Any, Final

from app.domain.claim import Level
from app.domain.contrast import Role
from app.domain.errors import AssayError, Conflict, NotFound, Refused, shorten
from app.web.parts import Mistake

CONTROLS: Final = (
    ("case", "case"),
    ("level", "level"),
    ("publisher.relation", "relation"),
    ("publisher", "publisher"),
    ("source_url", "source_url"),
    ("command", "command"),
)
"""Where a field of the document stands in the form, the longest prefix first."""


def invalid(entry: Any, pasted: bool) -> Mistake:
    path = ""
    for part in entry["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    message = str(entry["msg"]).removeprefix("Value error, ")
    given = entry.get("input")
    missing = entry["type"] == "missing"
    return Mistake(
        control=control_of(path, pasted=pasted),
        field=path,
        detail=f"{message[:1].upper()}{message[1:]}.",
        value="" if missing or isinstance(given, dict | list) or given == "" else shorten(given) or "",
        remedy=REMEDIES.get(control_of(path, pasted=False), "Correct it and look at the preview again."),
    )


REMEDIES: Final = {
    "case": "Give the short name of a case, as it stands in the case's address.",
    "source_url": "Give an address that begins with http:// or https://, or leave it empty.",
    "level": f"Choose one of {', '.join(Level)}.",
}


def mistake_of(error: AssayError, *, pasted: bool) -> Mistake:
    """A refusal as the form shows it."""
    if isinstance(error, Refused):
        return Mistake(
            control=control_of(error.field, pasted=pasted),
            field=error.field,
            detail=error.detail,
            value=error.value or "",
            remedy=error.remedy,
        )
    if isinstance(error, NotFound):
        field_name = error.what if error.what == "case" else ""
        return Mistake(
            control=control_of(field_name, pasted=pasted),
            field=field_name,
            detail=str(error),
            value=error.key,
            remedy="Choose one of the cases that are offered, or open the case first.",
        )
    remedy = error.remedy if isinstance(error, Conflict) else "Look at the preview again."
    return Mistake(control="form", field="", detail=str(error), value="", remedy=remedy)


def control_of(path: str, *, pasted: bool) -> str:
    """The control beside which a mistake at `path` is shown; "form" where it belongs to none."""
    if pasted:
        return "document"
    for index, role in enumerate((Role.BASELINE, Role.TREATMENT)):
        for prefix in (f"arms[{index}]", f"arms[{role}]"):
            if path.startswith(prefix):
                return f"{role}_config" if path[len(prefix) :].startswith(".config") else f"{role}_files"
    for prefix, control in CONTROLS:
        if path == prefix or path.startswith((f"{prefix}.", f"{prefix}[")):
            return control
    return "document" if path == "document" else "form"

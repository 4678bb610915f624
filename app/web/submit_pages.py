"""Handing a result in: the form, its preview, and the sending. Nothing is stored before the last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.domain.contrast import Role
from app.domain.errors import AssayError, Conflict, NotFound, Refused
from app.formats.native import ResultIn
from app.services.judge import Owner
from app.services.read import Reader
from app.web import csrf
from app.web.forms import TEXTS, Filled, Read, Upload, read_draft, read_form, submit_context
from app.web.mistakes import mistake_of
from app.web.parts import Mistake
from app.web.preview import preview_context
from app.web.reading import For, Hosts, Now, PageWriter, Shelf, Writer, base_of
from app.web.render import render, shell
from app.web.times import Dial

router = APIRouter(include_in_schema=False)

OFFERED: Final = 200
"""Cases offered while typing."""

MAX_FILES: Final = 40
MAX_FIELDS: Final = 40
MAX_TEXT: Final = 64 * 1024 * 1024
"""Limits of one form; the whole body is bounded before it comes here."""


async def posted(request: Request) -> AsyncIterator[FormData]:
    """The form as it was sent; its temporary files are closed afterwards."""
    async with request.form(max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=MAX_TEXT) as form:
        yield form


Posted = Annotated[FormData, Depends(posted)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request for the form: who asks, when, and what is on the shelf."""

    request: Request
    shelf: Reader
    whom: Owner
    now: datetime

    @property
    def dial(self) -> Dial:
        """Zone and present of the page."""
        return Dial(zone=self.whom.zone, now=self.now)

    def form(self, filled: Filled, mistakes: tuple[Mistake, ...], status: int = 200) -> Response:
        """The form, filled in, with mistakes in place."""
        token = csrf.token_of(self.request)
        offered = self.shelf.cases(
            state=None,
            verdict=None,
            tag=None,
            entity=None,
            q=None,
            min_price=None,
            sort="updated",
            cursor=None,
            limit=OFFERED,
        )
        context = submit_context(
            filled,
            mistakes,
            slugs=[(case.slug, case.title) for case in offered.items],
            csrf=token,
            shell=shell("Submit a result", "submit", self.dial, self.whom),
            base=base_of(self.request),
        )
        return self.with_token(render(context, status), token)

    def with_token(self, response: Response, token: str) -> Response:
        """The response, with the form's token for the browser."""
        csrf.set_token(response, self.request, token)
        return response


@router.get("/submit")
def submit_page(request: Request, shelf: Shelf, whom: For, now: Now) -> Response:
    """The empty form; `case` in the address fills in the case."""
    visit = Visit(request=request, shelf=shelf, whom=whom, now=now)
    texts = {"case": request.query_params.get("case", "")[:120]}
    return visit.form(Filled(texts=texts, files={}), ())


@router.post("/submit")
def submit_form(
    request: Request, form: Posted, shelf: Shelf, desk: Writer, hosts: Hosts, whom: For, now: Now
) -> Response:
    """A preview of what the form holds, or, from the preview, its sending."""
    foreign = csrf.why_foreign(request, _text(form, csrf.FIELD), hosts)
    if foreign is not None:
        raise HTTPException(403, f"The form was not taken: {foreign}. Open the page here and send it again.")
    visit = Visit(request=request, shelf=shelf, whom=whom, now=now)
    if _text(form, "action") == "send":
        return _send(visit, desk, read_draft(_text(form, "draft")))
    filled = _filled(form)
    read = read_form(filled)
    if read.document is None:
        return visit.form(filled, read.mistakes, 422)
    return _preview(visit, desk, filled, read.document)


def _preview(visit: Visit, desk: PageWriter, filled: Filled, document: ResultIn) -> Response:
    try:
        answer = desk.validate(document)
    except (Refused, NotFound, Conflict) as error:
        return visit.form(filled, (mistake_of(error, pasted=filled.pasted),), 422)
    token = csrf.token_of(visit.request)
    around = shell("Preview of a result", "submit", visit.dial, visit.whom)
    factor = visit.shelf.case(document.case).claim.factor
    return visit.with_token(render(preview_context(document, answer, factor, token, around)), token)


def _send(visit: Visit, desk: PageWriter, read: Read) -> Response:
    document, mistakes = read.document, read.mistakes
    if document is not None:
        try:
            answer = desk.submit(document)
        except (Refused, NotFound, Conflict) as error:
            mistakes = (_late(error),)
        else:
            number = answer["evidence"]
            wish = {"recorded": number} | ({"again": 1} if answer["duplicate"] else {})
            place = f"/cases/{document.case}?{urlencode(wish)}#evidence-{number}"
            return RedirectResponse(place, status_code=303)
    return visit.form(Filled(texts={}, files={}), mistakes, 422)


def _late(error: AssayError) -> Mistake:
    """A refusal of something that the preview had let through."""
    found = mistake_of(error, pasted=False)
    return Mistake(
        control="form", field=found.field, detail=found.detail, value=found.value, remedy=found.remedy
    )


def _filled(form: FormData) -> Filled:
    roles = (Role.BASELINE, Role.TREATMENT)
    return Filled(
        texts={name: _text(form, name).replace("\r\n", "\n") for name in TEXTS},
        files={role: _uploads(form, f"{role}_files") for role in roles},
        kept={role: _text(form, f"{role}_kept") for role in roles},
    )


def _text(form: FormData, name: str) -> str:
    value = form.get(name)
    return value if isinstance(value, str) else ""


def _uploads(form: FormData, name: str) -> tuple[Upload, ...]:
    """Files of a control; a browser sends an empty, nameless one where none was chosen."""
    found = [value for value in form.getlist(name) if isinstance(value, UploadFile) and value.filename]
    return tuple(Upload(name=_name(value), data=value.file.read()) for value in found)


def _name(upload: UploadFile) -> str:
    return (upload.filename or "file").replace("\\", "/").rsplit("/", 1)[-1][:300] or "file"

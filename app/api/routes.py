"""The JSON API under /api/v1."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import StringConstraints
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from app.api.problems import documented
from app.api.schemas import (
    AlertList,
    CaseList,
    CaseOut,
    DecisionList,
    EvidenceList,
    InterpretationList,
    OpenedOut,
    PriceList,
    ResultOut,
    SourceOut,
    WithdrawnOut,
    case_out,
    evidence_out,
)
from app.api.strict import StrictRoute
from app.deps import AdminDep, HouseDep, ReaderDep, SubmitterDep
from app.domain.case import State
from app.domain.errors import Refused
from app.domain.route import Route
from app.domain.verdict import Verdict
from app.formats.case_file import CaseFile, CaseIn
from app.formats.form import FIELDS, FILE_FIELDS, from_form
from app.formats.native import EvidenceIn, ResultIn
from app.formats.strict_json import strict_json
from app.formats.wire import Text, Time, Wire, read_document
from app.services import intake, opening
from app.services.build import result_ref
from app.services.once import once
from app.services.read import Reader
from app.store.codec import digest
from app.store.engine import reading, writing
from app.store.narrow import CaseFilter
from app.store.reads import case_list

router = APIRouter(prefix="/api/v1", route_class=StrictRoute)

SlugPath = Annotated[
    str, Path(max_length=120, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", description="Slug of the case.")
]
Cursor = Annotated[
    str | None,
    Query(max_length=2000, description="next_cursor of the page before.", pattern=r"^[A-Za-z0-9_\-]+$"),
]
Limit = Annotated[int, Query(ge=1, le=500, description="Most items on a page.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Repeating a request under one key gives the first answer again.",
    ),
]
Word = Annotated[str | None, Query(max_length=300, pattern=r"^[^\x00]*$")]
READS: Final = documented(401, 403, 404, 422, 503)
WRITES: Final = documented(400, 401, 403, 404, 409, 413, 415, 422, 503)


@router.get("/cases", responses=documented(401, 403, 422, 503), tags=["cases"])
def list_cases(
    here: HouseDep,
    caller: ReaderDep,
    state: State | None = None,
    verdict: Verdict | None = None,
    tag: Word = None,
    entity: Word = None,
    q: Word = None,
    min_price: Annotated[float | None, Query(ge=0, le=1, allow_inf_nan=False)] = None,
    sort: Literal["updated", "price", "title"] = "updated",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> CaseList:
    """Cases, the last changed first."""
    wanted = CaseFilter(state=state, verdict=verdict, tag=tag, entity=entity, q=q, min_price=min_price)
    with reading(here.engine) as connection:
        return CaseList.model_validate(case_list(connection, wanted, sort, cursor, limit))


@router.post("/cases", status_code=201, responses=WRITES, tags=["cases"])
def create_case(here: HouseDep, caller: SubmitterDep, document: CaseIn) -> OpenedOut:
    """Open a case."""
    with writing(here.engine) as connection:
        return OpenedOut.model_validate(opening.open_case(connection, document, here.desk(caller)))


@router.post("/cases/import", status_code=201, responses=WRITES, tags=["cases"])
def import_case(here: HouseDep, caller: AdminDep, document: CaseFile) -> OpenedOut:
    """Open a case from a case file, its earlier life included."""
    with writing(here.engine) as connection:
        return OpenedOut.model_validate(opening.open_case(connection, document, here.desk(caller)))


@router.get("/cases/{slug}", responses=READS, tags=["cases"])
def get_case(here: HouseDep, caller: ReaderDep, slug: SlugPath) -> CaseOut:
    """A whole case but for its histories."""
    reader = Reader(here.engine)
    return case_out(reader.case(slug), reader.evidence(slug))


@router.get("/cases/{slug}/evidence", responses=READS, tags=["histories"])
def list_evidence(
    here: HouseDep, caller: ReaderDep, slug: SlugPath, cursor: Cursor = None, limit: Limit = 100
) -> EvidenceList:
    """Evidence by number, with how each item is judged now."""
    page = Reader(here.engine).evidence_page(slug, cursor, limit)
    return EvidenceList(items=[evidence_out(item) for item in page.items], next_cursor=page.next_cursor)


@router.post(
    "/cases/{slug}/evidence",
    status_code=201,
    responses={**WRITES, 200: {"model": SourceOut, "description": "It was recorded before."}},
    tags=["evidence"],
)
def add_evidence(
    here: HouseDep,
    caller: SubmitterDep,
    slug: SlugPath,
    document: EvidenceIn,
    response: Response,
    key: Key = None,
) -> SourceOut:
    """Add a source, an echo of one, or an audit of one."""
    desk = here.desk(caller)

    def asked() -> str:
        return digest([slug, document.model_dump(mode="json")])

    with writing(here.engine) as connection:
        given = once(
            connection,
            actor=caller,
            key=key,
            digest_of_request=asked,
            now=desk.now,
            act=lambda: intake.record_source(connection, slug, document, desk),
        )
    response.status_code = given.status
    return SourceOut.model_validate(given.body)


class WithdrawIn(Wire):
    """Why an item of evidence is taken back."""

    reason: Annotated[Text, StringConstraints(min_length=1)]


@router.post("/cases/{slug}/evidence/{number}/withdraw", responses=WRITES, tags=["evidence"])
def withdraw_evidence(
    here: HouseDep,
    caller: AdminDep,
    slug: SlugPath,
    number: Annotated[int, Path(ge=1, le=2**31 - 1)],
    document: WithdrawIn,
) -> WithdrawnOut:
    """Take an item of evidence back: the log keeps both, and the case is judged without it."""
    with writing(here.engine) as connection:
        answer = intake.withdraw(connection, slug, number, document.reason, here.desk(caller))
    return WithdrawnOut.model_validate(answer.body)


@router.get("/cases/{slug}/interpretations", responses=READS, tags=["histories"])
def list_interpretations(
    here: HouseDep, caller: ReaderDep, slug: SlugPath, cursor: Cursor = None, limit: Limit = 100
) -> InterpretationList:
    """The interpretation history, newest first."""
    return InterpretationList.model_validate(Reader(here.engine).interpretation_page(slug, cursor, limit))


@router.get("/cases/{slug}/decisions", responses=READS, tags=["histories"])
def list_decisions(
    here: HouseDep, caller: ReaderDep, slug: SlugPath, cursor: Cursor = None, limit: Limit = 100
) -> DecisionList:
    """The decision trace, newest first."""
    return DecisionList.model_validate(Reader(here.engine).decisions(slug, cursor=cursor, limit=limit))


@router.get("/cases/{slug}/prices", responses=READS, tags=["histories"])
def list_prices(
    here: HouseDep, caller: ReaderDep, slug: SlugPath, cursor: Cursor = None, limit: Limit = 100
) -> PriceList:
    """Price readings, newest first."""
    return PriceList.model_validate(Reader(here.engine).price_page(slug, cursor, limit))


@router.get("/cases/{slug}/alerts", responses=READS, tags=["histories"])
def list_case_alerts(
    here: HouseDep, caller: ReaderDep, slug: SlugPath, cursor: Cursor = None, limit: Limit = 100
) -> AlertList:
    """How alerts on a case were routed, newest first."""
    page = Reader(here.engine).alerts(slug=slug, route=None, since=None, cursor=cursor, limit=limit)
    return AlertList.model_validate(page)


@router.get("/alerts", responses=documented(401, 403, 422, 503), tags=["alerts"])
def list_alerts(
    here: HouseDep,
    caller: ReaderDep,
    since: Time | None = None,
    route: Route | None = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> AlertList:
    """Alert-routing decisions, newest first."""
    page = Reader(here.engine).alerts(route=route, since=since, cursor=cursor, limit=limit)
    return AlertList.model_validate(page)


RESULT_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/ResultIn"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {name: {"type": "string"} for name in FIELDS}
                    | {
                        name: {"type": "array", "items": {"type": "string", "format": "binary"}}
                        for name in FILE_FIELDS
                    },
                }
            },
        },
    }
}


async def result_document(request: Request) -> ResultIn:
    """The result in a request's body, JSON or multipart."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind == "multipart/form-data":
        return await form_result(request)
    if kind != "application/json":
        raise HTTPException(415, "Send application/json or multipart/form-data.")
    return await run_in_threadpool(_read_result, await request.body())


def _read_result(body: bytes) -> ResultIn:
    return read_document(ResultIn, strict_json(body))


async def form_result(request: Request) -> ResultIn:
    """The result in a multipart body.

    Raises:
        Refused: the body is not multipart, or holds what a result cannot have.
    """
    try:
        async with request.form(max_files=128, max_fields=64, max_part_size=64_000_000) as form:
            return from_form(*await _parts(form))
    except (MultiPartException, HTTPException) as error:
        if isinstance(error, HTTPException) and error.status_code != 400:
            raise
        raise Refused(
            "The body is not multipart as its header says.",
            field="body",
            remedy="Let the client library build the body and its Content-Type.",
            code="not-multipart",
        ) from error


async def _parts(form: FormData) -> tuple[dict[str, str], dict[str, list[tuple[str, bytes]]]]:
    fields: dict[str, str] = {}
    files: dict[str, list[tuple[str, bytes]]] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            data = await value.read()
            if data or value.filename:
                files.setdefault(name, []).append((value.filename or "", data))
        elif name in fields:
            raise Refused(
                f"{name} is given twice.", field=name, value=value, remedy="Give it once.", code="field-twice"
            )
        else:
            fields[name] = value
    return fields, files


ResultDep = Annotated[ResultIn, Depends(result_document)]


@router.post(
    "/results",
    status_code=201,
    responses={**WRITES, 200: {"model": ResultOut, "description": "It was recorded before."}},
    openapi_extra=RESULT_BODY,
    tags=["results"],
)
def post_result(
    here: HouseDep, caller: SubmitterDep, document: ResultDep, response: Response, key: Key = None
) -> ResultOut:
    """Hand in a benchmark result. The answer says what it measured, how it was judged, and what followed."""
    desk = here.desk(caller)
    with writing(here.engine) as connection:
        given = once(
            connection,
            actor=caller,
            key=key,
            digest_of_request=lambda: result_ref(document),
            now=desk.now,
            act=lambda: intake.record_result(connection, document, desk),
        )
    response.status_code = given.status
    return ResultOut.model_validate(given.body)


@router.post("/results/validate", responses=WRITES, openapi_extra=RESULT_BODY, tags=["results"])
def validate_result(here: HouseDep, caller: SubmitterDep, document: ResultDep) -> ResultOut:
    """The answer that handing the result in would give; nothing is stored."""
    with reading(here.engine) as connection:
        answer = intake.preview_result(connection, document, here.desk(caller))
    return ResultOut.model_validate(answer.body)

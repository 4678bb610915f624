"""Raw files, published schemas and the vocabulary: what a reader needs to check a result or to write one."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel

from app.api.problems import documented
from app.deps import HouseDep, ReaderDep
from app.domain.metrics import METRICS
from app.domain.vocabulary import FIELDS
from app.formats import FORMATS
from app.formats.case_file import CaseFile
from app.formats.native import ResultIn
from app.services.read import Reader

router = APIRouter()

RAW: Final = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, max-age=31536000, immutable",
}
"""Raw files come from strangers: they are downloads, never pages of this site."""


@router.get(
    "/files/{sha256}",
    response_class=Response,
    responses={
        **documented(401, 403, 404, 422, 503),
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
    },
    tags=["evidence"],
)
def get_file(
    here: HouseDep, caller: ReaderDep, sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
) -> Response:
    """A raw file by its content's SHA-256, as it was handed in."""
    _, data = Reader(here.engine).file(sha256)
    headers = {"Content-Disposition": f'attachment; filename="{sha256[:16]}"', **RAW}
    return Response(data, media_type="application/octet-stream", headers=headers)


class MetricOut(BaseModel):
    """One metric by definition."""

    name: str
    unit: str
    direction: str
    family: str
    meaning: str


class FieldOut(BaseModel):
    """One configuration name."""

    name: str
    group: str
    meaning: str
    also: list[str]


class VocabularyOut(BaseModel):
    """What a result may say, by name."""

    metrics: list[MetricOut]
    config: list[FieldOut]
    formats: list[str]


@router.get("/api/v1/vocabulary", tags=["results"])
def get_vocabulary() -> VocabularyOut:
    """Metrics with units, configuration names, and the file formats that are read."""
    return VocabularyOut(
        metrics=[
            MetricOut(
                name=spec.name,
                unit=spec.unit,
                direction=spec.direction,
                family=spec.family,
                meaning=spec.meaning,
            )
            for spec in METRICS.values()
        ],
        config=[
            FieldOut(name=field.name, group=field.group, meaning=field.meaning, also=list(field.also))
            for field in FIELDS.values()
        ],
        formats=["assay", *sorted(FORMATS)],
    )


@router.get("/schemas/result-1.json", tags=["results"])
def result_schema() -> dict[str, Any]:
    """JSON Schema of the native result."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **ResultIn.model_json_schema()}


@router.get("/schemas/case-1.json", tags=["cases"])
def case_schema() -> dict[str, Any]:
    """JSON Schema of a case file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **CaseFile.model_json_schema()}

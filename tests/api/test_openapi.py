"""The document of the API: a generator can use it, and the service answers as it says (Schemathesis)."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.core.control import SkipTest
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from sqlalchemy import Engine

from app.formats.native import ResultIn
from tests.conftest import Api, MovingClock, api_over, house_over
from tests.services import documents

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]


@pytest.fixture
def lived(sqlite_engine: Engine, clock: MovingClock, tmp_path: Path) -> Api:
    made = api_over(house_over(sqlite_engine, clock, tmp_path / "data"))
    made.post("/api/v1/cases", documents.case())
    made.post("/api/v1/cases/import", documents.imported())
    made.post("/api/v1/results", documents.result())
    made.post("/api/v1/results", documents.qualifying())
    return made


@pytest.mark.parametrize("token", ["admin", None])
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_the_service_answers_as_documented(lived: Api, token: str | None, mode: GenerationMode) -> None:
    config = schemathesis.Config()
    config.projects.override.generation.modes = [mode]
    schema = schemathesis.openapi.from_asgi("/openapi.json", lived.client.app, config=config)
    said = {"Authorization": f"Bearer {lived.tokens[token]}"} if token else {}
    checks = [*CHECKS, negative_data_rejection] if token else CHECKS
    seen = set()
    for operation in (found.ok() for found in schema.get_all_operations()):

        @settings(
            max_examples=12 if operation.method == "get" else 18,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @schemathesis_given(operation, mode)
        def attempt(case: schemathesis.Case) -> None:
            at_a_real_case(case)
            response = case.call(headers=said)
            case.validate_response(response, checks=checks)

        # Some operations take nothing that could be wrong.
        with contextlib.suppress(SkipTest):
            attempt()
        seen.add(operation.label)
    assert len(seen) == sum(
        len(methods) for methods in lived.client.get("/openapi.json").json()["paths"].values()
    )


def schemathesis_given(operation: Any, mode: GenerationMode) -> Any:
    from hypothesis import given

    return given(operation.as_strategy(generation_mode=mode))


def at_a_real_case(case: schemathesis.Case) -> None:
    """Half of what is generated goes to a case that is there: else everything would end at 404."""
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("case"), str) and "arms" in body and len(str(body)) % 2:
        body["case"] = "a-case"
    slug = (case.path_parameters or {}).get("slug")
    if isinstance(slug, str) and re.fullmatch(r"[a-z0-9-]+", slug) and len(slug) % 2:
        case.path_parameters["slug"] = "a-case"


def document(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.client.get("/openapi.json").json()
    return found


def test_the_document_names_and_refers_to_what_is_there(lived: Api) -> None:
    found = document(lived)
    assert found["openapi"].startswith("3.1")
    text = json.dumps(found)
    for name in set(re.findall(r"#/components/schemas/([A-Za-z0-9_.\-]+)", text)):
        assert name in found["components"]["schemas"], name
    ids = [op["operationId"] for methods in found["paths"].values() for op in methods.values()]
    assert len(ids) == len(set(ids))
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation.get("summary"), where
            assert operation.get("tags"), where
            named = {item["name"] for item in operation.get("parameters", []) if item["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path)), where
            for status, answer in operation["responses"].items():
                kinds = set(answer.get("content", {}))
                if int(status) >= 400 and path != "/readyz":
                    assert kinds == {"application/problem+json"}, f"{where} {status}"


def test_the_document_is_valid_openapi(lived: Api) -> None:
    """Against the schemas that OpenAPI 3.1 builds upon: every schema in it is one of JSON Schema 2020-12."""
    found = document(lived)
    for name, schema in found["components"]["schemas"].items():
        wrapped = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
        wrapped["components"] = found["components"]
        jsonschema_rs.meta.validate(schema)
        jsonschema_rs.validator_for(wrapped), name


def test_the_published_schema_takes_what_the_service_takes(lived: Api) -> None:
    schema = lived.client.get("/schemas/result-1.json").json()
    validator = jsonschema_rs.validator_for(schema)
    for good in (documents.result(), documents.qualifying()):
        validator.validate(good)
        ResultIn.model_validate(good)
    assert not validator.is_valid(documents.result() | {"speed": 1})
    case = jsonschema_rs.validator_for(lived.client.get("/schemas/case-1.json").json())
    case.validate(documents.imported())

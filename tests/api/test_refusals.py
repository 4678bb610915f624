"""Bad input: each is a clear problem document, and nothing is stored."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.conftest import Api, serving
from tests.services import documents

RESULTS = "/api/v1/results"
ROUTES = (
    RESULTS,
    "/api/v1/results/validate",
    "/api/v1/cases",
    "/api/v1/cases/import",
    "/api/v1/cases/a-case/evidence",
)


@pytest.fixture
def lived(api: Api) -> Api:
    """One case with one result."""
    api.post("/api/v1/cases", documents.case())
    api.post(RESULTS, documents.result())
    return api


def refused(api: Api, answer: Any, status: int, code: str | None, before: dict[str, int]) -> dict[str, Any]:
    """A problem of this status and kind, and every table as it was."""
    assert answer.status_code == status, f"{answer.status_code}: {answer.text[:500]}"
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(answer.content, parse_constant=lambda text: pytest.fail(text))
    assert (
        {"type", "title", "status", "detail"}
        <= set(body)
        <= {"type", "title", "status", "detail", "remedy", "errors"}
    )
    assert body["status"] == status
    assert body["detail"].strip()
    assert body["title"].strip()
    if code is not None:
        assert body["type"] == f"/problems/{code}", body
    for error in body.get("errors", []):
        assert {"field", "detail", "remedy", "code"} <= set(error)
        assert all(
            isinstance(error[name], str) and error[name] for name in ("field", "detail", "remedy", "code")
        )
        assert len(error.get("value") or "") <= 120
    assert documents.counts(api.house.engine) == before
    return body


# Bodies that are no JSON of ours

BODIES: dict[str, tuple[bytes, str]] = {
    "blank": (b" \n", "not-json"),
    "NaN": (b'{"case": NaN}', "not-finite"),
    "Infinity": (b'{"case": Infinity}', "not-finite"),
    "-Infinity": (b'{"case": [-Infinity]}', "not-finite"),
    "1e999": (b'{"case": 1e999}', "not-finite"),
    "-1e999": (b'{"case": -1e999}', "not-finite"),
    "a key twice": (b'{"case": 1, "case": 2}', "duplicate-key"),
    "a deep key twice": (b'{"arms": [{"role": 1, "role": 1}]}', "duplicate-key"),
    "deep list": (b"[" * 100_000, "too-deep"),
    "deep object": (b'{"a":' * 5000 + b"1" + b"}" * 5000, "too-deep"),
    "trailing garbage": (b'{"case": "a-case"} x', "not-json"),
    "two documents": (b"{}{}", "not-json"),
    "cut off": (b'{"case": "a-c', "not-json"),
    "lone surrogate": (b'{"case": "\\ud800"}', "bad-text"),
    "reversed surrogates": (b'{"case": "\\udc00\\ud800"}', "bad-text"),
    "escaped NUL": (b'{"case": "a\\u0000"}', "bad-text"),
    "raw NUL": (b'{"case": "a\x00"}', "bad-text"),
    "integer beyond 2^53": (b'{"case": 9007199254740993}', "number-too-large"),
    "thousands of digits": (b'{"case": ' + b"9" * 100_000 + b"}", "number-too-large"),
    "not UTF-8": (b'{"case": "\xff"}', "bad-text"),
    "UTF-16": ('{"case": "x"}'.encode("utf-16"), "bad-text"),
    "gzip": (b"\x1f\x8b\x08\x00", "not-json"),
    "single quotes": (b"{'case': 1}", "not-json"),
    "a comment": (b'{"case": 1 /* x */}', "not-json"),
    "a trailing comma": (b'{"case": 1,}', "not-json"),
}


def test_a_body_that_is_no_strict_json_is_unreadable(lived: Api, subtests: pytest.Subtests) -> None:
    before = documents.counts(lived.house.engine)
    for name, (data, code) in BODIES.items():
        for path in ROUTES:
            with subtests.test(name, path=path):
                answer = lived.call("POST", path, content=data, headers={"Content-Type": "application/json"})
                refused(lived, answer, 400, code, before)


def test_no_body_at_all_is_refused(lived: Api) -> None:
    before = documents.counts(lived.house.engine)
    for path in ROUTES:
        answer = lived.call("POST", path, content=b"", headers={"Content-Type": "application/json"})
        refused(lived, answer, 400 if "results" in path else 422, None, before)


def test_a_byte_order_mark_is_no_fault(lived: Api) -> None:
    data = b"\xef\xbb\xbf" + json.dumps(documents.result(base=2000.0)).encode()
    said = {"Content-Type": "application/json; charset=utf-8"}
    assert lived.call("POST", RESULTS, content=data, headers=said).status_code == 201


def test_a_document_that_is_no_object_is_refused(lived: Api, subtests: pytest.Subtests) -> None:
    for value in [None, 1, "text", [], [1], True, 1.5]:
        with subtests.test(repr(value)[:30]):
            before = documents.counts(lived.house.engine)
            for path in ROUTES:
                refused(
                    lived,
                    lived.call(
                        "POST", path, content=json.dumps(value), headers={"Content-Type": "application/json"}
                    ),
                    422,
                    None,
                    before,
                )


def test_another_media_type_is_refused(lived: Api, subtests: pytest.Subtests) -> None:
    for kind in [
        "text/plain",
        "application/xml",
        "",
        "application/x-www-form-urlencoded",
        "application/jsonx",
    ]:
        with subtests.test(repr(kind)[:30]):
            before = documents.counts(lived.house.engine)
            for path in ROUTES:
                answer = lived.call("POST", path, content=b"{}", headers={"Content-Type": kind})
                refused(lived, answer, 415, "http-415", before)


# Results that cannot be taken


def result(**changes: Any) -> dict[str, Any]:
    return documents.result(base=3000.0) | changes


def arms(baseline: dict[str, Any] | None = None, treatment: dict[str, Any] | None = None) -> dict[str, Any]:
    """A result whose arms are changed."""
    made = [
        documents.arm("baseline", 3000.0) | (baseline or {}),
        documents.arm("treatment", 3900.0) | (treatment or {}),
    ]
    return result(arms=made)


def figures(*values: Any, **more: Any) -> dict[str, Any]:
    return {"metrics": [documents.metric(*values, **more)]}


SAME = documents.arm("baseline", 1000.0)

RESULT_FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "negative": (arms(figures(-1.0)), "not-positive", "arms"),
    "zero baseline": (arms(figures(0.0)), "not-positive", "arms"),
    "zero treatment": (arms(None, figures(0)), "not-positive", "arms"),
    "no values": (arms(figures()), "too-short", "arms[0].metrics[0].values"),
    "a value that is text": (arms(figures("fast")), "float-type", "arms[0].metrics[0].values[0]"),
    "a value that is true": (arms(figures(True)), "float-type", "arms[0].metrics[0].values[0]"),
    "a value that is null": (arms(figures(None)), "float-type", "arms[0].metrics[0].values[0]"),
    "unknown unit": (arms(figures(1.0, unit="furlong")), "wrong-unit", "arms[0].metrics[0].unit"),
    "unit of another dimension": (
        arms(None, figures(1.0, unit="GB")),
        "wrong-unit",
        "arms[1].metrics[0].unit",
    ),
    "no unit": (
        arms({"metrics": [{"name": "output_throughput", "values": [1.0]}]}),
        "missing",
        "arms[0].metrics[0].unit",
    ),
    "unknown metric": (arms(figures(1.0, name="speediness")), "unknown-metric", "arms[0].metrics[0]"),
    "unknown field": (result(speed=1), "extra-forbidden", "speed"),
    "unknown field deep": (arms({"gpu": "H100"}), "extra-forbidden", "arms[0].gpu"),
    "naive time": (result(measured_at="2026-08-10T12:00:00"), "value-error", "measured_at"),
    "time that is a number": (result(measured_at=1786000000), "value-error", "measured_at"),
    "time that is a date": (result(measured_at="2026-08-10"), "value-error", "measured_at"),
    "month 13": (result(measured_at="2026-13-10T12:00:00Z"), "value-error", "measured_at"),
    "year 1": (result(measured_at="0001-01-01T00:00:00+23:59"), "value-error", "measured_at"),
    "year 9999": (result(measured_at="9999-12-31T23:59:59-23:59"), "value-error", "measured_at"),
    "in the future": (result(measured_at="2027-01-01T00:00:00Z"), "in-the-future", "measured_at"),
    "arm twice": (result(arms=[SAME, SAME, documents.arm("treatment", 1.0)]), "arm-twice", "arms[1].role"),
    "no treatment": (result(arms=[SAME]), "no-treatment", "arms"),
    "no baseline": (result(arms=[documents.arm("treatment", 1.0)]), "no-baseline", "arms"),
    "no arms": (result(arms=[]), "too-short", "arms"),
    "seventeen arms": (result(arms=[SAME] * 17), "too-long", "arms"),
    "a third role": (result(arms=[SAME | {"role": "control"}]), "enum", "arms[0].role"),
    "identical arms": (result(arms=[SAME, SAME | {"role": "treatment"}]), "", "arms"),
    "no metric in common": (arms(None, figures(1.0, name="ttft", unit="s", statistic="mean")), "", "arms"),
    "arms without metrics": (arms({"metrics": []}, {"metrics": []}), "", "arms"),
    "integer beyond 2^53": (arms({"config": {"load.seed": 2**53 + 2}}), "", ""),
    "a nested configuration": (arms({"config": {"load.seed": {"deep": 1}}}), "", "arms[0].config"),
    "a configuration name with spaces": (arms({"config": {"load seed": 1}}), "", "arms[0].config"),
    "a slug that is none": (result(case="No Such Case"), "string-pattern-mismatch", "case"),
    "a level that is none": (result(level="galaxy"), "enum", "level"),
    "another factor": (result(factor=["engine.version"]), "other-factor", "factor"),
    "an address that is none": (result(source_url="ftp://x"), "string-pattern-mismatch", "source_url"),
    "an address that cannot be taken apart": (result(source_url="http://["), "bad-url", "source_url"),
    "a publisher's address likewise": (
        result(publisher={"name": "x", "url": "http://[::1"}),
        "bad-url",
        "publisher.url",
    ),
    "an address of full-width signs": (
        result(source_url="http://example.org＃@evil.example/"),
        "bad-url",
        "source_url",
    ),
    "a title of two lines": (result(title="a\nb"), "value-error", "title"),
    "base64 that is none": (
        arms({"files": [{"name": "x", "content_base64": "%%%"}]}),
        "not-base64",
        "arms[0].files[0].content_base64",
    ),
    "a file of no known format": (
        arms({"files": [{"name": "x", "content_base64": "e30="}]}),
        "unknown-format",
        "arms[0].files[0]",
    ),
    "a format that is none": (
        arms({"files": [{"name": "x", "format": "zip", "content_base64": "e30="}]}),
        "unknown-format",
        "arms[0].files[0].format",
    ),
    "metrics and file that disagree": (
        arms(
            figures(10.0)
            | {
                "files": [
                    {
                        "name": "stage_6.json",
                        "content_base64": documents.encoded(documents.stage(rate=100.0, tokens=6000.0)),
                    }
                ]
            }
        ),
        "",
        "arms[0]",
    ),
}


def test_a_result_that_cannot_be_taken_is_refused(lived: Api, subtests: pytest.Subtests) -> None:
    before = documents.counts(lived.house.engine)
    for name, (document, code, field) in RESULT_FAULTS.items():
        for path in (RESULTS, "/api/v1/results/validate"):
            with subtests.test(name, path=path):
                status = 400 if name == "integer beyond 2^53" else 422
                body = refused(lived, lived.post(path, document), status, code or None, before)
                assert body["errors"], "no field is named"
                assert body["errors"][0]["field"].startswith(field), body["errors"]


def test_every_wrong_field_is_named_at_once(lived: Api) -> None:
    before = documents.counts(lived.house.engine)
    document = result(measured_at="yesterday", speed=1, title="")
    body = refused(lived, lived.post(RESULTS, document), 422, None, before)
    assert {error["field"] for error in body["errors"]} == {"measured_at", "speed", "title"}


def test_a_summary_of_a_sweep_is_refused(lived: Api) -> None:
    path = documents.FILES / "summary_lifecycle_metrics.json"
    file = {"name": path.name, "content_base64": documents.encoded(json.loads(path.read_text()))}
    before = documents.counts(lived.house.engine)
    document = arms({"metrics": [], "files": [file]}, {"metrics": [], "files": [file]})
    refused(lived, lived.post(RESULTS, document), 422, None, before)


def test_a_case_that_is_not_there_is_not_found(lived: Api) -> None:
    before = documents.counts(lived.house.engine)
    for path in (RESULTS, "/api/v1/results/validate"):
        refused(lived, lived.post(path, result(case="no-such-case")), 404, "not-found", before)
    refused(
        lived, lived.post("/api/v1/cases/no-such-case/evidence", documents.source()), 404, "not-found", before
    )
    gone = lived.post("/api/v1/cases/no-such-case/evidence/1/withdraw", {"reason": "x"})
    refused(lived, gone, 404, "not-found", before)
    for name in ("", "/evidence", "/interpretations", "/decisions", "/prices", "/alerts"):
        refused(lived, lived.get(f"/api/v1/cases/no-such-case{name}"), 404, "not-found", before)


def test_without_the_right_token_nothing_is_stored(lived: Api, subtests: pytest.Subtests) -> None:
    for token in ["none", "wrong", "read"]:
        with subtests.test(repr(token)[:30]):
            before = documents.counts(lived.house.engine)
            said = {
                "none": {},
                "wrong": {"Authorization": "Bearer x"},
                "read": {"Authorization": f"Bearer {lived.tokens['read']}"},
            }
            bodies = {
                RESULTS: result(),
                "/api/v1/cases": documents.case("b-case"),
                "/api/v1/cases/a-case/evidence": documents.source(),
            }
            for path, body in bodies.items():
                answer = lived.client.post(path, json=body, headers=said[token])
                refused(lived, answer, 403 if token == "read" else 401, None, before)


# Cases and sources that cannot be taken

CASE_FAULTS: dict[str, tuple[dict[str, Any], int, str]] = {
    "slug taken": (documents.case("a-case"), 409, "slug-taken"),
    "slug with capitals": (documents.case("A-Case"), 422, "string-pattern-mismatch"),
    "slug with a line break": (documents.case("b-case\n"), 422, "string-pattern-mismatch"),
    "slug with dots": (documents.case("../etc/passwd"), 422, "string-pattern-mismatch"),
    "no claim": ({"slug": "b-case", "title": "x"}, 422, "missing"),
    "unknown metric": (documents.case("b-case", claim={"metric": "speediness"}), 422, "unknown-metric"),
    "no factor": (documents.case("b-case", claim={"factor": []}), 422, "too-short"),
    "delta of zero": (documents.case("b-case", claim={"delta": 0}), 422, "greater-than"),
    "horizon of a minute": (
        documents.case("b-case", claim={"horizon_hours": 0.01}),
        422,
        "greater-than-equal",
    ),
    "horizon of a thousand years": (
        documents.case("b-case", claim={"horizon_hours": 1e7}),
        422,
        "less-than-equal",
    ),
    "range reversed": (
        documents.case(
            "b-case",
            claim={
                "effects": [
                    {
                        "metric": "gemm_throughput",
                        "low": 2.0,
                        "high": 1.0,
                        "unit": "ratio",
                        "level": "kernel",
                        "treatment": "x",
                    }
                ]
            },
        ),
        422,
        "range-reversed",
    ),
    "opened in the future": (
        documents.case("b-case", opened_at="2027-01-01T00:00:00Z"),
        422,
        "in-the-future",
    ),
    "opened without a zone": (documents.case("b-case", opened_at="2026-01-01T00:00:00"), 422, "value-error"),
    "unknown field": (documents.case("b-case", state="expired"), 422, "extra-forbidden"),
    "one item twice": (
        documents.case("b-case", evidence=[documents.source(), documents.source()]),
        422,
        "evidence-twice",
    ),
    "an echo of nothing": (
        documents.case("b-case", evidence=[documents.source(kind="echo", echo_of="x")]),
        422,
        "no-such-evidence",
    ),
    "an echo of itself": (
        documents.case("b-case", evidence=[documents.source(kind="echo", key="me", echo_of="me")]),
        422,
        "no-such-evidence",
    ),
    "echoes in a circle": (
        documents.case(
            "b-case",
            evidence=[
                documents.source("A", kind="echo", key="a", echo_of="b"),
                documents.source("B", kind="echo", key="b", echo_of="a"),
            ],
        ),
        422,
        "no-such-evidence",
    ),
    "a thousand echoes in a row": (
        documents.case(
            "b-case",
            evidence=[
                *(
                    documents.source(f"E{n}", kind="echo", key=f"k{n}", echo_of=f"k{n + 1}")
                    for n in range(999)
                ),
                documents.source("end", key="k999"),
            ],
        ),
        422,
        "too-many-hops",
    ),
}


def test_a_case_that_cannot_be_taken_is_refused(lived: Api, subtests: pytest.Subtests) -> None:
    before = documents.counts(lived.house.engine)
    for name, (document, status, code) in CASE_FAULTS.items():
        with subtests.test(name):
            refused(lived, lived.post("/api/v1/cases", document), status, code, before)
            if status == 422:
                file = document | {"format": "assay-case-1"}
                refused(lived, lived.post("/api/v1/cases/import", file), status, code, before)


SOURCE_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no title": (documents.source(title="x") | {"title": " "}, "string-too-short"),
    "an echo that names nothing": (documents.source(kind="echo"), "loose-echo"),
    "a source that echoes": (documents.source(echo_of=1), "loose-echo"),
    "an audit that names nothing": (documents.source(kind="audit"), "loose-audit"),
    "an echo of an item that is not there": (documents.source(kind="echo", echo_of=77), "no-such-evidence"),
    "an echo of item zero": (documents.source(kind="echo", echo_of=0), "no-such-evidence"),
    "an echo of item -1": (documents.source(kind="echo", echo_of=-1), "no-such-evidence"),
    "an echo of item 2^53": (documents.source(kind="echo", echo_of=2**53), "no-such-evidence"),
    "an audit of a key": (documents.source(kind="audit", audits="x"), "no-such-evidence"),
    "a figure without a level": (documents.source(level=None), "level-missing"),
    "a figure of zero": (
        documents.source(reported=[{"metric": "gemm_throughput", "low": 0.0, "high": 1.0}]),
        "",
    ),
    "a figure of another metric": (
        documents.source(reported=[{"metric": "x", "low": 1.0, "high": 1.0}]),
        "unknown-metric",
    ),
    "a role twice": (documents.source(arms=[{"role": "baseline"}, {"role": "baseline"}]), "arm-twice"),
    "an address that cannot be taken apart": (documents.source(url="http://["), "bad-url"),
    "published in the future": (documents.source(published_at="2027-01-01T00:00:00Z"), "in-the-future"),
    "published without a zone": (documents.source(published_at="2026-01-01T00:00:00"), "value-error"),
}


def test_a_source_that_cannot_be_taken_is_refused(lived: Api, subtests: pytest.Subtests) -> None:
    before = documents.counts(lived.house.engine)
    for name, (document, code) in SOURCE_FAULTS.items():
        with subtests.test(name):
            answer = lived.post("/api/v1/cases/a-case/evidence", document)
            refused(lived, answer, 422, code or None, before)


ADDRESSES = [
    ("/api/v1/cases?stat=active", 422),
    ("/api/v1/cases?state=Active", 422),
    ("/api/v1/cases?verdict=maybe", 422),
    ("/api/v1/cases?min_price=nan", 422),
    ("/api/v1/cases?min_price=inf", 422),
    ("/api/v1/cases?min_price=1e999", 422),
    ("/api/v1/cases?min_price=1.1", 422),
    ("/api/v1/cases?limit=0", 422),
    ("/api/v1/cases?limit=501", 422),
    ("/api/v1/cases?limit=ten", 422),
    ("/api/v1/cases?sort=heat", 422),
    ("/api/v1/cases?q=%00", 422),
    ("/api/v1/cases?cursor=%00", 422),
    ("/api/v1/cases?cursor=AAAA", 422),
    ("/api/v1/alerts?since=2026-08-10", 422),
    ("/api/v1/alerts?since=2026-08-10T00:00:00", 422),
    ("/api/v1/alerts?since=1786000000", 422),
    ("/api/v1/alerts?route=loud", 422),
    ("/api/v1/alerts?slug=a-case", 422),
    ("/api/v1/cases/a-case/decisions?cursor=W10", 422),
    ("/api/v1/cases/a%00case", 422),
    ("/api/v1/cases/A-CASE", 422),
    ("/api/v1/nothing", 404),
    ("/files/xyz", 422),
]


def test_an_address_that_cannot_be_answered_is_a_problem(lived: Api, subtests: pytest.Subtests) -> None:
    before = documents.counts(lived.house.engine)
    for path, status in ADDRESSES:
        with subtests.test(path):
            refused(lived, lived.get(path), status, None, before)


def test_a_method_that_is_not_there_says_which_are(lived: Api) -> None:
    before = documents.counts(lived.house.engine)
    answer = lived.call("DELETE", "/api/v1/cases/a-case")
    refused(lived, answer, 405, "http-405", before)
    assert "GET" in answer.headers["allow"]


def test_a_key_that_is_none_is_refused(lived: Api, subtests: pytest.Subtests) -> None:
    for key in ["", " ", "k" * 201, "über", "tab\tkey"]:
        with subtests.test(repr(key)[:30]):
            before = documents.counts(lived.house.engine)
            said = [
                ("Idempotency-Key", key.encode("latin-1")),
                ("Authorization", f"Bearer {lived.tokens['admin']}".encode()),
            ]
            answer = lived.client.post(RESULTS, json=result(), headers=said)
            refused(lived, answer, 422, None, before)


# Bodies beyond the limit


def test_fifty_megabytes_are_refused_whether_announced_or_not(lived: Api) -> None:
    before = documents.counts(lived.house.engine)
    body = b'{"case": "a-case", "note": "' + b"x" * 50_000_000 + b'"}'

    def chunks() -> Any:
        for start in range(0, len(body), 1_000_000):
            yield body[start : start + 1_000_000]

    for path in (RESULTS, "/api/v1/cases", "/api/v1/cases/a-case/evidence"):
        for content in (body, chunks()):
            answer = lived.call("POST", path, content=content, headers={"Content-Type": "application/json"})
            problem = refused(lived, answer, 413, "http-413", before)
            assert "ASSAY_MAX_BODY_MB" in problem["detail"]


def test_fifty_megabytes_are_refused_over_a_real_connection(sqlite_api: Api) -> None:
    import http.client

    sqlite_api.post("/api/v1/cases", documents.case())
    before = documents.counts(sqlite_api.house.engine)
    said = {"Authorization": f"Bearer {sqlite_api.tokens['admin']}", "Content-Type": "application/json"}
    with serving(sqlite_api.house) as url:
        host, port = url.removeprefix("http://").split(":")
        for encode in (False, True):
            connection = http.client.HTTPConnection(host, int(port), timeout=30)
            try:
                body = (b"x" * 100_000 for _ in range(500))
                length = {} if encode else {"Content-Length": "50000000"}
                connection.request("POST", RESULTS, body, said | length, encode_chunked=encode or None)  # type: ignore[arg-type]
            except (BrokenPipeError, ConnectionResetError):
                pass  # The server has answered already and hung up; its answer may still be read.
            try:
                answer = connection.getresponse()
            except (ConnectionResetError, BrokenPipeError, http.client.BadStatusLine):
                continue
            assert answer.status == 413
            connection.close()
        check = http.client.HTTPConnection(host, int(port), timeout=30)
        check.request("GET", "/healthz")
        assert check.getresponse().status == 200, "the server lives on"
        check.close()
        assert documents.counts(sqlite_api.house.engine) == before


def test_figures_at_the_edge_of_floats_never_fail_the_service(lived: Api) -> None:
    edges = (5e-324, 1e-308, 1e-5, 1.0, 9007199254740992, 1e14, 1e300, 1.7976931348623157e308)
    for low in edges:
        for high in edges:
            answer = lived.post("/api/v1/results/validate", arms(figures(low), figures(high)))
            assert answer.status_code in (200, 422), answer.text
            if answer.status_code == 200:
                assert all(math.isfinite(item["log_ratio"]) for item in answer.json()["contrasts"])


def test_the_largest_exact_integer_is_taken(lived: Api) -> None:
    """2^53 is the last integer that JSON readers keep; the canonical form's library refuses it."""
    document = result()
    document["arms"][0]["config"]["load.seed"] = document["arms"][1]["config"]["load.seed"] = 2**53
    assert lived.post(RESULTS, document).status_code == 201

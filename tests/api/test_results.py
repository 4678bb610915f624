"""The walk of a result through the API: answers, duplicates, keys, validation, multipart, histories, withdrawal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.conftest import Api, MovingClock, api_over, house_over
from tests.services import documents

RESULTS = "/api/v1/results"
ANSWER = {
    "result_id",
    "case",
    "duplicate",
    "qualifying",
    "contrasts",
    "criteria",
    "price",
    "state",
    "verdict",
    "decisions",
    "alerts",
    "run_validity",
}


@pytest.fixture
def opened(api: Api) -> Api:
    """The example's case and a plain one."""
    assert api.post("/api/v1/cases/import", documents.imported()).status_code == 201
    assert api.post("/api/v1/cases", documents.case()).status_code == 201
    return api


def test_the_answer_has_the_contracts_fields(opened: Api) -> None:
    answer = opened.post(RESULTS, documents.qualifying())
    body = answer.json()
    assert answer.status_code == 201
    assert set(body) >= ANSWER
    contrast = next(item for item in body["contrasts"] if item["metric"] == "output_throughput")
    assert set(contrast) >= {
        "unit",
        "baseline",
        "treatment",
        "ratio",
        "log_ratio",
        "se",
        "se_imputed",
        "level",
    }
    assert contrast["unit"] == "token/s"
    assert contrast["ratio"] == pytest.approx(contrast["treatment"] / contrast["baseline"], rel=0.01)
    assert len(body["criteria"]) == 8
    assert all(set(row) >= {"criterion", "status", "reason", "fields"} for row in body["criteria"])
    assert {row["status"] for row in body["criteria"]} == {"met"}
    assert (body["qualifying"], body["duplicate"]) == (True, False)
    assert body["run_validity"] == [
        item | {"valid": True} for item in sorted(body["run_validity"], key=lambda entry: entry["arm"])
    ]
    assert all(set(item) >= {"verb", "reason"} for item in body["decisions"])
    assert all(set(item) >= {"route", "rule", "reason"} for item in body["alerts"])


def test_a_result_twice_answers_the_first_again(opened: Api, clock: MovingClock) -> None:
    first = opened.post(RESULTS, documents.qualifying())
    opened.post(RESULTS, documents.qualifying(mark=" again", speedup=0.9))
    clock.forward(days=3)
    before = documents.counts(opened.house.engine)
    again = opened.post(RESULTS, documents.qualifying())
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json() | {"duplicate": True}
    swapped = documents.qualifying()
    swapped["arms"].reverse()
    assert opened.post(RESULTS, swapped).json() == first.json() | {"duplicate": True}
    assert documents.counts(opened.house.engine) == before


def test_another_policy_does_not_change_a_first_answer(
    sqlite_engine: Engine, clock: MovingClock, tmp_path: Any
) -> None:
    from dataclasses import replace

    house = house_over(sqlite_engine, clock, tmp_path / "data")
    api = api_over(house)
    api.post("/api/v1/cases", documents.case())
    first = api.post(RESULTS, documents.result()).json()
    imputed = dict.fromkeys(house.policy.imputed_se, 0.5)
    later = api_over(replace(house, policy=replace(house.policy, version="2", imputed_se=imputed)))
    assert later.post(RESULTS, documents.result()).json() == first | {"duplicate": True}


def test_the_same_files_under_other_words_count_once(opened: Api) -> None:
    """One measurement told twice is one piece of evidence, whatever its title or date."""
    first = opened.post(RESULTS, documents.qualifying()).json()
    told = documents.qualifying() | {"title": "The same once more", "measured_at": "2026-08-01T00:00:00Z"}
    second = opened.post(RESULTS, told).json()
    assert (second["duplicate"], second["evidence"]) == (False, first["evidence"] + 1)
    assert second["price"]["after"] == pytest.approx(first["price"]["after"])


def test_a_withdrawal_outlives_the_next_import_of_the_same(opened: Api) -> None:
    first = opened.post(RESULTS, documents.result(ratio=1.4)).json()
    path = f"/api/v1/cases/a-case/evidence/{first['evidence']}/withdraw"
    gone = opened.post(path, {"reason": "The clock was wrong."}).json()
    assert gone["price"]["after"] == pytest.approx(first["price"]["before"])
    assert [item["verb"] for item in gone["decisions"]] == ["correct"]
    before = documents.counts(opened.house.engine)
    again = opened.post(RESULTS, documents.result(ratio=1.4)).json()
    assert again["duplicate"] is True
    assert any("withdrawn" in notice and "The clock was wrong." in notice for notice in again["notices"])
    assert documents.counts(opened.house.engine) == before
    item = opened.get("/api/v1/cases/a-case/evidence").json()["items"][0]
    assert (item["withdrawn"], item["qualifying"]) == ("The clock was wrong.", False)
    twice = opened.post(path, {"reason": "Once more."})
    assert (twice.status_code, twice.json()["type"]) == (409, "/problems/already-withdrawn")
    missing = opened.post("/api/v1/cases/a-case/evidence/77/withdraw", {"reason": "x"})
    assert missing.status_code == 404


def test_replicates_with_equal_figures_are_kept_apart(opened: Api) -> None:
    """Two runs that happen to agree are two runs: their dates and files tell them apart."""
    for day in (1, 2):
        document = documents.result(measured_at=f"2026-08-0{day}T00:00:00Z")
        assert opened.post(RESULTS, document).status_code == 201
    assert opened.get("/api/v1/cases/a-case").json()["evidence_count"] == 2


# Idempotency-Key


def keyed(key: str) -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": key}}


def test_a_key_repeats_the_first_answer(opened: Api, clock: MovingClock) -> None:
    for path, body in ((RESULTS, documents.result()), ("/api/v1/cases/a-case/evidence", documents.source())):
        first = opened.post(path, body, **keyed(f"k-{path[-7:]}"))
        clock.forward(hours=1)
        before = documents.counts(opened.house.engine)
        again = opened.post(path, body, **keyed(f"k-{path[-7:]}"))
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json() == first.json()
        assert documents.counts(opened.house.engine) == before


def test_a_key_with_another_body_conflicts(opened: Api) -> None:
    opened.post(RESULTS, documents.result(), **keyed("one"))
    before = documents.counts(opened.house.engine)
    other = opened.post(RESULTS, documents.result(base=7.0), **keyed("one"))
    assert (other.status_code, other.json()["type"]) == (409, "/problems/key-reused")
    elsewhere = opened.post("/api/v1/cases/a-case/evidence", documents.source(), **keyed("one"))
    assert elsewhere.status_code == 409
    assert documents.counts(opened.house.engine) == before


def test_a_key_is_its_actors_own(opened: Api) -> None:
    assert opened.post(RESULTS, documents.result(), **keyed("one")).status_code == 201
    other = opened.post(RESULTS, documents.result(base=7.0), scope="submit", **keyed("one"))
    assert other.status_code == 201


def test_a_refused_request_leaves_its_key_free(opened: Api) -> None:
    wrong = documents.result() | {"speed": 1}
    assert opened.post(RESULTS, wrong, **keyed("one")).status_code == 422
    absent = opened.post(RESULTS, documents.result("no-such-case"), **keyed("one"))
    assert absent.status_code == 404
    assert opened.post(RESULTS, documents.result(), **keyed("one")).status_code == 201


# Validation


@pytest.mark.parametrize("name", ["pooled", "qualifying", "invalid"])
def test_validation_stores_nothing_and_foretells_the_answer(opened: Api, name: str) -> None:
    opened.post(RESULTS, documents.result(ratio=1.1))
    document = {
        "pooled": documents.result(ratio=1.5),
        "qualifying": documents.qualifying(),
        "invalid": documents.result(
            arms=[stage("baseline", 6400.0, "bf16"), stage("treatment", 10700.0, "nvfp4")]
        ),
    }[name]
    before = documents.counts(opened.house.engine)
    told = opened.post(f"{RESULTS}/validate", document)
    assert told.status_code == 200
    assert documents.counts(opened.house.engine) == before
    assert told.json() == opened.post(RESULTS, document).json()
    known = opened.post(f"{RESULTS}/validate", document).json()
    assert known == told.json() | {"duplicate": True}, "what is recorded already is not told as new"


def stage(role: str, tokens: float, weights: str) -> dict[str, Any]:
    file = {
        "name": "stage_6.json",
        "content_base64": documents.encoded(documents.stage(rate=140.0, tokens=tokens)),
    }
    return documents.arm(role, config={"weights.format": weights}, files=[file])


def test_validation_knows_what_the_owner_was_told_today(opened: Api) -> None:
    """Routing too is foretold: an alert like one that has just gone out is a duplicate in both."""
    for ratio in (1.5, 1.6):
        document = documents.result(ratio=ratio, base=1000.0 * ratio)
        told = opened.post(f"{RESULTS}/validate", document).json()["alerts"]
        assert told == opened.post(RESULTS, document).json()["alerts"]


# Multipart


def form(**fields: Any) -> dict[str, Any]:
    """A multipart body of inference-perf stages and flat configurations."""
    config = {
        "hardware.gpu": "H100",
        "engine.name": "vLLM",
        "engine.version": "0.11.0",
        "model.name": "a/model",
    }
    data = {
        "case": "a-case",
        "baseline_config": json.dumps(config | {"weights.format": "bf16"}),
        "treatment_config": json.dumps(config | {"weights.format": "nvfp4"}),
    }
    files = [
        (
            "baseline",
            ("a/stage_6.json", json.dumps(documents.stage(rate=140.0, tokens=6431.0)), "application/json"),
        ),
        (
            "treatment",
            ("b/stage_6.json", json.dumps(documents.stage(rate=140.0, tokens=10798.0)), "application/json"),
        ),
    ]
    return {"data": data | fields, "files": files}


def test_a_multipart_result_is_the_same_result(opened: Api) -> None:
    answer = opened.call("POST", RESULTS, **form(publisher="Somebody", publisher_relation="independent"))
    assert answer.status_code == 201, answer.text
    contrast = next(item for item in answer.json()["contrasts"] if item["metric"] == "output_throughput")
    assert contrast["ratio"] == pytest.approx(1.679, abs=0.001)
    assert opened.call("POST", f"{RESULTS}/validate", **form()).status_code == 200
    document = {"document": json.dumps(documents.result())}
    boundary = opened.call("POST", RESULTS, data=document, files=[("baseline", ("", b""))])
    assert boundary.status_code == 201, boundary.text


FORMS: dict[str, tuple[dict[str, Any], int]] = {
    "unknown field": (form(speed="1"), 422),
    "configuration that is no JSON": (form(baseline_config="{"), 400),
    "configuration that is a list": (form(baseline_config="[]"), 422),
    "configuration with NaN": (form(baseline_config='{"x": NaN}'), 400),
    "no case": (form(case=""), 422),
    "a case that is not there": (form(case="no-such-case"), 404),
    "a naive time": (form(measured_at="2026-08-10T12:00:00"), 422),
    "a NUL": (form(title="a\x00b"), 422),
    "a document and more": (form(document="{}"), 422),
    "a file that is no result": ({**form(), "files": [("baseline", ("x.json", b"{}"))]}, 422),
    "the same bytes in both arms": (
        {
            **form(),
            "files": [
                (role, ("s.json", json.dumps(documents.stage(rate=1.0, tokens=1.0))))
                for role in ("baseline", "treatment")
            ],
        },
        422,
    ),
}


def test_a_multipart_body_that_cannot_be_taken_is_refused(opened: Api, subtests: pytest.Subtests) -> None:
    before = documents.counts(opened.house.engine)
    for name, (body, status) in FORMS.items():
        with subtests.test(name):
            answer = opened.call("POST", RESULTS, **body)
            assert answer.status_code == status, answer.text
            assert answer.headers["content-type"] == "application/problem+json"
            assert documents.counts(opened.house.engine) == before


RAW = [
    (b"", "multipart/form-data; boundary=x"),
    (b"--x\r\n", "multipart/form-data; boundary=x"),
    (b"garbage", "multipart/form-data; boundary=x"),
    (b"--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--", "multipart/form-data; boundary=x"),
    (b"--x--", "multipart/form-data"),
    (b"--x--", "multipart/form-data; boundary="),
    (
        b"--x\r\nContent-Disposition: form-data; name=case\r\n\r\n\xff\xfe\r\n--x--\r\n",
        "multipart/form-data; boundary=x; charset=nope",
    ),
    (b"--x\r\n" * 5000, "multipart/form-data; boundary=x"),
    (
        b'--x\r\nContent-Disposition: form-data; name="case"\r\n\r\n1\r\n' * 200 + b"--x--\r\n",
        "multipart/form-data; boundary=x",
    ),
]


def test_a_body_that_is_no_multipart_is_refused(opened: Api, subtests: pytest.Subtests) -> None:
    before = documents.counts(opened.house.engine)
    for data, kind in RAW:
        with subtests.test(repr(data[:30]), kind=kind):
            answer = opened.call("POST", RESULTS, content=data, headers={"Content-Type": kind})
            assert 400 <= answer.status_code < 500, answer.text
            assert answer.headers["content-type"] == "application/problem+json"
            assert documents.counts(opened.house.engine) == before


# Histories


def test_every_history_pages_without_repeats_or_gaps(opened: Api, subtests: pytest.Subtests) -> None:
    for number in range(7):
        opened.post(RESULTS, documents.result(ratio=1.2 + number / 50, base=1000.0 + number))
    for name in ("evidence", "interpretations", "decisions", "prices", "alerts"):
        with subtests.test(name):
            whole = opened.get(f"/api/v1/cases/a-case/{name}", params={"limit": 500}).json()
            assert whole["next_cursor"] is None
            for limit in (1, 2, 3, len(whole["items"])):
                found: list[Any] = []
                params: dict[str, Any] = {"limit": limit}
                while params.get("cursor", "first") is not None:
                    page = opened.get(f"/api/v1/cases/a-case/{name}", params=params).json()
                    found += page["items"]
                    params["cursor"] = page["next_cursor"]
                assert found == whole["items"]


def test_alerts_of_all_cases_are_filtered(opened: Api, clock: MovingClock) -> None:
    start = clock.now()
    clock.forward(hours=1)
    opened.post(RESULTS, documents.result(ratio=1.6))
    everything = opened.get("/api/v1/alerts").json()["items"]
    assert [item["slug"] for item in everything] == ["a-case", "a-case", documents.SLUG]
    late = opened.get("/api/v1/alerts", params={"since": clock.now().isoformat()}).json()["items"]
    assert late == everything[:1]
    elsewhere = clock.now().isoformat().replace("2026-08-10T20", "2026-08-11T06").replace("+00:00", "+10:00")
    assert opened.get("/api/v1/alerts", params={"since": elsewhere}).json()["items"] == late
    assert opened.get("/api/v1/alerts", params={"since": start.isoformat()}).json()["items"] == everything
    for route in ("silent", "digest", "interrupt"):
        found = opened.get("/api/v1/alerts", params={"route": route}).json()["items"]
        assert found == [item for item in everything if item["route"] == route]


def test_the_list_of_cases_is_filtered(opened: Api) -> None:
    opened.post(RESULTS, documents.result(ratio=1.6))

    def slugs(**params: Any) -> list[str]:
        return [item["slug"] for item in opened.get("/api/v1/cases", params=params).json()["items"]]

    assert slugs() == ["a-case", documents.SLUG]
    assert slugs(state="repriced") == ["a-case"]
    assert slugs(verdict="supported") == []
    assert slugs(tag="quantization", entity="vLLM") == [documents.SLUG]
    assert slugs(tag="QUANTIZATION") == []
    assert slugs(min_price=0.5) == ["a-case"]
    assert slugs(min_price=0.0) == slugs()
    assert slugs(q="bitsandbytes llama") == [documents.SLUG]
    assert slugs(q="quantiz") == slugs()
    for odd in ('"', "a OR b", "NEAR(", "*", "&|!():*<->", "'; --", "\\", "a" * 300, "ﬃ İ ß", "日本"):
        assert slugs(q=odd) == [], odd


def test_an_audit_judges_what_it_examines_anew(opened: Api) -> None:
    opened.post(RESULTS, documents.result(ratio=1.4))
    audit = {
        "kind": "audit",
        "title": "Read the harness",
        "audits": 1,
        "publisher": {"name": "A reader", "relation": "independent"},
    }
    finding = {
        "criterion": "measured_soundly",
        "status": "unmet",
        "reason": "no warm-up",
        "lines": ["bench.py:7"],
    }
    path = "/api/v1/cases/a-case/evidence"
    answer = opened.post(path, audit | {"findings": [finding]})
    assert answer.status_code == 201
    again = opened.post(path, audit | {"findings": [finding]})
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    rows = opened.get(path).json()["items"][0]["criteria"]
    row = next(item for item in rows if item["criterion"] == "measured_soundly")
    assert (row["status"], row["reason"]) == ("unmet", "no warm-up (audit)")


def test_words_that_nobody_stands_for_silence_no_result(opened: Api) -> None:
    opened.post(RESULTS, documents.qualifying())
    before = opened.get(f"/api/v1/cases/{documents.SLUG}").json()
    finding = {"criterion": "factor_isolated", "status": "unmet", "reason": "I think so"}
    audit = {"kind": "audit", "title": "Doubts", "audits": 1, "findings": [finding]}
    answer = opened.post(f"/api/v1/cases/{documents.SLUG}/evidence", audit).json()
    assert [item["verb"] for item in answer["decisions"]] == ["observe"]
    after = opened.get(f"/api/v1/cases/{documents.SLUG}").json()
    assert (after["price"], after["verdict"]) == (before["price"], before["verdict"])


@pytest.mark.parametrize(
    "change",
    [
        {"source_url": "https://b.example/post"},
        {"source_url": "https://www.c.example:443//post?utm_source=x"},
        {"title": "Told anew", "note": "in other words"},
        {"measured_at": "2026-08-10T10:00:00Z"},
    ],
)
def test_one_measurement_told_again_counts_once(opened: Api, change: dict[str, str]) -> None:
    first = opened.post(RESULTS, documents.qualifying()).json()
    again = opened.post(RESULTS, documents.qualifying() | change).json()
    assert again["price"]["after"] == pytest.approx(first["price"]["after"], abs=1e-6)
    assert [item["verb"] for item in again["decisions"]] == ["observe"]


def test_nobody_takes_a_result_s_place_by_naming_its_page(opened: Api) -> None:
    page = {"source_url": "https://lab.example/post"}
    opened.post(RESULTS, documents.result(ratio=0.7, publisher={"name": "Lab"}) | page)
    first = opened.get("/api/v1/cases/a-case").json()["price"]
    opened.post(RESULTS, documents.result(ratio=1.5, publisher={"name": "Mallory"}) | page)
    rows = opened.get("/api/v1/cases/a-case/evidence").json()["items"]
    assert len({row["evidence"]["root"] for row in rows}) == 2
    assert first < opened.get("/api/v1/cases/a-case").json()["price"] < 0.9


def test_what_was_withdrawn_stays_out_under_another_date(opened: Api) -> None:
    number = opened.post(RESULTS, documents.qualifying()).json()["evidence"]
    path = f"/api/v1/cases/{documents.SLUG}/evidence/{number}/withdraw"
    assert opened.post(path, {"reason": "fabricated"}).status_code == 200
    again = opened.post(RESULTS, documents.qualifying() | {"measured_at": "2026-08-10T10:00:00Z"}).json()
    assert (again["qualifying"], again["price"]["after"]) == (False, pytest.approx(0.3515, abs=5e-4))
    assert again["contrasts"][0]["why"] == "the same was withdrawn: fabricated"


def test_words_do_not_settle_what_the_one_qualifying_result_leaves_open(opened: Api) -> None:
    opened.post(RESULTS, documents.qualifying(speedup=0.887))
    for number in range(4):
        opened.post(
            f"/api/v1/cases/{documents.SLUG}/evidence",
            documents.source(
                f"Post {number}",
                publisher={"name": f"P{number}"},
                level="serving",
                reported=[{"metric": "output_throughput", "low": 1.9, "high": 2.1}],
            ),
        )
    case = opened.get(f"/api/v1/cases/{documents.SLUG}").json()
    assert case["price"] > 0.9
    assert case["verdict"] == "open"


def test_an_echo_is_no_second_voice(opened: Api) -> None:
    path = "/api/v1/cases/a-case/evidence"
    first = opened.post(path, documents.source(publisher={"name": "Lab"})).json()
    echo = documents.source("A copy", kind="echo", echo_of=1, publisher={"name": "News"})
    second = opened.post(path, echo).json()
    assert second["price"]["after"] == pytest.approx(first["price"]["after"])
    assert opened.get(path).json()["items"][1]["evidence"]["publisher"]["name"] == "Lab"


def test_a_unit_is_converted_and_not_guessed(opened: Api) -> None:
    arms = [
        documents.arm("baseline", metrics=[documents.metric(2.0, name="ttft", unit="s", statistic="mean")]),
        documents.arm(
            "treatment", metrics=[documents.metric(1000.0, name="ttft", unit="ms", statistic="mean")]
        ),
    ]
    contrast = opened.post(RESULTS, documents.result(arms=arms)).json()["contrasts"][0]
    assert (contrast["baseline"], contrast["treatment"], contrast["unit"]) == (2.0, 1.0, "s")
    assert contrast["log_ratio"] > 0, "a shorter time is better"


def test_equal_figures_are_no_change_and_one_run_has_an_imputed_spread(opened: Api) -> None:
    contrast = opened.post(RESULTS, documents.result(ratio=1.0)).json()["contrasts"][0]
    assert (contrast["ratio"], contrast["log_ratio"], contrast["se_imputed"]) == (1.0, 0.0, True)
    assert contrast["se"] > 0


def test_operators_routes(opened: Api) -> None:
    assert opened.client.get("/healthz").text == "ok\n"
    assert opened.client.get("/readyz").text == "ready\n"
    for path in ("/schemas/result-1.json", "/schemas/case-1.json", "/api/v1/vocabulary"):
        assert opened.client.get(path).status_code == 200
    opened.house.engine.dispose()

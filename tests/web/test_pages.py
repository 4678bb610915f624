"""Pages over a real store: filters, empty states, submitting, errors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.web import csrf

from . import sample
from .conftest import Site

FILES = Path(__file__).parents[1] / "formats" / "files"
CASE = f"/cases/{sample.SLUG}"


def token_in(text: str) -> str:
    """The form's token."""
    found = re.search(r'name="form_token" value="([^"]+)"', text)
    assert found
    return found.group(1)


def post(site: Site, data: dict[str, str], files: Any = None, **headers: str) -> Any:
    """The form sent, as its page would."""
    token = token_in(site.page("/submit").text)
    return site.client.post(
        "/submit",
        data={csrf.FIELD: token, "action": "preview"} | data,
        files=files or {"unused": ("", b"")},
        headers={"accept": "text/html", "origin": "http://127.0.0.1"} | headers,
        follow_redirects=False,
    )


def stage_files(factor: float = 1.3) -> list[tuple[str, tuple[str, bytes, str]]]:
    """Two load generator's files, the treatment's tokens multiplied."""
    base = (FILES / "stage_6_lifecycle_metrics.json").read_bytes()
    faster = json.loads(base)
    for name in faster["successes"]["throughput"]:
        faster["successes"]["throughput"][name] *= factor
    return [
        ("baseline_files", ("stage_6.json", base, "application/json")),
        ("treatment_files", ("stage_6_new.json", json.dumps(faster).encode(), "application/json")),
    ]


def test_an_empty_service_says_what_to_do(bare: Site) -> None:
    text = bare.page("/").text
    assert "There is no case yet" in text
    assert "assay cases import" in text
    assert "No alert was routed yet" in bare.page("/alerts").text


def test_the_list_shows_a_case_in_words(told_site: Site) -> None:
    text = told_site.page("/").text
    for words in ("expired", "open", "high uncertainty", "never measured", "4 items of evidence", "price"):
        assert words in text
    assert '<time datetime="2026-' in text
    assert "Australia/Sydney (UTC+10:00)" in text


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 2),
        ("?state=expired", 1),
        ("?state=active&verdict=open", 1),
        ("?verdict=refuted", 0),
        ("?tag=local-inference", 1),
        ("?entity=NVIDIA", 1),
        ("?q=kernel", 2),
        ("?q=zebra", 0),
        ("?min_price=0.5", 1),
        ("?sort=title", 2),
        ("?q=&state=&verdict=&tag=&entity=&min_price=&sort=updated", 2),
    ],
)
def test_filters(told_site: Site, query: str, count: int) -> None:
    text = told_site.page(f"/{query}").text
    assert len(re.findall(r'<li class="row"', text)) == count
    assert ("No case fits" in text) == (count == 0)


@pytest.mark.parametrize(
    "query", ["?state=moon", "?verdict=yes", "?min_price=2", "?min_price=nan", "?sort=heat"]
)
def test_a_filter_that_means_nothing_is_named_and_left_out(told_site: Site, query: str) -> None:
    answer = told_site.page(f"/{query}")
    assert answer.status_code == 200
    assert 'class="mistake"' in answer.text
    assert len(re.findall(r'<li class="row"', answer.text)) == 2


def test_a_filter_can_be_taken_away_alone(told_site: Site) -> None:
    text = told_site.page("/?state=expired&q=kernel").text
    assert 'href="/?q=kernel"' in text
    assert 'href="/?state=expired"' in text


def test_a_case_page_says_everything(told_site: Site) -> None:
    text = told_site.page(CASE).text
    for words in (
        "Not shown end to end.",
        "canonical anchor",
        "What would settle this",
        "Imported standing",
        "Not our judgement",
        "29 to 40 % faster",
        "1\u202f666 TFLOP/s",
        "Metric, threshold and horizon were added here.",
        "ip:concept.unit-economics",
        "kernel against serving",
        "No reading was ever taken",
        "No chain is recorded",
        "[cut by its source]",
        "no load generator&#39;s record of a run is attached",
        "assay replay fast-kernel-claim",
    ):
        assert words in text
    for anchor in ("evidence-1", "evidence-4", "decision-1", "interpretation-1", "trace"):
        assert f'id="{anchor}"' in text


def test_raw_files_can_be_opened_from_the_page(site: Site) -> None:
    answer = post(site, {"case": sample.SLUG}, files=stage_files())
    draft = re.search(r'name="draft" value="([^"]+)"', answer.text)
    assert draft
    post(site, {"action": "send", "draft": draft.group(1)})
    text = site.page(CASE).text
    links = re.findall(r'href="(/files/[0-9a-f]{64})"', text)
    assert len(links) == 2
    assert site.client.get(links[0]).status_code == 200


def test_a_result_goes_from_preview_to_the_case(site: Site) -> None:
    before = site.page(CASE).text
    answer = post(site, {"case": sample.SLUG, "publisher": "Lab"}, files=stage_files())
    assert answer.status_code == 200
    assert "It does not qualify" in answer.text
    assert "inference-perf" in answer.text
    assert "1.30×" in answer.text
    assert site.page(CASE).text == before, "a preview stores nothing"
    draft = re.search(r'name="draft" value="([^"]+)"', answer.text)
    assert draft
    sent = post(site, {"action": "send", "draft": draft.group(1)})
    assert sent.status_code == 303
    assert sent.headers["location"] == f"{CASE}?recorded=4#evidence-4"
    text = site.page(sent.headers["location"]).text
    assert "Recorded as evidence 4." in text
    assert 'id="evidence-4"' in text
    again = post(site, {"action": "send", "draft": draft.group(1)})
    assert again.headers["location"] == f"{CASE}?recorded=4&again=1#evidence-4"
    assert "Nothing was decided again." in site.page(again.headers["location"]).text


def test_a_pasted_result_is_previewed(site: Site) -> None:
    answer = post(site, {"document": json.dumps(sample.result_document())})
    assert answer.status_code == 200
    assert "The price goes from" in answer.text


def test_mistakes_are_shown_in_place_and_files_are_kept(site: Site) -> None:
    files = stage_files()
    answer = post(site, {"case": "no-such-case", "publisher": "Lab"}, files=files)
    assert answer.status_code == 422
    assert 'aria-describedby="mistake-case"' in answer.text
    assert "There is no case &#39;no-such-case&#39;" in answer.text
    assert "stage_6.json" in answer.text
    assert 'value="Lab"' in answer.text
    kept = dict(re.findall(r'name="(\w+_kept)" value="([^"]+)"', answer.text))
    assert post(site, {"case": sample.SLUG} | kept).status_code == 200


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"case": sample.SLUG}, "The baseline has no result file."),
        ({"case": sample.SLUG, "document": '{"case": 1e999}'}, ""),
        ({"document": json.dumps(sample.result_document(factor=["weights.format"]))}, "another factor"),
        ({"action": "send", "draft": ""}, "did not come through"),
    ],
)
def test_bad_input_stores_nothing(site: Site, data: dict[str, str], words: str) -> None:
    before = site.reader.evidence(sample.SLUG)
    answer = post(site, data)
    assert answer.status_code == 422
    assert words in answer.text
    assert "nothing was stored" in answer.text
    assert site.reader.evidence(sample.SLUG) == before


def test_one_file_cannot_be_both_arms(site: Site) -> None:
    base = stage_files()[0][1]
    answer = post(site, {"case": sample.SLUG}, files=[("baseline_files", base), ("treatment_files", base)])
    assert answer.status_code == 422
    assert "identical" in answer.text


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"host": "evil.example"}],
)
def test_a_foreign_form_is_refused(site: Site, headers: dict[str, str]) -> None:
    answer = post(site, {"document": json.dumps(sample.result_document())}, **headers)
    assert answer.status_code == 403
    assert "The form was not taken" in answer.text


def test_a_form_without_its_cookie_is_refused(site: Site) -> None:
    token = token_in(site.page("/submit").text)
    site.client.cookies.clear()
    answer = site.client.post("/submit", data={csrf.FIELD: token}, headers={"accept": "text/html"})
    assert answer.status_code == 403


def test_the_token_s_cookie_is_strict(site: Site) -> None:
    cookie = site.page("/submit").headers["set-cookie"].lower()
    assert "samesite=strict" in cookie
    assert "httponly" in cookie
    assert "set-cookie" not in site.page("/submit").headers, "the browser has it"


def test_alerts_and_their_filter(told_site: Site) -> None:
    text = told_site.page("/alerts").text
    assert text.count('class="row alert"') == 3
    assert "what would raise it" in text
    assert told_site.page("/alerts?route=digest").text.count('class="row alert"') == 1
    assert told_site.page("/alerts?since=2026-08-31").text.count('class="row alert"') == 1
    assert "No alert decision fits" in told_site.page("/alerts?route=interrupt").text
    assert 'class="mistake"' in told_site.page("/alerts?since=yesterday").text
    assert 'class="mistake"' in told_site.page("/alerts?route=loud").text


def test_trace_filter_in_the_address(told_site: Site) -> None:
    text = told_site.page(f"{CASE}?origin=imported").text
    assert "entries are hidden by the filter" in text
    assert "<strong>expire</strong>" in text
    assert "<strong>alert digest</strong>" not in text


@pytest.mark.parametrize("path", ["/cases/nothing-here", "/cases/%3Cscript%3E", "/nowhere"])
def test_a_page_that_is_not_there(site: Site, path: str) -> None:
    answer = site.page(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "<script>" not in answer.text.replace('<script src="/static/', "")


@pytest.mark.parametrize("path", ["/?cursor=x", "/alerts?cursor=%00", f"{CASE}?before=zzz"])
def test_a_cursor_that_is_not_ours(site: Site, path: str) -> None:
    assert site.page(path).status_code in (200, 400, 422)


@pytest.mark.parametrize("query", ["?recorded=999", "?recorded=-1", "?recorded=%3Cb%3E", "?recorded=٣"])
def test_a_notice_cannot_be_made_up(site: Site, query: str) -> None:
    assert 'class="notice"' not in site.page(f"{CASE}{query}").text


def test_many_cases_come_page_by_page(site: Site) -> None:
    for index in range(52):
        site.open(slug=f"case-{index:02d}", title=f"Case {index:02d}", evidence=[], history=None)
    first = site.page("/?sort=title").text
    older = re.search(r'href="([^"]+)" rel="next"', first)
    assert older
    second = site.page(older.group(1).replace("&amp;", "&")).text
    titles = re.findall(r'<h2><a href="/cases/([^"]+)"', first + second)
    assert len(titles) == len(set(titles)) == 53
    assert "First page" in second

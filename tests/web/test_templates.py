"""Each template is given one documented context, draws all of it, and nothing that a browser would run."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from html.parser import HTMLParser
from typing import Any, get_args

import pytest
from jinja2 import StrictUndefined, nodes

from app.web import contexts
from app.web.render import HERE, environment

from . import sample
from .conftest import Site

CONTEXTS = get_args(contexts.PageContext)
SHARED = {"base.html"}
PLAIN = {"docs.html"}
"""Not a template of ours: handed out as it stands."""


class Watch(HTMLParser):
    """Collects what a strict content policy would refuse, ids, links and labels."""

    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.ids: list[str] = []
        self.hrefs: list[str] = []
        self.fors: list[str] = []
        self.controls: list[str] = []
        self.landmarks: list[str] = []
        self.open_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.inline += [f"<{tag} {name}>" for name in given if name == "style" or name.startswith("on")]
        if tag == "style":
            self.inline.append("<style>")
        self.open_script = tag == "script"
        if tag == "script" and not given.get("src", "").startswith("/static/"):
            self.inline.append("<script>")
        if "id" in given:
            self.ids.append(given["id"])
        self.hrefs += [given[name] for name in ("href", "src", "action") if name in given]
        if tag == "label":
            self.fors.append(given["for"])
        if tag in ("input", "select", "textarea") and given.get("type") != "hidden":
            self.controls.append(given["id"])
        if tag in ("main", "header", "footer", "nav", "aside"):
            self.landmarks.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open_script and data.strip():
            self.inline.append("script text")

    def handle_endtag(self, tag: str) -> None:
        self.open_script = False


def watched(html: str) -> Watch:
    """A page, watched."""
    watch = Watch()
    watch.feed(html)
    return watch


def test_every_page_template_has_one_context_and_the_reverse() -> None:
    pages = {path.name for path in (HERE / "templates").glob("*.html") if not path.name.startswith("_")}
    assert sorted(context.template for context in CONTEXTS) == sorted(pages - SHARED - PLAIN)


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_context_is_documented(context: type) -> None:
    assert is_dataclass(context)
    assert (context.__doc__ or "").strip()
    assert not (context.__doc__ or "").startswith(f"{context.__name__}(")


def used_by(name: str) -> set[str]:
    """Attributes of `page` that a template reads."""
    loader = environment().loader
    assert loader is not None
    source = loader.get_source(environment(), name)[0]
    tree = environment().parse(source)
    return {
        node.attr
        for node in tree.find_all(nodes.Getattr)
        if isinstance(node.node, nodes.Name) and node.node.name == "page"
    }


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_template_reads_what_its_context_has_and_all_of_it(context: Any) -> None:
    known = {field.name for field in fields(context)}
    assert used_by(context.template) <= known
    assert used_by(context.template) | used_by("base.html") >= known


def test_names_that_are_not_there_are_refused_and_text_is_escaped() -> None:
    assert environment().undefined is StrictUndefined
    assert environment().autoescape is True
    sources = "".join(path.read_text("utf-8") for path in (HERE / "templates").glob("*.html"))
    assert not re.findall(r"\|\s*safe\b|autoescape\s+false|Markup", sources)


def test_python_holds_no_markup() -> None:
    for path in HERE.glob("*.py"):
        assert not re.findall(r"</?(?:div|span|svg|td|tr|table|p|a|li)[ >]", path.read_text("utf-8")), (
            path.name
        )


PATHS = ("/", "/alerts", "/submit", "/cases/fast-kernel-claim", "/cases/empty-case", "/cases/nothing-here")


@pytest.mark.parametrize("path", PATHS)
def test_a_page_holds_nothing_inline_and_every_control_a_label(told_site: Site, path: str) -> None:
    answer = told_site.page(path)
    watch = watched(answer.text)
    assert watch.inline == []
    assert len(set(watch.ids)) == len(watch.ids)
    assert set(watch.controls) <= set(watch.fors)
    assert {"main", "header", "footer", "nav"} <= set(watch.landmarks)
    assert 'href="#main"' in answer.text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", PATHS)
def test_no_request_leaves_for_elsewhere(told_site: Site, path: str) -> None:
    text = told_site.page(path).text
    assert not re.findall(r'(?:src|data|poster)="(?!/static/)', text)
    assert not re.findall(r'<link[^>]+href="(?!/static/)', text)


@pytest.mark.parametrize("path", ["/cases/fast-kernel-claim", "/cases/empty-case", "/"])
def test_links_within_a_page_lead_somewhere(told_site: Site, path: str) -> None:
    watch = watched(told_site.page(path).text)
    inner = {href[1:] for href in watch.hrefs if href.startswith("#") and len(href) > 1}
    assert inner <= set(watch.ids)


def hostile_case() -> dict[str, Any]:
    """The sample case with every text hostile."""
    bad = sample.HOSTILE
    document = sample.case_document(
        title=f"{bad} title", summary=bad, why_it_matters=bad, tags=[bad], entities=[bad]
    )
    document["claim"] |= {"note": bad, "sentence": bad, "claimants": [bad]}
    document["claim"]["effects"][0] |= {"quote": bad, "treatment": bad, "source": "javascript:alert(1)"}
    document["grounding"] |= {"concepts": ["javascript:alert(1)", bad], "queries": [bad], "summary": bad}
    document["evidence"][0] |= {"title": f"{bad} item", "quote": bad, "summary": bad}
    document["evidence"][0]["arms"][0]["config"]["engine.name"] = bad
    document["history"] |= {"source": "javascript:alert(1)", "note": bad}
    document["history"]["trace"][0]["reason"] = bad
    document["history"]["interpretations"][0]["text"] = bad
    return document


def test_hostile_texts_stay_texts(bare: Site) -> None:
    bare.open(**hostile_case())
    for path in ("/", f"/cases/{sample.SLUG}", "/alerts", f"/cases/{sample.SLUG}?verb=%3Cscript%3E&origin=x"):
        text = bare.page(path).text
        assert "<script>alert" not in text
        assert "&lt;script&gt;" in text
        watch = watched(text)
        assert watch.inline == []
        assert not [href for href in watch.hrefs if re.match(r"\s*(javascript|data|vbscript):", href, re.I)]


def test_links_to_elsewhere_send_nothing_along(told_site: Site) -> None:
    text = told_site.page(f"/cases/{sample.SLUG}").text
    outer = re.findall(r'<a href="https?://[^>]*>', text)
    assert outer
    assert all('rel="noopener nofollow external"' in link for link in outer)

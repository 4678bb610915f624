"""The pages in real Chromium: search, filter, open, submit, see the decision; keys, dark, phone, print.

Skipped with a reason where there is no Chromium, unless ASSAY_REQUIRE_BROWSER=1 says that there must be one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

FILES = Path(__file__).parents[1] / "formats" / "files"
SLUG = "nvfp4-blockscaled-gemm-rtx-pro-6000"
ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

EXPECTED = (
    "Failed to load resource: the server responded with a status of 422 (Unprocessable Content)",
    "Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)",
)
"""What Chromium says of a form that is shown again with its mistakes."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Chromium of the system, or the one that playwright has."""
    installed = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=installed, args=list(ARGS))
        except PlaywrightError as error:
            if os.environ.get("ASSAY_REQUIRE_BROWSER") == "1":  # noqa: TID251 - a switch of the tests
                raise
            pytest.skip(f"no Chromium here: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


class Visitor:
    """A page that notes every complaint of the browser and every request that leaves the server."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.base = base
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._request(request.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and text not in EXPECTED:
            self.complaints.append(text)

    def _request(self, url: str) -> None:
        if not url.startswith(self.base):
            self.foreign.append(url)

    def go(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.page


@pytest.fixture
def visitor(chromium: Browser, live_server: str) -> Iterator[Visitor]:
    """A visitor in a browser of its own; fails on a console error, a refused script or a foreign request."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    found = Visitor(context, live_server)
    yield found
    context.close()
    assert found.complaints == []
    assert found.foreign == []


def stage_files(folder: Path, factor: float) -> tuple[Path, Path]:
    """A load generator's file, and the same with its tokens multiplied."""
    base = folder / "stage_6_baseline.json"
    base.write_bytes((FILES / "stage_6_lifecycle_metrics.json").read_bytes())
    document: dict[str, Any] = json.loads(base.read_bytes())
    for name in document["successes"]["throughput"]:
        document["successes"]["throughput"][name] *= factor
    treatment = folder / "stage_6_treatment.json"
    treatment.write_text(json.dumps(document))
    return base, treatment


def test_search_filter_and_open(visitor: Visitor) -> None:
    page = visitor.go("/")
    page.get_by_role("searchbox").fill("blockscaled")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile(r"[?&]q=blockscaled"))
    expect(page.locator("li.row")).to_have_count(1)
    page.get_by_label("State").select_option("active")
    page.get_by_role("searchbox").fill("zebra")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="No case fits")).to_be_visible()
    page.get_by_role("link", name="clear all").click()
    page.locator(f'a[href="/cases/{SLUG}"]').click()
    expect(page.locator("p.answer")).to_contain_text("Not shown end to end.")
    expect(page.get_by_role("heading", name="What would settle this")).to_be_visible()
    expect(page.get_by_text("canonical anchor").first).to_be_visible()


def test_submit_a_result_and_see_the_decision(visitor: Visitor, tmp_path: Path) -> None:
    base, treatment = stage_files(tmp_path, 1.3)
    page = visitor.go(f"/cases/{SLUG}")
    page.get_by_role("link", name="Submit a result on this case").click()
    expect(page.get_by_label("Case", exact=True)).to_have_value(SLUG)
    page.locator("#baseline_files").set_input_files(base)
    page.locator("#treatment_files").set_input_files(treatment)
    page.locator("#treatment_config").fill('{"gemm.kernel": "new"')
    page.get_by_role("button", name="Preview what it would change").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was stored")
    expect(page.get_by_role("alert")).to_be_focused()
    expect(page.locator("#treatment_config")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("stage_6_baseline.json")).to_be_visible()
    page.locator("#treatment_config").fill('{"gemm.kernel": "new"}')
    page.locator("#baseline_config").fill('{"gemm.kernel": "library"}')
    page.get_by_label("Publisher").fill("Bench Lab")
    page.get_by_role("button", name="Preview what it would change").click()
    expect(page.get_by_role("heading", name="What this result would change")).to_be_visible()
    expect(page.get_by_text("It does not qualify")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("output throughput"))).to_contain_text("1.30×")
    expect(page.get_by_text("achieved rate 0.64 of the requested").first).to_be_visible()
    page.get_by_role("button", name=f"Send it to {SLUG}").click()
    expect(page).to_have_url(re.compile(rf"/cases/{SLUG}\?recorded=(\d+)#evidence-\1$"))
    number = re.findall(r"recorded=(\d+)", page.url)[0]
    expect(page.get_by_role("status")).to_contain_text(f"Recorded as evidence {number}.")
    expect(page.locator(f"#evidence-{number}")).to_contain_text("Bench Lab")
    newest = page.locator("ol.trace > li:not(.old)")
    expect(newest.filter(has_text=f"Evidence {number}").first).to_be_visible()
    decided = newest.filter(has_text=re.compile("reprice|observe")).first
    decided.get_by_text("Facts it was decided on").click()
    expect(decided.locator("pre")).to_contain_text('"price"')


def test_alerts(visitor: Visitor) -> None:
    page = visitor.go("/alerts")
    expect(page.locator("li.alert").first).to_contain_text("what would raise it")
    page.get_by_label("Route").select_option("interrupt")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="No alert decision fits")).to_be_visible()


def test_everything_can_be_reached_by_keys(visitor: Visitor) -> None:
    page = visitor.go("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    order = []
    for _ in range(14):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
    wanted = ["Assay", "Cases", "Alerts", "Submit a result", "API", "q", "state", "verdict", "tag", "entity"]
    assert order[:10] == wanted
    assert order[10:13] == ["min_price", "sort", "Show"]
    page.locator("body").click(position={"x": 5, "y": 400})
    page.keyboard.press("j")
    expect(page.locator("li.row a").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/cases/"))
    page.keyboard.press("j")
    expect(page.locator("#evidence-1")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#evidence-2")).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("#evidence-1")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page).to_have_url(re.compile("/alerts$"))
    page.keyboard.press("/")
    expect(page).to_have_url(re.compile("/#q$"))
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("j?")
    expect(page.locator("#q")).to_have_value("j?")
    expect(page.locator("#keys")).to_be_hidden()


def test_the_list_of_keys_opens_and_closes(visitor: Visitor) -> None:
    page = visitor.go(f"/cases/{SLUG}")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    expect(page.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(page.locator("#keys")).to_be_visible()


def test_a_command_is_copied(chromium: Browser, live_server: str) -> None:
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{live_server}/cases/{SLUG}")
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"assay cases show {SLUG}"
    context.close()


def test_files_can_be_dropped(visitor: Visitor) -> None:
    page = visitor.go("/submit")
    for zone, box in (("baseline_files", "#baseline_files"), ("treatment_files", "#treatment_files")):
        page.evaluate(
            """zone => {
                const carried = new DataTransfer();
                carried.items.add(new File(["{}"], "dropped.json"));
                document.querySelector(`[data-drop=${zone}]`).dispatchEvent(
                    new DragEvent("drop", {dataTransfer: carried, bubbles: true, cancelable: true}));
            }""",
            zone,
        )
        assert page.evaluate("box => document.querySelector(box).files[0].name", box) == "dropped.json"


def test_pages_work_without_javascript(chromium: Browser, live_server: str, tmp_path: Path) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    base, treatment = stage_files(tmp_path, 1.2)
    page.goto(f"{live_server}/submit?case={SLUG}")
    page.locator("#baseline_files").set_input_files(base)
    page.locator("#treatment_files").set_input_files(treatment)
    page.get_by_role("button", name="Preview what it would change").click()
    expect(page.get_by_role("heading", name="What this result would change")).to_be_visible()
    page.get_by_role("button", name="Send it to").click()
    expect(page.get_by_role("status")).to_contain_text("Recorded as evidence")
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_no_page_is_wider_than_its_screen(
    chromium: Browser, live_server: str, tmp_path: Path, scheme: Any, width: int
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    for name, path in (
        ("list", "/"),
        ("alerts", "/alerts"),
        ("submit", "/submit"),
        ("case", f"/cases/{SLUG}"),
    ):
        page.goto(live_server + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 23, 26)"}[scheme]
        page.screenshot(path=tmp_path / f"{name}-{width}-{scheme}.png")
    context.close()


def test_the_forest_plot_keeps_its_lines_together(visitor: Visitor) -> None:
    page = visitor.go(f"/cases/{SLUG}")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        lines = page.locator(".forest tbody .rule-delta")
        places = {round(box["x"]) for box in (line.bounding_box() for line in lines.all()) if box}
        assert len(places) == 1
        assert lines.count() >= 2


def test_print_opens_what_is_folded(visitor: Visitor) -> None:
    page = visitor.go(f"/cases/{SLUG}")
    page.emulate_media(media="print")
    expect(page.locator("header.top")).to_be_hidden()
    expect(page.locator("#evidence-1 details table").first).to_be_visible()

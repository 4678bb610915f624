"""The documentation tells the truth about names, settings, numbers and files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.domain.metrics import METRICS
from app.domain.policy import Policy
from app.domain.vocabulary import FIELDS, Group
from app.formats.native import ResultIn
from app.settings import Settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("benchmarks/*.md")]
)


GROUPS = {
    Group.WORKLOAD: "Workload: both arms must agree",
    Group.SYSTEM: "System: only the claim's factor may differ",
    Group.OBSERVED: "Observed: read from logs, metrics or result files, not declared",
    Group.EVIDENCE: "Evidence: what makes a measurement worth believing",
}


def vocabulary_page() -> str:
    """docs/vocabulary.md as it must be. `python -m tests.test_docs` writes it."""
    lines = [
        "# Vocabulary",
        "",
        "Names that results may use. The same table is served at `/api/v1/vocabulary`. Unknown names are kept and",
        "reported; a difference in one counts as a difference of the system.",
        "",
        "## Metrics",
        "",
        "Values are given with a unit and converted by a units library; any multiple of the unit will do (`ms`,",
        "`TFLOP/s`, `tok/s`, `$/Mtok`). A metric of a distribution names its `statistic` (`mean`, `median`, `p99`).",
        "",
        "| name | unit | better | meaning |",
        "| --- | --- | --- | --- |",
        *(f"| `{m.name}` | {m.unit} | {m.direction} | {m.meaning} |" for m in METRICS.values()),
        "",
        "## Configuration names",
        "",
        'A flat map of dotted names to texts, numbers or booleans. `null` means "not stated".',
    ]
    for group, title in GROUPS.items():
        lines += ["", f"### {title}", "", "| name | meaning | also read from |", "| --- | --- | --- |"]
        for field in FIELDS.values():
            if field.group is group:
                also = ", ".join(f"`{spelling}`" for spelling in field.also)
                lines.append(f"| `{field.name}` | {field.meaning} | {also} |")
    return "\n".join(lines) + "\n"


def test_the_vocabulary_page_is_the_vocabulary() -> None:
    assert (DOCS / "vocabulary.md").read_text(encoding="utf-8") == vocabulary_page()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_each_setting_is_documented(name: str) -> None:
    assert f"| `ASSAY_{name.upper()}` |" in (DOCS / "operating.md").read_text(encoding="utf-8")


def test_the_method_page_states_the_policy_in_force() -> None:
    told, policy = (DOCS / "method.md").read_text(encoding="utf-8"), Policy()
    for words in (
        f"{policy.unknown_sd}² if unknown, {policy.unmet_sd}² if unmet",
        f"uniform on [{policy.share_low}, {policy.share_high}]",
        f"θ ~ N(0, {policy.theta_sd}²), τ ~ HalfNormal({policy.tau_scale:.2f})",
        f"supported at price ≥ {policy.supported_at:.2f}, refuted at ≤ {policy.refuted_at:.2f}",
        f"left again only past {policy.supported_until:.2f} and {policy.refuted_until:.2f}",
        f"moves the price by {policy.material_price_move} or more",
        f"a price move of {policy.digest_price_move:.2f} goes to the digest",
    ):
        assert words in told


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_example_result_is_one() -> None:
    ResultIn.model_validate(json.loads((ROOT / "examples/qualifying-result.json").read_bytes()))


if __name__ == "__main__":
    (DOCS / "vocabulary.md").write_text(vocabulary_page(), encoding="utf-8")

"""The seed case and the examples: whole, word for word, and judged as they should be."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.domain.assess import Assessment, assess, select, synthesize
from app.domain.case import Stance, State, Strength
from app.domain.claim import Claim, Level
from app.domain.evidence import Criterion, Evidence, EvidenceKind, Status
from app.domain.metrics import canonical
from app.domain.policy import Policy
from app.domain.verdict import Uncertainty, uncertainty_of
from app.domain.vocabulary import FIELDS, read_config
from app.formats.case_file import CaseFile
from app.formats.native import ResultIn
from app.formats.strict_json import strict_json
from app.formats.wire import read_document
from app.seed import seed_files
from app.services.build import build_result
from app.services.sources import build_claim, build_source

EXAMPLES = Path(__file__).parent.parent / "examples"
CONFIGS = sorted((EXAMPLES / "configs").glob("*.json"), key=lambda path: path.stem)
OPENED = datetime(2026, 8, 10, 19, 28, 12, tzinfo=UTC)
POLICY = Policy()


def seed() -> CaseFile:
    (file,) = seed_files()
    return read_document(CaseFile, strict_json(file.read_bytes()))


def example(name: str) -> Any:
    return strict_json((EXAMPLES / name).read_bytes())


def vllm_case() -> CaseFile:
    return read_document(CaseFile, example("vllm-quantization-throughput.json"))


def built(case: CaseFile) -> tuple[Evidence, ...]:
    """Its evidence at the moment at which the seed's case was opened; echoes take their root's publisher."""
    items: dict[str | None, Evidence] = {}
    for document in sorted(case.evidence, key=lambda item: item.kind == "echo"):
        echoed = items[str(document.echo_of)] if document.echo_of else None
        items[document.key] = build_source(
            document,
            now=OPENED,
            policy=POLICY,
            root=echoed.root if echoed else None,
            audits=None,
            inherited=echoed.publisher if echoed else None,
        )
    return tuple(items[document.key] for document in case.evidence)


def judged(case: CaseFile) -> tuple[tuple[Assessment, ...], Claim]:
    claim = build_claim(case.claim)
    evidence = built(case)
    return (
        tuple(assess(item, number, claim, (), POLICY) for number, item in enumerate(evidence, start=1)),
        claim,
    )


# --- the page, word for word -----------------------------------------------------------------------


def test_one_file_with_the_published_slug() -> None:
    assert [file.name for file in seed_files()] == ["nvfp4-blockscaled-gemm-rtx-pro-6000.json"]
    assert seed().slug == "nvfp4-blockscaled-gemm-rtx-pro-6000"


def test_head_of_the_page() -> None:
    case = seed()
    assert case.title == case.claim.sentence
    assert case.title == (
        "Independent benchmarks will determine whether the disclosed NVFP4 blockscaled GEMM optimizations "
        "materially improve low-precision throughput and serving economics on RTX Pro 6000 Blackwell GPUs."
    )
    assert case.tags == ["local-inference", "inference-economics", "low-precision-compute"]
    assert case.entities == ["Colfax International", "NVIDIA"]
    assert case.opened_at == OPENED


def test_long_texts_are_whole() -> None:
    """Digests of the page's two paragraphs, so that not one character of a quotation can change unseen."""
    case = seed()
    assert case.summary.startswith(
        "Colfax Research published a tutorial and benchmark for an optimized NVFP4"
    )
    assert case.summary.endswith("to establish the optimization’s effect on serving economics.")
    assert "but the snippets do not establish that these gains specifically result" in case.summary
    assert case.why_it_matters.startswith("The disclosure converges with Scott’s hardware-aware")
    assert case.why_it_matters.endswith("or deployment economics that would change his builds.")
    digests = [hashlib.sha256(text.encode()).hexdigest()[:16] for text in (case.summary, case.why_it_matters)]
    assert digests == ["41e7fa9dd0fa1030", "2518a9ad4b579102"]


def test_grounding() -> None:
    grounding = seed().grounding
    assert grounding is not None
    assert (grounding.stance, grounding.strength) == (Stance.CONVERGES, Strength.MEDIUM)
    assert grounding.summary == seed().why_it_matters
    assert grounding.concepts == [
        "ip:concept.capability-audit",
        "ip:concept.ai-unit-economics",
        "dev:concept.hardware-aware-local-inference",
        "radar:concept.quantization",
        "radar:concept.inference-efficiency",
        "radar:concept.inference-economics",
        "radar:vllm-h100-config-latency-gains",
        "radar:person.nvidia",
    ]
    assert grounding.queries == [
        "local inference hardware economics and GPU selection",
        "FP4 quantization quality-throughput tradeoffs",
        "end-to-end inference benchmarking methodology",
        "kernel optimization versus serving-level performance",
        "quantization overhead and pre-quantized model deployment",
        "Blackwell support in local inference stacks",
    ]


def test_state_of_the_page() -> None:
    history = seed().history
    assert history is not None
    assert (history.state, history.heat, history.uncertainty) == (State.EXPIRED, "low", "high")
    assert history.note is not None
    for fault in ("two time zones", "three times", "cut at 200", "never measured", "6 minutes 25 seconds"):
        assert fault in history.note


INTERPRETATIONS = (
    ("2026-08-10T19:28:12Z", "case created — The technical write-up presents a concrete hardware-specific"),
    ("2026-08-10T19:29:31Z", "origin walked (codex/luna, conf 0.98): anchor hn.story.49248291 -> echo.blog"),
    ("2026-08-10T19:32:05Z", "grounded: converges/medium — The disclosure converges with Scott’s"),
    (
        "2026-08-10T19:34:37Z",
        "No independent or end-to-end benchmark has appeared; the unchanged observation",
    ),
    ("2026-08-12T20:32:45Z", "No independent or end-to-end validation emerged within the active horizon"),
)


def test_interpretations() -> None:
    history = seed().history
    assert history is not None
    assert len(history.interpretations) == len(INTERPRETATIONS) == 5
    for entry, (at, words) in zip(history.interpretations, INTERPRETATIONS, strict=True):
        assert entry.at == datetime.fromisoformat(at)
        assert entry.text.startswith(words)


TRACE = (
    ("2026-08-10T19:28:00Z", "create", False, "The technical write-up presents a concrete"),
    ("2026-08-10T19:29:00Z", "promote_anchor", False, "origin walk conf 0.98"),
    ("2026-08-10T19:32:00Z", "ground", True, "The disclosure converges with Scott’s"),
    ("2026-08-10T19:32:00Z", "alert_route", True, "Colfax reports a concrete 29–40% kernel-level"),
    ("2026-08-10T19:32:00Z", "surface_candidate", True, "Colfax reports a concrete 29–40% kernel-level"),
    ("2026-08-10T19:32:00Z", "alert_silent", True, "Colfax reports a concrete 29–40% kernel-level"),
    ("2026-08-10T19:34:00Z", "alert_route", False, "There is no new consequential delta"),
    ("2026-08-10T19:34:00Z", "alert_silent", False, "There is no new consequential delta"),
    ("2026-08-10T19:34:00Z", "reprice", True, "No independent or end-to-end benchmark has appeared"),
    ("2026-08-12T20:32:00Z", "alert_route", False, "Nothing consequential changed: there is still"),
    ("2026-08-12T20:32:00Z", "alert_silent", False, "Nothing consequential changed: there is still"),
    ("2026-08-12T20:32:00Z", "expire", True, "No independent or end-to-end validation emerged"),
)
"""Oldest first, in UTC: the page had 08-11 05:28 to 08-13 06:32 at UTC+10."""


def test_trace() -> None:
    history = seed().history
    assert history is not None
    assert len(history.trace) == len(TRACE) == 12
    for entry, (at, verb, cut, words) in zip(history.trace, TRACE, strict=True):
        assert (entry.at, entry.verb, entry.cut) == (datetime.fromisoformat(at), verb, cut)
        assert entry.reason.startswith(words)


def test_history_is_word_for_word() -> None:
    history = seed().history
    assert history is not None
    texts = [entry.text for entry in history.interpretations] + [entry.reason for entry in history.trace]
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] == "0ba3052579fe556a"


def test_cut_reasons_have_the_length_at_which_the_page_cut() -> None:
    history = seed().history
    assert history is not None
    assert {len(entry.reason) for entry in history.trace if entry.cut} == {200}
    assert all(len(entry.reason) < 200 for entry in history.trace if not entry.cut)


# --- what we added, and how it is judged -----------------------------------------------------------


def test_claim_says_what_was_added() -> None:
    claim = build_claim(seed().claim)
    assert (claim.factor, claim.metric, claim.settles_at) == (
        ("gemm.kernel",),
        "output_throughput",
        Level.SERVING,
    )
    assert (claim.delta, claim.horizon.total_seconds()) == (0.10, 48 * 3600)
    assert claim.note is not None
    assert "names no metric, no threshold, no deadline" in claim.note


@pytest.mark.parametrize(
    ("index", "level", "unit", "low", "high", "words"),
    [
        (0, Level.KERNEL, "ratio", 1.29, 1.40, "29–40% kernel-level improvement"),
        (1, Level.KERNEL, "TFLOP/s", 1666, 1666, "up to 1666 TFLOP/s"),
        (2, Level.SERVING, "ratio", 1.9, 2.1, "roughly 1.9–2.1× NVFP4 throughput over BF16"),
        (3, Level.SERVING, "ratio", 1.32, 1.32, "1.32× FP4 throughput over FP8 in an Akamai test"),
    ],
)
def test_claimed_effects_quote_the_page(
    index: int, level: Level, unit: str, low: float, high: float, words: str
) -> None:
    case = seed()
    effect = build_claim(case.claim).effects[index]
    assert (effect.level, effect.unit, effect.low, effect.high) == (level, unit, low, high)
    assert effect.quote is not None
    assert words in effect.quote
    assert case.history is not None
    page = case.summary + " ".join(entry.reason for entry in case.history.trace)
    assert effect.quote in page
    assert effect.source is not None
    if unit != "ratio":
        assert canonical(effect.low, effect.unit, effect.metric) == pytest.approx(1.666e15)


def test_two_items_of_the_page_and_two_that_it_cites() -> None:
    case = seed()
    assert [(item.kind, item.level) for item in case.evidence] == [
        ("source", Level.KERNEL),
        ("echo", None),
        ("source", Level.SERVING),
        ("source", Level.SERVING),
    ]
    assert [item.canonical_anchor for item in case.evidence] == [True, False, False, False]
    article, story, *_ = built(case)
    assert story.kind is EvidenceKind.ECHO
    assert story.root == article.root
    assert story.publisher == article.publisher
    assert story.url == "https://news.ycombinator.com/item?id=49248291"


def test_disclosure_is_judged_as_one() -> None:
    assessments, _ = judged(seed())
    article = assessments[0]
    assert {row.criterion: row.status for row in article.criteria} == {
        Criterion.INDEPENDENT: Status.UNMET,
        Criterion.END_TO_END: Status.UNMET,
        Criterion.WORKLOAD_MATCHED: Status.UNKNOWN,
        Criterion.FACTOR_ISOLATED: Status.UNKNOWN,
        Criterion.QUALITY_RETAINED: Status.UNKNOWN,
        Criterion.QUANTIZATION_COUNTED: Status.UNMET,
        Criterion.MEASURED_SOUNDLY: Status.UNKNOWN,
        Criterion.REPRODUCIBLE: Status.UNKNOWN,
    }
    assert article.pooled
    assert article.contrasts[0].measured_y == pytest.approx(0.296, abs=0.001)
    assert article.contrasts[0].y < article.contrasts[0].measured_y


@pytest.mark.parametrize("number", [3, 4])
def test_format_results_are_shown_and_never_pooled(number: int) -> None:
    assessments, _ = judged(seed())
    item = assessments[number - 1]
    assert item.status(Criterion.FACTOR_ISOLATED) is Status.UNMET
    assert item.status(Criterion.INDEPENDENT) is Status.MET
    assert item.status(Criterion.END_TO_END) is Status.MET
    assert item.status(Criterion.REPRODUCIBLE) is not Status.MET
    assert "weights.format" in item.contrasts[0].reason
    assert not item.pooled
    assert not item.qualifying


def test_price_near_one_half_and_high_uncertainty() -> None:
    assessments, claim = judged(seed())
    belief = synthesize(assessments, claim, POLICY)
    assert 0.45 < belief.price < 0.65
    assert uncertainty_of(belief, claim.delta) is Uncertainty.HIGH
    assert [item.number for item in select(assessments)] == [1]
    alone = synthesize(assessments[:1], claim, POLICY)
    assert belief == alone
    assert not any(item.qualifying for item in assessments), "so its verdict stays open"


# --- the examples ----------------------------------------------------------------------------------


def test_example_case() -> None:
    case = vllm_case()
    assert case.slug == "vllm-quantization-throughput"
    assert case.history is None
    claim = build_claim(case.claim)
    assert (claim.factor, claim.metric, claim.delta) == (("weights.format",), "output_throughput", 0.10)
    assert claim.note is not None
    assert "7de5ef2ed6f7934e0ecbc8297e593f79e68430c0" in claim.note
    assert "Apache-2.0" in claim.note
    assessments, _ = judged(case)
    assert not any(item.pooled for item in assessments)


def test_example_configs_are_there() -> None:
    assert [path.stem for path in CONFIGS] == [
        "vllm",
        "vllm-chunking-and-prefix-caching",
        "vllm-quantization",
    ]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_example_configs_keep_to_the_vocabulary_and_to_what_was_declared(path: Path) -> None:
    config = strict_json(path.read_bytes())
    read = read_config(config)
    assert read.unknown == ()
    assert dict(read.renamed) == {}
    assert set(config) <= set(FIELDS)
    assert not [name for name in config if name.startswith(("effective.", "observed."))]
    for name, value in vllm_case().claim.workload.items():
        assert config[name] == value


@pytest.mark.parametrize(
    ("baseline", "differing"),
    [
        ("vllm", {"weights.format", "engine.prefix_caching", "engine.chunked_prefill"}),
        ("vllm-chunking-and-prefix-caching", {"weights.format"}),
    ],
)
def test_example_configs_differ_where_the_demo_does(baseline: str, differing: set[str]) -> None:
    one, other = example(f"configs/{baseline}.json"), example("configs/vllm-quantization.json")
    assert set(one) == set(other)
    assert {name for name in one if one[name] != other[name]} == differing


def test_example_result_meets_every_criterion() -> None:
    document = read_document(ResultIn, example("qualifying-result.json"))
    claim = build_claim(vllm_case().claim)
    evidence = build_result(document, claim, now=OPENED, policy=POLICY).evidence
    item = assess(evidence, 1, claim, (), POLICY)
    assert [row.reason for row in item.criteria if row.status is not Status.MET] == []
    assert item.qualifying
    throughput = next(c for c in evidence.contrasts if c.metric == claim.metric)
    assert (throughput.runs, throughput.se_imputed) == (5, False)
    assert throughput.ratio == pytest.approx(1.15, abs=0.005)
    assert [len(arm.attachments) for arm in evidence.arms] == [5, 5]


def test_example_result_cannot_be_taken_for_a_measurement() -> None:
    document = read_document(ResultIn, example("qualifying-result.json"))
    assert document.title is not None
    assert document.title.startswith("EXAMPLE, NOT A MEASUREMENT")
    assert document.note is not None
    assert document.note.startswith("Example, not a measurement")
    claim = build_claim(vllm_case().claim)
    evidence = build_result(document, claim, now=OPENED, policy=POLICY).evidence
    item = assess(evidence, 1, claim, (), POLICY)
    belief = synthesize((item,), claim, POLICY)
    settled = belief.price >= POLICY.supported_at or belief.price <= POLICY.refuted_at
    assert not settled, "made-up figures must not settle a claim"


def test_shipped_json_is_readable_as_text() -> None:
    """Two spaces, characters as they are, a line break at the end: differences stay small and legible."""
    for path in (*EXAMPLES.glob("*.json"), *CONFIGS):
        text = path.read_text(encoding="utf-8")
        assert text == json.dumps(json.loads(text), ensure_ascii=False, indent=2) + "\n"
    (file,) = seed_files()
    text = file.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), ensure_ascii=False, indent=2) + "\n"

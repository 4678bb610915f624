"""Small builders of claims, arms, evidence and cases. `result()` meets all eight criteria at serving
level."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from app.domain.assess import Assessment, assess
from app.domain.case import Case, CaseOpened, EvidenceRecorded, Outcome
from app.domain.claim import Claim, Level, Scalar
from app.domain.contrast import Arm, Attachment, Metric, Role, RunFacts, contrasts_of, reported_contrast
from app.domain.criteria import CriterionResult, assess_criteria
from app.domain.decide import decide
from app.domain.evidence import Criterion, Evidence, EvidenceKind, Finding, Publisher, Status
from app.domain.policy import Policy
from app.domain.validity import judge_runs

POLICY = Policy()
OPENED = datetime(2026, 8, 10, 19, 28, 12, tzinfo=UTC)
"""When the seed's case was created."""

CLAIM = Claim(
    sentence="NVFP4 weights raise output throughput by at least 10 %.",
    factor=("weights.format",),
    metric="output_throughput",
    claimants=("Colfax Research", "NVIDIA"),
)
KERNEL_CLAIM = replace(
    CLAIM, sentence="Colfax's kernel raises output throughput by at least 10 %.", factor=("gemm.kernel",)
)

SERVING: dict[str, Scalar] = {
    "model.name": "Qwen/Qwen3-32B",
    "hardware.gpu": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "hardware.gpu_count": 1,
    "engine.name": "vllm",
    "engine.version": "0.12.0",
    "load.arrival": "poisson",
    "load.rate": 4.0,
    "load.input_length": 1024,
    "load.output_length": 256,
    "observed.input_length": 1020.0,
    "observed.output_length": 256.0,
    "sampling.temperature": 0,
    "quantization.activations": "in_time",
    "quality.task": "gsm8k",
}
BASELINE: dict[str, Scalar] = {
    **SERVING,
    "weights.format": "bf16",
    "effective.weights_format": "bf16",
    "quantization.weights": "none",
}
TREATMENT: dict[str, Scalar] = {
    **SERVING,
    "weights.format": "nvfp4",
    "effective.weights_format": "nvfp4",
    "quantization.weights": "in_time",
}
KERNEL: dict[str, Scalar] = {
    "hardware.gpu": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "gemm.m": 4096,
    "gemm.n": 4096,
    "gemm.k": 4096,
    "engine.version": "4.3.0",
    "weights.format": "nvfp4",
    "quantization.weights": "in_time",
    "quantization.activations": "in_time",
    "check.reference": "float64 on the CPU",
    "check.max_rel_error": 0.002,
    "check.finite": True,
    "inputs.distribution": "normal",
    "cache.state": "rotated",
    "warmup.excluded": True,
    "clocks.recorded": True,
    "power.recorded": True,
    "baseline.tuned": True,
}
SOUND_RUN = RunFacts(
    source="run.json",
    requests=6000,
    failures=0,
    duration_s=61.0,
    requested_rate=100.0,
    achieved_rate=99.5,
    output_len_min=256.0,
    output_len_max=256.0,
    max_tokens=256.0,
)
SPREAD = (0.98, 1.0, 1.02)
"""Three repeats with mean 1 and a standard error of 0.02/√3."""


def metric(name: str, *values: float, unit: str = "token/s", statistic: str | None = None) -> Metric:
    return Metric(name=name, unit=unit, values=values, statistic=statistic)


def attachment(text: str) -> Attachment:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Attachment(name=f"{text}.json", format="inference-perf", sha256=digest, size=100)


def arm(
    role: Role,
    metrics: Sequence[Metric],
    config: Mapping[str, Scalar] | None = None,
    *,
    run: RunFacts | None = SOUND_RUN,
    label: str = "run",
    **changes: Any,
) -> Arm:
    own = BASELINE if role is Role.BASELINE else TREATMENT
    made = Arm(
        role=role,
        config=own if config is None else config,
        metrics=tuple(metrics),
        runs=(run,) if run else (),
        attachments=(attachment(f"{label}-{role}"),),
    )
    return replace(made, **changes)


def merged(base: Mapping[str, Scalar], change: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """A configuration with some fields changed; `None` takes a field out."""
    return {name: value for name, value in {**base, **change}.items() if value is not None}


def throughput(level: float, spread: Sequence[float] = SPREAD) -> Metric:
    return metric("output_throughput", *(level * s for s in spread))


def accuracy(*values: float, statistic: str | None = None) -> Metric:
    return metric("accuracy", *values, unit="1", statistic=statistic)


def result(
    ratio: float = 1.3,
    *,
    name: str = "a",
    both: Mapping[str, Scalar] | None = None,
    baseline: Mapping[str, Scalar] | None = None,
    treatment: Mapping[str, Scalar] | None = None,
    base_metrics: Sequence[Metric] | None = None,
    treat_metrics: Sequence[Metric] | None = None,
    base_run: RunFacts | None = SOUND_RUN,
    treat_run: RunFacts | None = SOUND_RUN,
    spread: Sequence[float] = SPREAD,
    level: Level = Level.SERVING,
    **changes: Any,
) -> Evidence:
    """A result that meets all eight criteria, but for what is changed. `name` is its root."""
    bottom = arm(
        Role.BASELINE,
        base_metrics or (throughput(1000.0, spread), accuracy(0.80)),
        merged(BASELINE, {**(both or {}), **(baseline or {})}),
        run=base_run,
        label=name,
    )
    top = arm(
        Role.TREATMENT,
        treat_metrics or (throughput(1000.0 * ratio, spread), accuracy(0.795)),
        merged(TREATMENT, {**(both or {}), **(treatment or {})}),
        run=treat_run,
        label=name,
    )
    made = Evidence(
        ref=f"{name}-{ratio}",
        kind=EvidenceKind.RESULT,
        root=name,
        title=f"result {name}",
        publisher=Publisher(name="Independent Lab"),
        occurred_at=OPENED + timedelta(hours=1),
        level=level,
        arms=(bottom, top),
        contrasts=contrasts_of(bottom, top, level, POLICY),
        validity=(judge_runs(bottom, POLICY), judge_runs(top, POLICY)),
        command="vllm serve …; inference-perf --config …",
    )
    return replace(made, **changes)


def kernel_result(
    ratio: float = 1.3,
    *,
    name: str = "k",
    both: Mapping[str, Scalar] | None = None,
    base_metrics: Sequence[Metric] | None = None,
    treat_metrics: Sequence[Metric] | None = None,
    **changes: Any,
) -> Evidence:
    """A sound kernel measurement of one kernel against another."""
    config = merged(KERNEL, both or {})
    flops = [1e15 * s for s in SPREAD]
    kernels = {"gemm.kernel": "cublas", "effective.gemm_kernel": "cublas"}
    other = {"gemm.kernel": "colfax", "effective.gemm_kernel": "colfax"}
    bottom = arm(
        Role.BASELINE,
        base_metrics or (metric("gemm_throughput", *flops, unit="FLOP/s"),),
        merged(config, kernels),
        run=None,
        label=name,
    )
    top = arm(
        Role.TREATMENT,
        treat_metrics or (metric("gemm_throughput", *(f * ratio for f in flops), unit="FLOP/s"),),
        merged(config, other),
        run=None,
        label=name,
    )
    made = Evidence(
        ref=f"{name}-{ratio}",
        kind=EvidenceKind.RESULT,
        root=name,
        title=f"kernel {name}",
        publisher=Publisher(name="Independent Lab"),
        occurred_at=OPENED + timedelta(hours=1),
        level=Level.KERNEL,
        arms=(bottom, top),
        contrasts=contrasts_of(bottom, top, Level.KERNEL, POLICY),
        validity=(judge_runs(bottom, POLICY), judge_runs(top, POLICY)),
        command="python bench.py",
    )
    return replace(made, **changes)


def disclosure(**changes: Any) -> Evidence:
    """The seed's disclosure: a kernel, +29 to 40 %, by the claimant, quantization left out, quality not
    told."""
    made = Evidence(
        ref="disclosure",
        kind=EvidenceKind.SOURCE,
        root="https://research.colfax-intl.com/nvfp4",
        title="NVFP4 block-scaled GEMM",
        publisher=Publisher(name="Colfax Research"),
        occurred_at=OPENED - timedelta(days=1),
        level=Level.KERNEL,
        arms=(
            Arm(role=Role.BASELINE, config={"gemm.kernel": "cuBLAS"}),
            Arm(
                role=Role.TREATMENT,
                config={
                    "gemm.kernel": "Colfax",
                    "quantization.weights": "excluded",
                    "quantization.activations": "excluded",
                },
            ),
        ),
        contrasts=(
            reported_contrast(
                metric="gemm_throughput", low=1.29, high=1.40, level=Level.KERNEL, policy=POLICY
            ),
        ),
    )
    return replace(made, **changes)


def audit(of: str, *findings: Finding, **changes: Any) -> Evidence:
    made = Evidence(
        ref=f"audit of {of}",
        kind=EvidenceKind.AUDIT,
        root=f"audit of {of}",
        title=f"audit of {of}",
        publisher=Publisher(name="Somebody who read it"),
        occurred_at=OPENED + timedelta(hours=2),
        findings=findings,
        audits=of,
    )
    return replace(made, **changes)


def finding(criterion: Criterion, status: Status, reason: str = "read in the harness") -> Finding:
    return Finding(criterion=criterion, status=status, reason=reason, lines=("bench.py:12",))


def rows(evidence: Evidence, claim: Claim = CLAIM) -> dict[Criterion, CriterionResult]:
    return {row.criterion: row for row in assess_criteria(evidence, claim, POLICY)}


def row(evidence: Evidence, criterion: Criterion, claim: Claim = CLAIM) -> CriterionResult:
    return rows(evidence, claim)[criterion]


def judged(
    evidence: Evidence, number: int = 1, claim: Claim = CLAIM, findings: Sequence[Finding] = ()
) -> Assessment:
    return assess(evidence, number, claim, findings, POLICY)


def opened(*evidence: Evidence, claim: Claim = CLAIM, at: datetime = OPENED, **changes: Any) -> Outcome:
    return decide(
        None,
        CaseOpened(at=at, slug="a-case", claim=claim, evidence=evidence, **{"opened_at": at, **changes}),
        POLICY,
    )


def record(
    case: Case, evidence: Evidence, *, at: datetime | None = None, number: int | None = None, **more: Any
) -> Outcome:
    """Evidence comes in an hour after the case opened, or at `at`; numbered after what is there."""
    next_number = 1 + max((item.number for item in case.assessments), default=0)
    event = EvidenceRecorded(
        at=at or OPENED + timedelta(hours=1), number=number or next_number, evidence=evidence, **more
    )
    return decide(case, event, POLICY)

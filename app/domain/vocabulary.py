"""The published vocabulary of configuration names: what an arm may say about itself.

Names are dotted. Unknown names are kept and reported, never dropped. Each known name belongs to a group,
which says by which criterion a difference is judged: workload fields must match, system fields must match
unless they are the claim's factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.claim import Level, Scalar
from app.domain.errors import Refused
from app.domain.scalars import same, stated


class Group(StrEnum):
    """Which criterion judges a difference in a field."""

    WORKLOAD = "workload"
    SYSTEM = "system"
    OBSERVED = "observed"
    EVIDENCE = "evidence"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigField:
    """One name of the vocabulary. `also` lists spellings that engines and tools use for the same field."""

    name: str
    group: Group
    meaning: str
    also: tuple[str, ...] = ()


def _field(name: str, group: str, meaning: str, *also: str) -> ConfigField:
    return ConfigField(name=name, group=Group(group), meaning=meaning, also=also)


FIELDS: Final = {
    field.name: field
    for field in (
        # What is asked of the system
        _field(
            "model.name", "workload", "Model as published, such as Qwen/Qwen3-32B.", "model", "model_served"
        ),
        _field("model.revision", "workload", "Revision or hash of the weights' repository."),
        _field("model.tokenizer", "workload", "Tokenizer, where it is not the model's own."),
        _field(
            "load.dataset", "workload", "Prompts: data set with revision, or how they were made.", "dataset"
        ),
        _field("load.seed", "workload", "Seed of prompts and arrivals."),
        _field("load.arrival", "workload", "Arrival process: closed, constant, poisson, gamma, trace."),
        _field("load.rate", "workload", "Requested arrival rate, requests a second (open loop)."),
        _field("load.concurrency", "workload", "Requests in flight (closed loop).", "concurrency"),
        _field("load.burstiness", "workload", "Shape of gamma arrivals."),
        _field("load.input_length", "workload", "Requested input tokens: a number or a stated distribution."),
        _field(
            "load.output_length", "workload", "Requested output tokens: a number or a stated distribution."
        ),
        _field("load.ignore_eos", "workload", "Whether generation goes on past the end token.", "ignore_eos"),
        _field("load.requests", "workload", "Requests sent."),
        _field("load.api", "workload", "API used: completion or chat.", "api"),
        _field("load.streaming", "workload", "Whether answers are streamed.", "streaming"),
        _field("load.client", "workload", "Load generator with version.", "client"),
        _field("sampling.temperature", "workload", "Sampling temperature."),
        _field("sampling.top_p", "workload", "Nucleus sampling threshold."),
        _field("gemm.m", "workload", "Rows of the activations."),
        _field("gemm.n", "workload", "Output features."),
        _field("gemm.k", "workload", "Inner dimension."),
        _field("hardware.gpu", "workload", "GPU as its maker names it.", "hardware", "gpu"),
        _field("hardware.gpu_count", "workload", "GPUs used.", "gpu_count"),
        _field("hardware.power_limit_w", "workload", "Power limit of each GPU, W."),
        _field("hardware.driver", "workload", "Driver version."),
        _field("engine.name", "workload", "Serving engine or library.", "server"),
        _field("engine.version", "workload", "Its version.", "server_version"),
        _field("engine.image", "workload", "Container image digest."),
        # How the system is set up: the factor is one of these
        _field("gemm.kernel", "system", "Matrix multiplication kernel asked for."),
        _field(
            "weights.format",
            "system",
            "Format of the weights: bf16, fp8, nvfp4, bitsandbytes, …",
            "quantization",
        ),
        _field("weights.recipe", "system", "How the checkpoint was quantized."),
        _field("activations.format", "system", "Format of the activations."),
        _field("kv.format", "system", "Format of the key-value cache.", "kv_cache_dtype"),
        _field("scale.block", "system", "Elements that share one scale."),
        _field("engine.max_num_seqs", "system", "Most sequences in a batch.", "max_num_seqs"),
        _field("engine.max_num_batched_tokens", "system", "Most tokens in a step.", "max_num_batched_tokens"),
        _field("engine.max_model_len", "system", "Longest sequence.", "max_model_len"),
        _field(
            "engine.prefix_caching",
            "system",
            "Whether prefixes are cached.",
            "prefix_caching",
            "enable_prefix_caching",
        ),
        _field(
            "engine.chunked_prefill",
            "system",
            "Whether prefill is chunked.",
            "chunked_prefill",
            "enable_chunked_prefill",
        ),
        _field("engine.cuda_graphs", "system", "Whether steps are replayed as CUDA graphs."),
        _field("engine.attention_backend", "system", "Attention implementation."),
        _field(
            "engine.gpu_memory_utilization",
            "system",
            "Share of GPU memory given to the engine.",
            "gpu_memory_utilization",
        ),
        _field("engine.tensor_parallel", "system", "Tensor-parallel degree.", "tensor_parallel_size"),
        _field("engine.pipeline_parallel", "system", "Pipeline-parallel degree.", "pipeline_parallel_size"),
        _field("engine.replicas", "system", "Engine replicas behind the endpoint."),
        _field("engine.speculative", "system", "Speculative decoding, with its draft.", "speculative"),
        # What was seen to be in force, read from a log or from metrics
        _field(
            "effective.weights_format",
            "observed",
            "Format of the weights in force, read from the engine's log or metrics.",
        ),
        _field(
            "effective.activations_format", "observed", "Format of the activations in force, read likewise."
        ),
        _field("effective.kv_format", "observed", "Format of the key-value cache in force, read likewise."),
        _field("effective.gemm_kernel", "observed", "Kernel that ran, read from a log or a profile."),
        _field("observed.input_length", "observed", "Mean input tokens of the requests."),
        _field("observed.output_length", "observed", "Mean output tokens of the answers."),
        _field("observed.prefix_hit_rate", "observed", "Share of prompt tokens found in the prefix cache."),
        # What makes a measurement worth believing
        _field(
            "quantization.weights",
            "evidence",
            "Where the cost of quantizing weights is: none, in_time, ahead_of_time, excluded.",
        ),
        _field(
            "quantization.activations",
            "evidence",
            "Where the cost of quantizing activations is: none, in_time, excluded.",
        ),
        _field("quality.task", "evidence", "Task or text on which quality was measured."),
        _field("quality.items", "evidence", "Items that quality was measured on."),
        _field(
            "check.reference",
            "evidence",
            "Independent reference that outputs were compared with in the same run.",
        ),
        _field("check.max_rel_error", "evidence", "Largest relative error found by that check."),
        _field("check.finite", "evidence", "Whether all outputs were finite."),
        _field(
            "inputs.distribution",
            "evidence",
            "Where the operands came from: model, normal, uniform, zeros, constant, few_codes.",
        ),
        _field("cache.state", "evidence", "Caches before each sample: cold, rotated or warm."),
        _field("warmup.excluded", "evidence", "Whether warm-up was left out of the samples."),
        _field("clocks.recorded", "evidence", "Whether clocks were recorded."),
        _field("power.recorded", "evidence", "Whether power was recorded."),
        _field("baseline.tuned", "evidence", "Whether the baseline was at its best."),
    )
}

ALSO: Final = {spelling: field.name for field in FIELDS.values() for spelling in field.also}

EFFECTIVE: Final = {
    "weights.format": "effective.weights_format",
    "activations.format": "effective.activations_format",
    "kv.format": "effective.kv_format",
    "gemm.kernel": "effective.gemm_kernel",
}
"""Fields that an engine can silently replace, and where the value in force is recorded."""

REQUIRED: Final[Mapping[Level, tuple[str, ...]]] = {
    Level.DISCLOSURE: ("hardware.gpu",),
    Level.KERNEL: ("hardware.gpu", "gemm.m", "gemm.n", "gemm.k"),
    Level.MODEL: ("model.name", "hardware.gpu", "hardware.gpu_count", "engine.name", "engine.version"),
}
"""Fields that both arms must state before their workloads can be called equal, by level."""

SERVING_REQUIRED: Final = (
    "model.name",
    "hardware.gpu",
    "hardware.gpu_count",
    "engine.name",
    "engine.version",
    "load.arrival",
    "load.input_length",
    "load.output_length",
)


def required_fields(level: Level) -> tuple[str, ...]:
    """Fields that both arms must state at a level."""
    return REQUIRED.get(level, SERVING_REQUIRED)


def group_of(name: str) -> Group:
    """The group of a name; unknown names count as system fields, so that a difference in one is never
    overlooked."""
    field = FIELDS.get(name)
    return field.group if field else Group.SYSTEM


def _own_name(name: str) -> str:
    plain = name.casefold().replace("-", "_")
    found = ALSO.get(name) or ALSO.get(plain) or (plain if plain in FIELDS else name)
    return name if name in FIELDS else found


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """A configuration in the vocabulary's names, with what was renamed and what is unknown."""

    config: Mapping[str, Scalar]
    renamed: Mapping[str, str]
    unknown: tuple[str, ...]


def read_config(raw: Mapping[str, Scalar]) -> ReadConfig:
    """Bring a flat map to the vocabulary's names, whatever their case and hyphens.

    Raises:
        Refused: one field is given in two spellings that contradict each other.
    """
    config: dict[str, Scalar] = {}
    renamed: dict[str, str] = {}
    for name, value in sorted(raw.items(), key=lambda item: (item[0] in FIELDS, item[0])):
        own = _own_name(name)
        if own != name:
            renamed[name] = own
        told = config.get(own)
        if stated(told) is not None and stated(value) is not None and not same(told, value):
            raise Refused(
                f"{own} is given twice, as {told} and as {value}.",
                field=f"config.{name}",
                value=value,
                remedy="Give it once; these names mean the same.",
                code="said-twice",
            )
        # The vocabulary's own spelling comes last and stands.
        if stated(value) is not None or own not in config:
            config[own] = value
    unknown = tuple(sorted(name for name in config if name not in FIELDS))
    return ReadConfig(config=dict(sorted(config.items())), renamed=renamed, unknown=unknown)

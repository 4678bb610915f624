"""What a result file becomes, and what a format must be able to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.domain.claim import Scalar
from app.domain.contrast import Metric, RunFacts
from app.formats.strict_json import strict_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """One result file, read.

    Attributes:
        format: name of the format.
        tool: load generator or benchmark that wrote it.
        tool_version: its version, `None` where the file does not say.
        config: vocabulary names that the file itself tells.
        metrics: one value each; a replicate is another file.
        run: what is needed to judge the run's validity.
        notes: what was left out or looks odd, in plain sentences.
    """

    format: str
    tool: str
    tool_version: str | None = None
    config: Mapping[str, Scalar] = field(default_factory=dict)
    metrics: tuple[Metric, ...] = ()
    run: RunFacts | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Source:
    """A file as it came. The JSON in it is read once, whoever asks."""

    data: bytes
    name: str
    _document: Any = None

    def document(self) -> Any:
        """Its JSON document.

        Raises:
            Refused: it is not JSON, or not JSON that we take.
        """
        if self._document is None:
            self._document = strict_json(self.data)
        return self._document


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """How much a file looks like a format: `found` of `wanted` marks, and the first that is missing."""

    found: int
    wanted: int
    why: str
    missing: str | None = None

    @property
    def complete(self) -> bool:
        """Whether every mark is there."""
        return self.missing is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format: how it is recognised, and how it is read."""

    name: str
    liken: Callable[[Source], Likeness]
    read: Callable[[Source], Parsed]

    def __call__(self, data: bytes, *, name: str) -> Parsed:
        """Read a file known to be of this format."""
        return self.read(Source(data, name))

"""The histories of a case: prices with the decisions that moved them, the decision trace, interpretations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from app.domain.case import Verb
from app.domain.policy import Policy
from app.store.records import DecisionRecord, InterpretationRecord, PricePoint
from app.web.charts import BOTTOM, Stroke, Tick, TimeAxis, price_y, steps, time_axis
from app.web.times import Dial, Moment
from app.web.words import VERBS, words

PINNED: Final = frozenset((Verb.CREATE, Verb.REPRICE, Verb.EXPIRE, Verb.REVIVE, Verb.CORRECT, Verb.MERGE))
"""Decisions that can move a price or a state."""

APART: Final = 2.2
"""Pins nearer than this, per cent of the width, become one."""

LABEL_APART: Final = 16.0
"""A pin is labelled only this far from the label before it, per cent of the width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One or more decisions at one place of the price chart. `number` is the latest of them.

    `label` is empty where there is no room; `anchor` says on which side of the place it stands.
    """

    at: float
    y: float
    number: int
    count: int
    title: str
    label: str
    anchor: str
    imported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """A line of the table beside the price chart."""

    at: Moment
    price: str
    move: str
    verb: str
    decision: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChart:
    """The price over time. `strokes` is empty while there is no price."""

    strokes: tuple[Stroke, ...]
    pins: tuple[Pin, ...]
    ticks: tuple[Tick, ...]
    supported_y: float
    refuted_y: float
    end_x: float
    end_y: float
    floor_y: float
    rows: tuple[PriceRow, ...]
    words: str


def price_chart(
    points: Sequence[PricePoint], decisions: Sequence[DecisionRecord], dial: Dial, policy: Policy
) -> PriceChart | None:
    """The price chart; `None` while the case has no price."""
    pinned = [item for item in reversed(decisions) if item.verb in PINNED]
    axis = time_axis([*(point.at for point in points), *(item.at for item in pinned), dial.now])
    if axis is None or not points:
        return None
    last = points[-1]
    return PriceChart(
        strokes=steps(axis, [(point.at, point.price) for point in points], dial.now),
        pins=_pins(pinned, points, axis, dial),
        ticks=_ticks(axis, dial),
        supported_y=price_y(policy.supported_at),
        refuted_y=price_y(policy.refuted_at),
        end_x=axis.place(dial.now),
        end_y=price_y(last.price),
        floor_y=BOTTOM,
        rows=_price_rows(points, decisions, dial),
        words=f"Price from {points[0].price:.2f} to {last.price:.2f} over {len(points)} judgements.",
    )


def _ticks(axis: TimeAxis, dial: Dial) -> tuple[Tick, ...]:
    """A few times; with the hour where days alone would repeat."""
    hourly = (axis.end - axis.start).total_seconds() < 4 * 86400
    found: list[Tick] = []
    for moment in axis.moments(3 if hourly else 4):
        shown = dial.show(moment)
        day = " ".join(shown.day.split()[:2])
        label = f"{day} {shown.minute.split(', ')[1]}" if hourly else day
        found.append(Tick(at=axis.place(moment), label=label))
    return tuple(found)


def _pins(
    pinned: Sequence[DecisionRecord], points: Sequence[PricePoint], axis: TimeAxis, dial: Dial
) -> tuple[Pin, ...]:
    groups: list[list[DecisionRecord]] = []
    for item in pinned:
        place = axis.place(item.at)
        near = groups and place - axis.place(groups[-1][0].at) < APART
        if near and groups[-1][0].imported is item.imported:
            groups[-1].append(item)
            continue
        groups.append([item])
    pins: list[Pin] = []
    labelled = -LABEL_APART
    for group in groups:
        place = axis.place(group[0].at)
        room = place - labelled >= LABEL_APART
        if room:
            labelled = place
        pins.append(_pin(group, place, points, dial, labelled=room))
    return tuple(pins)


def _pin(
    group: Sequence[DecisionRecord], place: float, points: Sequence[PricePoint], dial: Dial, *, labelled: bool
) -> Pin:
    last = group[-1]
    verbs = list(dict.fromkeys(str(item.verb) for item in group))
    told = " + ".join(words(verb) for verb in verbs)
    imported = ", imported" if last.imported else ""
    return Pin(
        at=place,
        y=BOTTOM if last.imported else price_y(_price_at(points, last.at)),
        number=last.number,
        count=len(group),
        title=f"{told}{imported}, {dial.show(last.at).exact}",
        label=(told if len(verbs) < 4 else f"{len(group)} decisions") if labelled else "",
        anchor="start" if place < 75 else "end",
        imported=last.imported,
    )


def _price_at(points: Sequence[PricePoint], at: datetime) -> float:
    price = points[0].price
    for point in points:
        if point.at <= at:
            price = point.price
    return price


def _price_rows(
    points: Sequence[PricePoint], decisions: Sequence[DecisionRecord], dial: Dial
) -> tuple[PriceRow, ...]:
    by_event = {(item.at, item.verb): item.number for item in decisions if not item.imported}
    rows = []
    for index, point in enumerate(points):
        move = point.price - points[index - 1].price if index else None
        rows.append(
            PriceRow(
                at=dial.show(point.at),
                price=f"{point.price:.2f}",
                move="" if move is None else f"{move:+.2f}",
                verb=words(str(point.verb)),
                decision=by_event.get((point.at, point.verb)),
            )
        )
    return tuple(reversed(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEntry:
    """One decision as the trace shows it.

    Attributes:
        cut: the text was cut before it came here.
        facts: the facts behind it, as indented JSON; empty where there are none.
        evidence: the item of evidence that it is about.
    """

    number: int
    verb: str
    icon: str
    at: Moment
    reason: str
    imported: bool
    cut: bool
    facts: str
    evidence: int | None
    input_hash: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The decision trace. `older` continues it, `hidden` counts what the filter leaves out."""

    entries: tuple[TraceEntry, ...]
    verbs: tuple[str, ...]
    verb: str
    origin: str
    total: int
    hidden: int
    older: str | None
    newest: bool


def trace(
    decisions: Sequence[DecisionRecord],
    dial: Dial,
    *,
    verb: str = "",
    origin: str = "",
    older: str | None = None,
    newest: bool = True,
) -> Trace:
    """The trace, newest first; `origin` is own, imported or empty."""
    kept = [
        item
        for item in decisions
        if (not verb or str(item.verb) == verb) and (not origin or item.imported is (origin == "imported"))
    ]
    return Trace(
        entries=tuple(_entry(item, dial) for item in kept),
        verbs=tuple(sorted({str(item.verb) for item in decisions} | ({verb} if verb else set()))),
        verb=verb,
        origin=origin,
        total=len(decisions),
        hidden=len(decisions) - len(kept),
        older=older,
        newest=newest,
    )


def _entry(item: DecisionRecord, dial: Dial) -> TraceEntry:
    about = item.facts.get("evidence")
    return TraceEntry(
        number=item.number,
        verb=words(str(item.verb)),
        icon=VERBS[item.verb],
        at=dial.show(item.at),
        reason=item.reason,
        imported=item.imported,
        cut=bool(item.facts.get("cut")),
        facts=_pretty(item.facts),
        evidence=about if isinstance(about, int) and item.verb is not Verb.CREATE else None,
        input_hash=item.input_hash or "",
        policy=item.policy_version or "",
    )


def _pretty(facts: Mapping[str, Any]) -> str:
    return json.dumps(dict(facts), indent=2, ensure_ascii=False, sort_keys=True, default=str) if facts else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpretationEntry:
    """One interpretation as the history shows it."""

    number: int
    at: Moment
    text: str
    imported: bool


def interpretations(records: Sequence[InterpretationRecord], dial: Dial) -> tuple[InterpretationEntry, ...]:
    """The interpretation history, newest first."""
    return tuple(
        InterpretationEntry(number=item.number, at=dial.show(item.at), text=item.text, imported=item.imported)
        for item in records
    )

"""route(change, …) → what an alert does with a case change, and every rule that raised or lowered it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from app.domain.case import Change, Decision, Strength, Verb, reaches
from app.domain.policy import Policy


class Route(StrEnum):
    """What an alert does, loudest last."""

    SILENT = "silent"
    DIGEST = "digest"
    INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """Facts about the recipient at the moment of routing.

    `interrupts_today` counts interrupts routed since the recipient's local midnight; `recent` says when
    alerts on this case last went out louder than silent, by key.
    """

    owner: str
    zone: str
    relevance: Strength
    interrupts_today: int = 0
    recent: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A rule that lowered a route, with its reason."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The routing of one change to one owner: the rule that fired, those that held it back, what would raise
    it."""

    owner: str
    route: Route
    rule: str
    reason: str
    key: str
    held_back: tuple[Held, ...]
    would_raise: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """Where a change goes, and why."""

    rule: str
    loudest: Route
    route: Route
    reason: str
    key: str
    held: tuple[Held, ...]


def route(slug: str, change: Change, at: datetime, ears: Ears, policy: Policy) -> Routing:
    """Route one change.

    The key of duplicates is the case, the rule and what it arrives at: state and verdict, and the price where
    the price is the news. An alert is a duplicate only while nothing else was told about the case since.
    """
    way = _way(slug, change, at, ears, policy)
    held_back = f"; held back: {'; '.join(entry.reason for entry in way.held)}" if way.held else ""
    return Routing(
        owner=ears.owner,
        route=way.route,
        rule=way.rule,
        reason=f"{way.reason}{held_back}",
        key=way.key,
        held_back=way.held,
        would_raise=_would_raise(slug, change, way, at, ears, policy),
    )


def _way(slug: str, change: Change, at: datetime, ears: Ears, policy: Policy) -> _Way:
    fired, loudest, why = _consequence(change, policy)
    key = f"{slug}/{fired}/{change.state_after}/{change.verdict_after}"
    if fired == PRICE_MOVE:
        key += f"/{change.price_after:.2f}"
    current = loudest
    held: list[Held] = []
    if loudest is Route.INTERRUPT:
        held += _lowered(at, ears, policy)
        current = Route.DIGEST if held else loudest
    again = _duplicate(key, at, ears, policy) if current is not Route.SILENT else None
    if again is not None:
        current = Route.SILENT
        held.append(again)
    return _Way(rule=fired, loudest=loudest, route=current, reason=why, key=key, held=tuple(held))


PRICE_MOVE = "price-move"
DUPLICATE = "duplicate"


def _lowered(at: datetime, ears: Ears, policy: Policy) -> list[Held]:
    """Every rule that would lower an interrupt: all are named, not only the first."""
    found = (_irrelevant(ears, policy), _quiet(at, ears, policy), _budget(ears, policy))
    return [entry for entry in found if entry is not None]


def _consequence(change: Change, policy: Policy) -> tuple[str, Route, str]:
    if change.verdict_after is not change.verdict_before:
        return (
            "verdict-change",
            Route.INTERRUPT,
            f"the verdict changed from {change.verdict_before} to {change.verdict_after}",
        )
    if change.first_qualifying:
        return "first-qualifying", Route.INTERRUPT, "the first result that meets every criterion came in"
    if change.state_after is not change.state_before:
        return (
            "state-change",
            Route.DIGEST,
            f"the state changed from {change.state_before} to {change.state_after}",
        )
    if reaches(change.price_move, policy.digest_price_move):
        return (
            PRICE_MOVE,
            Route.DIGEST,
            f"the price moved from {change.price_before:.2f} to {change.price_after:.2f}",
        )
    return (
        "nothing-consequential",
        Route.SILENT,
        f"no change of verdict or state, and the price moved by {change.price_move:.2f}",
    )


def _irrelevant(ears: Ears, policy: Policy) -> Held | None:
    if ears.relevance in policy.relevance_needed:
        return None
    reason = f"the owner's notes have little to do with it (relevance {ears.relevance})"
    return Held(rule="weak-grounding", reason=reason)


def _quiet(at: datetime, ears: Ears, policy: Policy) -> Held | None:
    local = at.astimezone(ZoneInfo(ears.zone))
    start, end = policy.quiet_from_hour, policy.quiet_until_hour
    quiet = start <= local.hour or local.hour < end if start > end else start <= local.hour < end
    if not quiet:
        return None
    reason = f"it is {local:%H:%M} in {ears.zone}, within quiet hours {start:02d}:00–{end:02d}:00"
    return Held(rule="quiet-hours", reason=reason)


def _budget(ears: Ears, policy: Policy) -> Held | None:
    if ears.interrupts_today < policy.interrupts_per_day:
        return None
    reason = f"{ears.interrupts_today} interrupts went out today, the budget is {policy.interrupts_per_day}"
    return Held(rule="interrupt-budget", reason=reason)


def _duplicate(key: str, at: datetime, ears: Ears, policy: Policy) -> Held | None:
    last = ears.recent.get(key)
    if last is None or at - last >= policy.duplicate_window or last < max(ears.recent.values()):
        return None
    return Held(rule=DUPLICATE, reason=f"the same alert went out at {last:%Y-%m-%d %H:%M} UTC")


def _would_raise(
    slug: str, change: Change, way: _Way, at: datetime, ears: Ears, policy: Policy
) -> str | None:
    """The smallest change that would have raised the route by itself."""
    lowered = [entry.rule for entry in way.held if entry.rule != DUPLICATE]
    if len(lowered) < len(way.held):
        instead = Route.DIGEST if lowered else way.loudest
        return f"without {DUPLICATE} this would have {WENT[instead]}"
    if lowered:
        return f"without {' and '.join(lowered)} this would have interrupted"
    if way.route is Route.INTERRUPT:
        return None
    if way.route is Route.DIGEST:
        blockers = [entry.rule for entry in _lowered(at, ears, policy)]
        without = f", without {' and '.join(blockers)}," if blockers else ""
        return f"a change of verdict or a first qualifying result{without} would have interrupted"
    return _price_to_digest(slug, change, at, ears, policy)


WENT = {Route.DIGEST: "gone to the digest", Route.INTERRUPT: "interrupted"}


def _price_to_digest(slug: str, change: Change, at: datetime, ears: Ears, policy: Policy) -> str:
    """Prices rounded away from the present one, so that what is named is always far enough."""
    up = math.ceil((change.price_before + policy.digest_price_move) * 100 - 1e-8) / 100
    down = math.floor((change.price_before - policy.digest_price_move) * 100 + 1e-8) / 100
    words = [
        f"at price {sign} {price:.2f}"
        for sign, price in (("≥", up), ("≤", down))
        if 0 < price < 1
        and _way(slug, replace(change, price_after=price), at, ears, policy).route is Route.DIGEST
    ]
    if not words:
        return "a change of state would have gone to the digest"
    return f"{' or '.join(words)} this would have gone to the digest"


def decisions_of(routing: Routing, at: datetime, ears: Ears) -> tuple[Decision, Decision]:
    """The two trace entries of a routing: `alert_route`, then what it came to. The recipient's facts are
    kept with them, so that the routing can be computed again."""
    facts = {
        "owner": routing.owner,
        "route": str(routing.route),
        "rule": routing.rule,
        "key": routing.key,
        "held_back": [{"rule": entry.rule, "reason": entry.reason} for entry in routing.held_back],
        "would_raise": routing.would_raise,
        "ears": {
            "zone": ears.zone,
            "relevance": str(ears.relevance),
            "interrupts_today": ears.interrupts_today,
            "recent": {key: moment.isoformat() for key, moment in sorted(ears.recent.items())},
        },
    }
    verb = {
        Route.SILENT: Verb.ALERT_SILENT,
        Route.DIGEST: Verb.ALERT_DIGEST,
        Route.INTERRUPT: Verb.ALERT_INTERRUPT,
    }[routing.route]
    words = f"Rule {routing.rule} routes this to {routing.owner} as {routing.route}: {routing.reason}."
    told = f"{routing.route.capitalize()} for {routing.owner}: {routing.reason}."
    if routing.would_raise:
        told += f" {routing.would_raise[0].upper()}{routing.would_raise[1:]}."
    return (
        Decision(verb=Verb.ALERT_ROUTE, at=at, reason=words, facts=facts),
        Decision(verb=verb, at=at, reason=told, facts=facts),
    )

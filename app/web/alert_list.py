"""The alert list: its address read, its context made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from app.domain.route import Route
from app.store.records import AlertRecord, Page
from app.web.case_list import choice_of, options, text_of
from app.web.contexts import AlertsContext
from app.web.parts import AlertLine, Command, Mistake, Shell
from app.web.times import Dial
from app.web.words import ROUTES

ALERTS_ON_A_PAGE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertWishes:
    """The alert list's address, read."""

    route: str | None = None
    since: datetime | None = None
    since_text: str = ""
    cursor: str | None = None
    mistakes: tuple[Mistake, ...] = ()

    def address(self, *, cursor: str | None = None) -> str:
        """An address of the list with the same filter."""
        wanted = {"route": self.route, "since": self.since_text if self.since else None, "cursor": cursor}
        query = urlencode({name: value for name, value in wanted.items() if value})
        return f"/alerts?{query}" if query else "/alerts"


def read_alert_wishes(query: Mapping[str, str], zone: str) -> AlertWishes:
    """The filter that an address asks for. `since` is a day in the owner's zone."""
    mistakes: list[Mistake] = []
    text = text_of(query, "since")
    return AlertWishes(
        route=choice_of(query, "route", Route, mistakes),
        since=_day(text, zone, mistakes),
        since_text=text,
        cursor=text_of(query, "cursor") or None,
        mistakes=tuple(mistakes),
    )


def _day(text: str, zone: str, mistakes: list[Mistake]) -> datetime | None:
    if not text:
        return None
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=ZoneInfo(zone)).date()
        if not 1990 <= day.year <= 2200:
            raise ValueError(text)
    except ValueError:
        mistakes.append(
            Mistake(
                control="since",
                field="since",
                detail="This is no day between 1990 and 2200; the list is not narrowed by it.",
                value=text[:40],
                remedy="Give a day such as 2026-08-13.",
            )
        )
        return None
    return datetime.combine(day, time(0), tzinfo=ZoneInfo(zone))


def alerts_context(
    page: Page[AlertRecord], wishes: AlertWishes, shell: Shell, dial: Dial, base: str
) -> AlertsContext:
    """The context of the alert list."""
    return AlertsContext(
        shell=shell,
        routes=options(reversed(list(Route)), wishes.route, "any route"),
        since=wishes.since_text,
        lines=tuple(_alert(item, dial) for item in page.items),
        older=wishes.address(cursor=page.next_cursor) if page.next_cursor else None,
        newest=wishes.address() if wishes.cursor else None,
        mistakes=wishes.mistakes,
        filtered=wishes.route is not None or wishes.since is not None or wishes.cursor is not None,
        commands=(Command(name="The same over HTTP", line=f"curl -s '{base}{_api(wishes)}'"),),
    )


def _api(wishes: AlertWishes) -> str:
    wanted = {"route": wishes.route, "since": wishes.since.isoformat() if wishes.since else None}
    query = urlencode({name: value for name, value in wanted.items() if value})
    return f"/api/v1/alerts?{query}" if query else "/api/v1/alerts"


def _alert(item: AlertRecord, dial: Dial) -> AlertLine:
    return AlertLine(
        id=item.id,
        slug=item.slug,
        title=item.title,
        at=dial.show(item.at),
        owner=item.owner,
        route=ROUTES[item.route],
        rule=item.rule,
        reason=item.reason,
        key=item.key,
        held_back=tuple((held.rule, held.reason) for held in item.held_back),
        would_raise=item.would_raise or "",
    )

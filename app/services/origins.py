"""Where evidence comes from: when, by whom, at which address, and what makes two items one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from app.domain.claim import Claim
from app.domain.contrast import Arm
from app.domain.errors import Refused
from app.domain.evidence import Publisher, Relation
from app.domain.metrics import canonical
from app.domain.scalars import folded
from app.formats.native import PublisherIn
from app.store.codec import digest

CLOCK_SKEW: Final = timedelta(minutes=10)


def not_future(when: datetime | None, now: datetime, field: str) -> datetime | None:
    """The time, unless it lies in the future by more than clocks may differ.

    Raises:
        Refused: it does.
    """
    """The time in UTC: reasons tell it so, whatever zone it was handed in with."""
    if when is not None and when > now + CLOCK_SKEW:
        raise Refused(
            f"{field} lies in the future.",
            field=field,
            value=when.isoformat(),
            remedy=f"It is {now.isoformat()} here; give the time at which it happened.",
            code="in-the-future",
        )
    return when and when.astimezone(UTC)


def publisher_of(document: PublisherIn | None) -> Publisher | None:
    """Who stands for it."""
    if document is None:
        return None
    return Publisher(
        name=document.name,
        url=_checked(document.url, "publisher.url"),
        relation=Relation(document.relation) if document.relation else None,
    )


def _checked(url: str | None, field: str) -> str | None:
    address_of(url, field)
    return url


def address_of(url: str | None, field: str) -> str | None:
    """An address as an identity: scheme, port, `www.`, user, fragment, tracking parameters, escapes and slashes do not
    make another page.

    Raises:
        Refused: it cannot be taken apart.
    """
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".").removeprefix("www.")
    except ValueError as error:
        raise Refused(
            f"This is no web address: {error}.",
            field=field,
            value=url,
            remedy="Give the address as a browser shows it.",
            code="bad-url",
        ) from error
    path = "/".join(part for part in unquote(parts.path).split("/") if part)
    query = "&".join(sorted(q for q in parts.query.split("&") if q and not q.startswith(TRACKING)))
    address = f"{host}/{path}{'?' if query else ''}{query}"
    return address if len(address) <= 200 and address.isprintable() else digest(address)


TRACKING: Final = ("utm_", "fbclid=", "gclid=")


def published(address: str | None, publisher: Publisher | None) -> str | None:
    """One publication: an address together with who stands for it, so that nobody takes another's place by naming
    their page."""
    return (
        f"{address} {'' if publisher is None else folded(publisher.name)[:90]}".strip() if address else None
    )


def measured(claim: Claim, *arms: Arm) -> str:
    """Identity of what was measured: the numbers on the claim's metric, or all of them where that is not among them.
    The same under other words, in another order or file, or with more metrics beside them, is one measurement."""
    return digest([_numbers(arm, claim.metric) or _numbers(arm, None) for arm in arms])


def _numbers(arm: Arm, only: str | None) -> list[list[Any]]:
    return sorted(
        [
            metric.name,
            metric.statistic or "",
            sorted(f"{canonical(value, metric.unit, metric.name):.9g}" for value in metric.values),
        ]
        for metric in arm.metrics
        if only in (None, metric.name)
    )

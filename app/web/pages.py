"""The pages: each reads values, makes a context of them, and renders it."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.services.judge import Owner
from app.web import submit_pages
from app.web.alert_list import ALERTS_ON_A_PAGE, alerts_context, read_alert_wishes
from app.web.case_list import CASES_ON_A_PAGE, cases_context, read_case_wishes
from app.web.case_page import CaseFacts, CaseWish, case_context
from app.web.contexts import ErrorContext
from app.web.reading import For, InForce, Now, Shelf, base_of
from app.web.render import render, shell
from app.web.times import Dial

router = APIRouter(include_in_schema=False)
router.include_router(submit_pages.router)


@router.get("/")
def cases_page(request: Request, shelf: Shelf, whom: For, now: Now) -> Response:
    """The case list, filtered, sorted and searched by its address."""
    wishes = read_case_wishes(request.query_params)
    found = shelf.cases(
        state=wishes.state,
        verdict=wishes.verdict,
        tag=wishes.tag,
        entity=wishes.entity,
        q=wishes.q,
        min_price=wishes.min_price,
        sort=wishes.sort,
        cursor=wishes.cursor,
        limit=CASES_ON_A_PAGE,
    )
    dial = Dial(zone=whom.zone, now=now)
    return render(cases_context(found, wishes, shell("Cases", "cases", dial, whom), dial))


@router.get("/cases/{slug}")
def case_page(slug: str, request: Request, shelf: Shelf, whom: For, now: Now, in_force: InForce) -> Response:
    """One case."""
    wish = read_case_wish(request)
    facts = CaseFacts(
        record=shelf.case(slug),
        evidence=shelf.evidence(slug),
        interpretations=shelf.interpretations(slug),
        decisions=shelf.decisions(slug, cursor=wish.before),
        prices=shelf.prices(slug),
    )
    dial = Dial(zone=whom.zone, now=now)
    around = shell(facts.record.summary.title, "cases", dial, whom)
    return render(case_context(facts, wish, around, dial, in_force, base_of(request)))


def read_case_wish(request: Request) -> CaseWish:
    """What a case page's address asks for; what means nothing is left out."""
    query = request.query_params
    recorded = query.get("recorded", "")
    origin = query.get("origin", "")
    return CaseWish(
        verb=query.get("verb", "")[:40],
        origin=origin if origin in ("own", "imported") else "",
        before=query.get("before") or None,
        recorded=int(recorded) if recorded.isascii() and recorded.isdigit() and len(recorded) < 10 else None,
        again=query.get("again") == "1",
    )


@router.get("/alerts")
def alerts_page(request: Request, shelf: Shelf, whom: For, now: Now) -> Response:
    """Alert-routing decisions."""
    wishes = read_alert_wishes(request.query_params, whom.zone)
    found = shelf.alerts(route=wishes.route, since=wishes.since, cursor=wishes.cursor, limit=ALERTS_ON_A_PAGE)
    dial = Dial(zone=whom.zone, now=now)
    around = shell("Alerts", "alerts", dial, whom)
    return render(alerts_context(found, wishes, around, dial, base_of(request)))


def error_page(
    status: int, title: str, detail: str, remedy: str, *, now: datetime, whom: Owner
) -> HTMLResponse:
    """An error as a page for a person."""
    dial = Dial(zone=whom.zone, now=now)
    context = ErrorContext(
        shell=shell(title, "", dial, whom), status=status, heading=title, detail=detail, remedy=remedy
    )
    return render(context, status)

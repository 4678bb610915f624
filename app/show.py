"""What the command line prints for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.domain.errors import Refused
from app.services.doctor import Finding
from app.services.passes import PassReport
from app.services.replay import Difference
from app.store.ledger import TokenRecord


def table(*columns: str) -> Table:
    """A plain table."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        # Names are copied and searched for: they stay in one piece.
        made.add_column(column, overflow="fold", no_wrap=column in ("slug", "metric"))
    return made


def row(made: Table, *cells: object) -> None:
    """A row whose cells are taken as they stand, markup and all."""
    made.add_row(*(Text("–" if cell is None else str(cell)) for cell in cells))


def number(value: float | None, digits: int = 5) -> str:
    """A number to so many significant digits."""
    return "–" if value is None else f"{value:.{digits}g}"


def refusal(to: Console, error: Refused) -> None:
    """A refusal with field, value and remedy."""
    for item in (error, *error.others):
        value = f" (found: {item.value})" if item.value is not None else ""
        to.print(f"{item.field}: {item.detail}{value}", markup=False, soft_wrap=True)
        to.print(f"  {item.remedy}", markup=False, soft_wrap=True)


def problem(to: Console, body: Any) -> None:
    """A problem document."""
    to.print(f"{body.get('title', 'Error')}: {body.get('detail', '')}", markup=False, soft_wrap=True)
    for item in body.get("errors", []):
        value = f" (found: {item['value']})" if item.get("value") is not None else ""
        to.print(f"  {item['field']}: {item['detail']}{value} {item['remedy']}", markup=False, soft_wrap=True)
    if body.get("remedy") and not body.get("errors"):
        to.print(f"  {body['remedy']}", markup=False, soft_wrap=True)


def result(to: Console, body: Any, dry_run: bool) -> None:
    """The answer to a result."""
    if body["duplicate"]:
        head = f"Recorded before as evidence {body['evidence']}"
    else:
        head = "Would become" if dry_run else "Recorded as"
        head = f"{head} evidence {body['evidence']}"
    to.print(
        f"{head} of {body['case']}: {'qualifying' if body['qualifying'] else 'not qualifying'}.", markup=False
    )
    contrasts = table("metric", "unit", "baseline", "treatment", "ratio", "± s (log)", "pooled")
    for item in body["contrasts"]:
        name = f"{item['metric']} {item['statistic'] or ''}".strip()
        spread = f"{item['se']:.3f}{' imputed' if item['se_imputed'] else ''}"
        row(
            contrasts,
            name,
            item["unit"],
            number(item["baseline"]),
            number(item["treatment"]),
            f"{item['ratio']:.3f}",
            spread,
            "yes" if item["pooled"] else "no",
        )
    to.print(contrasts)
    criteria(to, body["criteria"])
    for item in body["run_validity"]:
        told = {True: "valid", False: "invalid", None: "cannot tell"}[item["valid"]]
        to.print(
            f"Run of the {item['arm']}: {told}. {'; '.join(item['reasons'])}", markup=False, soft_wrap=True
        )
    for notice in body["notices"]:
        to.print(f"Note: {notice}", markup=False, soft_wrap=True)
    change(to, body)


def criteria(to: Console, rows: Iterable[Any]) -> None:
    """The criteria table."""
    made = table("criterion", "status", "reason")
    for item in rows:
        row(made, item["criterion"], item["status"], item["reason"])
    to.print(made)


def change(to: Console, body: Any) -> None:
    """What followed: price, state, verdict, decisions, alerts."""
    price, state, verdict = body["price"], body["state"], body["verdict"]
    to.print(
        f"Price {price['before']:.3f} → {price['after']:.3f}; state {state['before']} → {state['after']}; "
        f"verdict {verdict['before']} → {verdict['after']}.",
        markup=False,
    )
    for item in body["decisions"]:
        to.print(f"{item['verb']}: {item['reason']}", markup=False, soft_wrap=True)
    for item in body["alerts"]:
        to.print(f"alert {item['route']} ({item['rule']}): {item['reason']}", markup=False, soft_wrap=True)


def case_list(to: Console, body: Any, narrowed: bool) -> None:
    """Cases, one a line. `narrowed` says that some were filtered out."""
    if not body["items"] and narrowed:
        to.print("No case fits. Widen the filter.", markup=False)
        return
    if not body["items"]:
        to.print("No cases. Open one with `assay cases new FILE` or `assay cases import FILE`.", markup=False)
        return
    made = table("slug", "state", "verdict", "price", "uncertainty", "evidence", "last change")
    for item in body["items"]:
        row(
            made,
            item["slug"],
            item["state"],
            item["verdict"],
            f"{item['price']:.3f}",
            item["uncertainty"],
            item["evidence_count"],
            item["updated_at"][:16].replace("T", " ") + " UTC",
        )
    to.print(made)
    if body["next_cursor"]:
        to.print("There are more; raise --limit or narrow the list.", markup=False)


def case(to: Console, body: Any) -> None:
    """One case."""
    to.print(body["title"], markup=False, style="bold", soft_wrap=True)
    if body["claim"]["sentence"] != body["title"]:
        to.print(body["claim"]["sentence"], markup=False, soft_wrap=True)
    to.print(
        f"State {body['state']}, verdict {body['verdict']}, price {body['price']:.3f}, uncertainty "
        f"{body['uncertainty']}, heat {body['heat'] or 'never measured'}, relevance {body['relevance']}.",
        markup=False,
        soft_wrap=True,
    )
    claim = body["claim"]
    to.print(
        f"Factor {', '.join(claim['factor'])}; settles on {claim['metric']} at {claim['settles_at']} level, "
        f"at least {claim['delta']:+.0%}, within {claim['horizon_hours']:g} h.",
        markup=False,
        soft_wrap=True,
    )
    closest = body["closest_evidence"]
    if closest is None:
        to.print("No evidence reports an effect yet.", markup=False)
    else:
        to.print(
            f"Closest to settling it: evidence {closest}. What it lacks would settle the case:", markup=False
        )
    criteria(to, body["criteria"])


def opened(to: Console, body: Any) -> None:
    """The answer to a new case."""
    items = "1 item" if body["evidence"] == 1 else f"{body['evidence']} items"
    to.print(f"Opened {body['case']} with {items} of evidence.", markup=False)
    change(to, body)


def difference(to: Console, slug: str, found: Difference) -> None:
    """The first difference of a replay."""
    to.print(f"{slug}: event {found.event} ({found.at}): {found.what} differs", markup=False, soft_wrap=True)
    to.print(f"  recorded: {found.recorded}", markup=False, soft_wrap=True)
    to.print(f"  computed: {found.computed}", markup=False, soft_wrap=True)


def horizon(to: Console, report: PassReport) -> None:
    """What a horizon pass did."""
    to.print(
        f"Horizon pass of {report.hour:%Y-%m-%d %H:%M} UTC: {report.looked_at} due, {report.expired} expired, "
        f"{report.withheld} withheld.",
        markup=False,
    )


def tokens(to: Console, found: Sequence[TokenRecord]) -> None:
    """Tokens without their secrets."""
    made = table("number", "name", "scopes", "created", "expires", "revoked")
    for item in found:
        moments = (item.created_at, item.expires_at, item.revoked_at)
        row(
            made,
            item.id,
            item.name,
            ", ".join(item.scopes),
            *(m and f"{m:%Y-%m-%d %H:%M} UTC" for m in moments),
        )
    to.print(made)


def findings(to: Console, found: Sequence[Finding]) -> None:
    """What the doctor saw."""
    made = table("", "what", "found", "remedy")
    for item in found:
        row(made, "ok" if item.fine else "!!", item.what, item.found, item.remedy or "")
    to.print(made)

"""Commands on the database itself, on the machine that has it: replay, verify, passes, tokens, doctor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from sqlalchemy import Connection

from app import show
from app.formats.wire import RFC3339
from app.store.engine import make_engine, reading
from app.store.migrate import require_newest
from app.terminal import LACKING, NO, AsJson, Database, err, out, print_json, settings_of, usage

app = typer.Typer()
pass_app = typer.Typer(no_args_is_help=True, help="Run one pass now.")
token_app = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens.")


@contextmanager
def _opened(database: str | None) -> Iterator[Connection]:
    """A database that is there, for reading as it stands."""
    engine = make_engine(settings_of(database).database)
    try:
        require_newest(engine)
        with reading(engine) as connection:
            yield connection
    finally:
        engine.dispose()


@app.command()
def replay(
    slug: Annotated[str | None, typer.Argument()] = None, database: Database = None, as_json: AsJson = False
) -> None:
    """Compute every decision again from the log; exit 1 and show the first difference."""
    from app.services.replay import replay as replayed
    from app.store.codec import dump

    with _opened(database) as connection:
        found = list(replayed(connection, slug))
    differing = [(name, difference) for name, difference in found if difference is not None]
    if as_json:
        print_json({"cases": len(found), "differences": [dump(difference) for _, difference in differing]})
        raise typer.Exit(NO if differing else 0)
    for name, difference in differing:
        show.difference(out, name, difference)
    out.print(
        f"{len(found)} case{'s' if len(found) != 1 else ''} replayed, {len(differing)} differ.", markup=False
    )
    raise typer.Exit(NO if differing else 0)


@app.command()
def verify(
    slug: Annotated[str | None, typer.Argument()] = None, database: Database = None, as_json: AsJson = False
) -> None:
    """Check the hash chain of the append-only log; exit 1 where it was damaged."""
    from app.store.codec import dump
    from app.store.log import check_chain

    with _opened(database) as connection:
        damage = list(check_chain(connection, slug))
    if as_json:
        print_json([dump(item) for item in damage])
        raise typer.Exit(NO if damage else 0)
    for item in damage:
        where = f"{item.part} {item.row_id}" if item.row_id else item.part
        out.print(f"{item.slug}: entry {item.seq}, {where}: {item.what}", markup=False, soft_wrap=True)
    out.print("The log is whole." if not damage else f"{len(damage)} faults found.", markup=False)
    raise typer.Exit(NO if damage else 0)


@pass_app.command("horizon")
def pass_horizon(
    at: Annotated[
        str | None, typer.Option(help="Moment, such as 2026-08-12T20:00:00Z; the default is now.")
    ] = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Expire the cases whose horizon has passed."""
    from app.main import build_house
    from app.services.passes import horizon_pass
    from app.store.codec import dump

    here = build_house(settings_of(database))
    desk = here.desk("cli")
    moment = _moment(at) if at else desk.now
    if moment > desk.now:
        err.print("That hour is still to come: cases are judged as if nothing came until then.", markup=False)
    report = horizon_pass(here.engine, moment, desk)
    if as_json:
        print_json(dump(report))
    elif not report.made:
        out.print(f"The horizon pass of {report.hour:%Y-%m-%d %H:%M} UTC was made before.", markup=False)
    else:
        show.horizon(out, report)


def _moment(text: str) -> datetime:
    try:
        if RFC3339.fullmatch(text):
            return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise usage(f"{text!r} is no time with a zone; write it as 2026-08-12T20:00:00Z.")


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[list[str], typer.Option(help="read, submit, run or admin; may be repeated.")],
    days: Annotated[float | None, typer.Option(help="Days until it expires.", min=0)] = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. Its secret is printed once and stored hashed."""
    from app.main import build_house
    from app.services.tokens import create_token
    from app.store.engine import writing

    here = build_house(settings_of(database))
    now = here.clock.now()
    try:
        expires = now + timedelta(days=days) if days is not None else None
    except (ValueError, OverflowError):
        raise usage(f"--days {days}: give a number of days.") from None
    with writing(here.engine) as connection:
        secret = create_token(connection, name, scope, now, expires)
    if as_json:
        print_json({"name": name, "scopes": scope, "token": secret})
    else:
        typer.echo(secret)


@token_app.command("list")
def token_list(database: Database = None, as_json: AsJson = False) -> None:
    """List tokens, without their secrets."""
    from app.main import build_house
    from app.store.codec import dump
    from app.store.ledger import token_list as all_tokens

    here = build_house(settings_of(database))
    with reading(here.engine) as connection:
        tokens = all_tokens(connection)
    if as_json:
        print_json([dump(token) for token in tokens])
    else:
        show.tokens(out, tokens)


@token_app.command("revoke")
def token_revoke(
    number: Annotated[int, typer.Argument(help="Number from `assay token list`.", min=1, max=2**53)],
    database: Database = None,
) -> None:
    """Revoke a token."""
    from app.main import build_house
    from app.services.tokens import revoke
    from app.store.engine import writing

    here = build_house(settings_of(database))
    with writing(here.engine) as connection:
        revoke(connection, number, here.clock.now())
    out.print(f"Token {number} is revoked.", markup=False)


@app.command()
def doctor(database: Database = None, as_json: AsJson = False) -> None:
    """Say what is missing or misconfigured, and the remedy; exit 3 when something is."""
    from app.services.doctor import examine
    from app.store.codec import dump

    findings = examine(settings_of(database))
    if as_json:
        print_json([dump(item) for item in findings])
    else:
        show.findings(out, findings)
    raise typer.Exit(LACKING if any(not item.fine for item in findings) else 0)

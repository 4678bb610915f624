"""The `assay` command. Exit codes: 0 done, 1 the answer is no, 2 usage, 3 the environment lacks something."""

from __future__ import annotations

import base64
import errno
import json
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from pydantic import ValidationError
from rich.console import Console
from sqlalchemy import Connection

from app import show
from app.client import Reply, Unreachable, call
from app.domain.errors import AssayError, Busy, Refused
from app.formats.strict_json import strict_json
from app.formats.wire import RFC3339
from app.settings import Settings
from app.store.engine import make_engine, reading
from app.store.migrate import OtherSchema, require_newest

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, help=__doc__)
cases_app = typer.Typer(no_args_is_help=True, help="Work with cases.")
pass_app = typer.Typer(no_args_is_help=True, help="Run one pass now.")
token_app = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens.")
app.add_typer(cases_app, name="cases")
app.add_typer(pass_app, name="pass")
app.add_typer(token_app, name="token")

out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True, highlight=False)

NO: Final = 1
USAGE: Final = 2
LACKING: Final = 3

SLUG: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Database = Annotated[
    str | None, typer.Option("--database", help="Database URL; the default is the data directory's.")
]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry of the installed command; `arguments` are the process's own unless given."""
    try:
        app(arguments)
    except Refused as error:
        show.refusal(err, error)
        sys.exit(USAGE)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            err.print(f"ASSAY_{'_'.join(map(str, item['loc'])).upper()}: {item['msg']}", markup=False)
        sys.exit(LACKING)
    except (Unreachable, Busy, OtherSchema, OSError) as error:
        err.print(str(error), markup=False, soft_wrap=True)
        sys.exit(LACKING)
    except AssayError as error:
        err.print(str(error), markup=False)
        sys.exit(NO)


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8000,
    database: Database = None,
    no_schedule: Annotated[bool, typer.Option("--no-schedule", help="Make no hourly passes.")] = False,
) -> None:
    """Migrate, load the seed case into an empty database, and serve API, pages and scheduled passes."""
    import uvicorn

    from app.main import build_house, create_app

    settings = _settings(database)
    # The address first: a server that cannot listen touches nothing.
    with _listen(host, port) as listening:
        here = build_house(settings, tell=lambda words: err.print(words, markup=False))
        passes = "off" if no_schedule else "hourly"
        database = here.engine.url.render_as_string(hide_password=True)
        err.print(
            f"Assay serves http://{_name(listening)} (API under /docs); scheduled passes: {passes}.",
            markup=False,
        )
        err.print(f"Database {database}", markup=False, soft_wrap=True)
        err.print(f"Owner's token in {settings.token_file}", markup=False, soft_wrap=True)
        server = uvicorn.Server(
            uvicorn.Config(create_app(here, scheduled=not no_schedule), log_level="warning")
        )
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
    if not server.started:
        raise typer.Exit(LACKING)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            words = f"{host}:{port} is in use. Stop what listens there, or choose another with --port."
            raise OSError(words) from error
        raise


def _name(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _settings(database: str | None = None) -> Settings:
    settings = Settings()
    return settings.model_copy(update={"database_url": database}) if database else settings


def _ask(method: str, path: str, *, json: Any = None, params: dict[str, Any] | None = None) -> Reply:
    """Ask the server; on the machine of the embedded one, its database directly while no server runs."""
    settings = Settings()
    own = _own_token(settings) if settings.token is None else None
    token = settings.token or own
    try:
        reply = call(method, path, base_url=settings.url, token=token, json=json, params=params)
        if reply.status == 401 and own is not None and method == "GET":
            # A server of another data directory does not know this one's token; reading may be open to all.
            reply = call(method, path, base_url=settings.url, token=None, json=json, params=params)
    except Unreachable as error:
        if "url" in settings.model_fields_set:
            raise Unreachable(f"{error}\nStart one there, or unset ASSAY_URL.") from error
        reply = _ask_directly(settings, method, path, json, params)
    if reply.status in (401, 403):
        show.problem(err, reply.body)
        err.print(_token_remedy(settings, own, reply.status), markup=False, soft_wrap=True)
        raise typer.Exit(LACKING)
    return reply


def _own_token(settings: Settings) -> str | None:
    """The data directory's token, for a server on this machine only: it is nobody else's business."""
    if (
        urlsplit(settings.url).hostname not in ("127.0.0.1", "localhost", "::1")
        or not settings.token_file.exists()
    ):
        return None
    return settings.token_file.read_text(encoding="utf-8").strip()


def _token_remedy(settings: Settings, own: str | None, status: int) -> str:
    if own is not None and status == 401:
        return (
            f"The server at {settings.url} does not know the token in {settings.token_file}: it has another data "
            "directory. Set ASSAY_DATA to that one, ASSAY_URL to another server, or ASSAY_TOKEN."
        )
    return "Set ASSAY_TOKEN to a token with the scope needed (assay token create)."


def _ask_directly(
    settings: Settings, method: str, path: str, json: Any, params: dict[str, Any] | None
) -> Reply:
    from app.main import build_house, create_app

    err.print(f"No server runs at {settings.url}; working on the local database directly.", markup=False)
    here = build_house(settings)
    token = settings.token_file.read_text(encoding="utf-8").strip()
    return call(
        method, path, base_url="http://local", token=token, json=json, params=params, app=create_app(here)
    )


def _done(reply: Reply, as_json: bool, tell: Callable[[Console, Any], None]) -> None:
    """Print an answer, or a problem with exit code 1 (404, 409) or 2 (the request is wrong)."""
    if not reply.ok:
        if as_json:
            _print_json(reply.body)
        else:
            show.problem(err, reply.body)
        raise typer.Exit(_exit_code(reply.status))
    if as_json:
        _print_json(reply.body)
    else:
        tell(out, reply.body)


def _exit_code(status: int) -> int:
    if status in (400, 413, 415, 422):
        return USAGE
    return NO if 400 <= status < 500 else LACKING


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(
            f"The file cannot be read: {error.strerror}.",
            field=str(path),
            remedy="Name one file, such as stage_6_lifecycle_metrics.json."
            if path.is_dir()
            else "Check the path.",
            code="no-file",
        ) from error


def _read_json(path: Path) -> Any:
    data = _read(path)
    try:
        return strict_json(data)
    except Refused as error:
        raise error.within(str(path)) from error


# Results


@app.command()
def submit(
    file: Annotated[Path | None, typer.Argument(help="One native result, instead of the options.")] = None,
    case: Annotated[str | None, typer.Option(help="Slug of the case.")] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(help="ROLE=FILE[,FILE…]; role baseline or treatment; files are replicates."),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(help="ROLE=FILE: a flat JSON map of what the result files do not say.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="Format of the files.")] = "auto",
    level: Annotated[str, typer.Option(help="kernel, model, serving or economics.")] = "serving",
    publisher: Annotated[str | None, typer.Option(help="Who publishes the result.")] = None,
    source_url: Annotated[str | None, typer.Option(help="Where it is published.")] = None,
    measured_at: Annotated[str | None, typer.Option(help="When, such as 2026-11-30T12:00:00Z.")] = None,
    command: Annotated[str | None, typer.Option(help="The exact command that was run.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would change; store nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Hand in a benchmark result, and print what it measured, how it was judged, and what followed."""
    if file is not None:
        if arm or config:
            raise _usage("Give one native FILE, or --case with --arm; not both.")
        document = _read_json(file)
        if case and isinstance(document, dict):
            document["case"] = case
    else:
        if not case or not arm:
            raise _usage("Give one native FILE, or --case with at least one --arm ROLE=FILE.")
        given = {
            "level": level,
            "source_url": source_url,
            "measured_at": measured_at,
            "command": command,
            "publisher": {"name": publisher} if publisher else None,
        }
        document = {"case": case, "format": format_, "arms": _arms(arm, config or [], format_)}
        document |= {name: value for name, value in given.items() if value is not None}
    path = "/api/v1/results/validate" if dry_run else "/api/v1/results"
    _done(_ask("POST", path, json=document), as_json, lambda to, body: show.result(to, body, dry_run))


def _arms(arms: list[str], configs: list[str], format_: str) -> list[dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for option in arms:
        role, _, names = option.partition("=")
        if not names:
            raise _usage(f"--arm {option}: write ROLE=FILE[,FILE…].")
        if role in told:
            raise _usage(f"--arm {role} is given twice; put replicates into one, separated by commas.")
        files = [
            {
                "name": Path(name).name,
                "format": format_,
                "content_base64": base64.b64encode(_read(Path(name))).decode(),
            }
            for name in names.split(",")
        ]
        told[role] = {"role": role, "files": files}
    for option in configs:
        role, _, name = option.partition("=")
        if role not in told or not name:
            raise _usage(f"--config {option}: write ROLE=FILE with a role that has an --arm.")
        told[role]["config"] = _read_json(Path(name))
    return list(told.values())


def _usage(message: str) -> typer.BadParameter:
    return typer.BadParameter(message)


# Cases


@cases_app.command("list")
def list_cases(
    state: Annotated[str | None, typer.Option(help="active, repriced or expired.")] = None,
    verdict: Annotated[str | None, typer.Option(help="open, supported, refuted or mixed.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only cases with this tag.")] = None,
    q: Annotated[str | None, typer.Option(help="Words to look for.")] = None,
    limit: Annotated[int, typer.Option(help="Most cases to print.", min=1, max=500)] = 50,
    as_json: AsJson = False,
) -> None:
    """List cases, the last changed first."""
    wanted = {"state": state, "verdict": verdict, "tag": tag, "q": q, "limit": limit}
    params = {name: value for name, value in wanted.items() if value is not None}
    narrowed = any(value is not None for value in (state, verdict, tag, q))
    reply = _ask("GET", "/api/v1/cases", params=params)
    _done(reply, as_json, lambda to, body: show.case_list(to, body, narrowed))


@cases_app.command("show")
def show_case(slug: str, as_json: AsJson = False) -> None:
    """Show a case with what would settle it."""
    if not SLUG.fullmatch(slug):
        raise _usage(f"{slug!r} is no slug: small letters, digits and single hyphens (assay cases list).")
    _done(_ask("GET", f"/api/v1/cases/{slug}"), as_json, show.case)


@cases_app.command("new")
def new_case(
    file: Annotated[Path, typer.Argument(help="A case as JSON: slug, title, claim.")], as_json: AsJson = False
) -> None:
    """Open a case."""
    _done(_ask("POST", "/api/v1/cases", json=_read_json(file)), as_json, show.opened)


@cases_app.command("import")
def import_case(
    file: Annotated[Path, typer.Argument(help='A case file ("format": "assay-case-1").')],
    as_json: AsJson = False,
) -> None:
    """Open a case from a case file, its earlier life included."""
    _done(_ask("POST", "/api/v1/cases/import", json=_read_json(file)), as_json, show.opened)


# On the database itself


@contextmanager
def _opened(database: str | None) -> Iterator[Connection]:
    """A database that is there, for reading as it stands."""
    engine = make_engine(_settings(database).database)
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
        _print_json({"cases": len(found), "differences": [dump(difference) for _, difference in differing]})
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
        _print_json([dump(item) for item in damage])
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

    here = build_house(_settings(database))
    desk = here.desk("cli")
    moment = _moment(at) if at else desk.now
    if moment > desk.now:
        err.print("That hour is still to come: cases are judged as if nothing came until then.", markup=False)
    report = horizon_pass(here.engine, moment, desk)
    if as_json:
        _print_json(dump(report))
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
    raise _usage(f"{text!r} is no time with a zone; write it as 2026-08-12T20:00:00Z.")


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

    here = build_house(_settings(database))
    now = here.clock.now()
    try:
        expires = now + timedelta(days=days) if days is not None else None
    except (ValueError, OverflowError):
        raise _usage(f"--days {days}: give a number of days.") from None
    with writing(here.engine) as connection:
        secret = create_token(connection, name, scope, now, expires)
    if as_json:
        _print_json({"name": name, "scopes": scope, "token": secret})
    else:
        typer.echo(secret)


@token_app.command("list")
def token_list(database: Database = None, as_json: AsJson = False) -> None:
    """List tokens, without their secrets."""
    from app.main import build_house
    from app.store.codec import dump
    from app.store.ledger import token_list as all_tokens

    here = build_house(_settings(database))
    with reading(here.engine) as connection:
        tokens = all_tokens(connection)
    if as_json:
        _print_json([dump(token) for token in tokens])
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

    here = build_house(_settings(database))
    with writing(here.engine) as connection:
        revoke(connection, number, here.clock.now())
    out.print(f"Token {number} is revoked.", markup=False)


@app.command()
def doctor(database: Database = None, as_json: AsJson = False) -> None:
    """Say what is missing or misconfigured, and the remedy; exit 3 when something is."""
    from app.services.doctor import examine
    from app.store.codec import dump

    findings = examine(_settings(database))
    if as_json:
        _print_json([dump(item) for item in findings])
    else:
        show.findings(out, findings)
    raise typer.Exit(LACKING if any(not item.fine for item in findings) else 0)


if __name__ == "__main__":
    main()

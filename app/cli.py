"""The `assay` command. Exit codes: 0 done, 1 the answer is no, 2 usage, 3 the environment lacks something."""

from __future__ import annotations

import base64
import errno
import re
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from pydantic import ValidationError
from rich.console import Console

from app import local, show
from app.client import Reply, Unreachable, call
from app.domain.errors import AssayError, Busy, Refused
from app.formats.strict_json import strict_json
from app.settings import Settings
from app.store.migrate import OtherSchema
from app.terminal import LACKING, NO, USAGE, AsJson, Database, err, out, print_json, settings_of, usage

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, help=__doc__)
cases_app = typer.Typer(no_args_is_help=True, help="Work with cases.")
app.add_typer(cases_app, name="cases")
app.add_typer(local.app)
app.add_typer(local.pass_app, name="pass")
app.add_typer(local.token_app, name="token")

SLUG: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


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

    settings = settings_of(database)
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
            print_json(reply.body)
        else:
            show.problem(err, reply.body)
        raise typer.Exit(_exit_code(reply.status))
    if as_json:
        print_json(reply.body)
    else:
        tell(out, reply.body)


def _exit_code(status: int) -> int:
    if status in (400, 413, 415, 422):
        return USAGE
    return NO if 400 <= status < 500 else LACKING


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
            raise usage("Give one native FILE, or --case with --arm; not both.")
        document = _read_json(file)
        if case and isinstance(document, dict):
            document["case"] = case
    else:
        if not case or not arm:
            raise usage("Give one native FILE, or --case with at least one --arm ROLE=FILE.")
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
            raise usage(f"--arm {option}: write ROLE=FILE[,FILE…].")
        if role in told:
            raise usage(f"--arm {role} is given twice; put replicates into one, separated by commas.")
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
            raise usage(f"--config {option}: write ROLE=FILE with a role that has an --arm.")
        told[role]["config"] = _read_json(Path(name))
    return list(told.values())


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
        raise usage(f"{slug!r} is no slug: small letters, digits and single hyphens (assay cases list).")
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


if __name__ == "__main__":
    main()

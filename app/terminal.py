"""What all commands share: where they print, how they exit, and the options that they have in common."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from app.settings import Settings

out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True, highlight=False)

NO: Final = 1
USAGE: Final = 2
LACKING: Final = 3


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Database = Annotated[
    str | None, typer.Option("--database", help="Database URL; the default is the data directory's.")
]


def settings_of(database: str | None = None) -> Settings:
    settings = Settings()
    return settings.model_copy(update={"database_url": database}) if database else settings


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


def usage(message: str) -> typer.BadParameter:
    return typer.BadParameter(message)

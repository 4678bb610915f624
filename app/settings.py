"""The only reader of the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"{name!r} is no time zone; give one such as Europe/Vienna") from error
    return name


class Settings(BaseSettings):
    """Settings, each read from the environment variable `ASSAY_` plus its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", extra="ignore")

    data: Annotated[Path, Field(description="Directory of the embedded database, tokens and policy.")] = Path(
        "~/.local/share/assay"
    )
    database_url: Annotated[
        str | None, Field(description="Database; the default is a SQLite file in the data directory.")
    ] = None
    url: Annotated[str, Field(description="Server that the command line talks to.")] = "http://127.0.0.1:8000"
    token: Annotated[
        str | None, Field(description="Token of the command line; the default is the data directory's own.")
    ] = None
    owner: Annotated[str, Field(description="Name under which alerts are routed.", max_length=100)] = "owner"
    zone: Annotated[str, AfterValidator(_zone), Field(description="Time zone in which times are shown.")] = (
        "UTC"
    )
    public_read: Annotated[bool, Field(description="Whether reading needs no token.")] = True
    max_body_mb: Annotated[int, Field(description="Largest request body, MB (10⁶ bytes).", ge=1, le=1000)] = (
        32
    )
    hosts: Annotated[
        str, Field(description="Host names, comma-separated, under which the pages take input.")
    ] = "127.0.0.1,localhost,[::1]"

    @property
    def data_dir(self) -> Path:
        """The data directory, `~` resolved."""
        return self.data.expanduser()

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.data_dir / 'assay.sqlite3'}"

    @property
    def token_file(self) -> Path:
        """File with the owner's token, readable by its owner only."""
        return self.data_dir / "token"

    @property
    def policy_file(self) -> Path:
        """Optional TOML file with numbers that replace the policy's defaults."""
        return self.data_dir / "policy.toml"

    @property
    def page_hosts(self) -> frozenset[str]:
        """Host names as a set."""
        return frozenset(name.strip().casefold() for name in self.hosts.split(",") if name.strip())

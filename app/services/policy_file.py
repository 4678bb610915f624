"""The operator's policy file: TOML that replaces numbers of the default policy."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.domain.errors import Refused
from app.domain.policy import Policy
from app.formats.wire import refused_by

_ADAPTER: TypeAdapter[Policy] = TypeAdapter(Policy)


def load_policy(path: Path) -> Policy:
    """The policy in force: the defaults, with what the file replaces.

    Raises:
        Refused: the file is no TOML, or names or sets something that the policy does not have.
    """
    if not path.exists():
        return Policy()
    try:
        given: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(
            f"The policy file is not TOML: {error}.",
            field=str(path),
            remedy="Correct it at the place named.",
            code="bad-policy",
        ) from error
    defaults = asdict(Policy())
    unknown = sorted(set(given) - set(defaults))
    if unknown:
        raise Refused(
            f"The policy has no {', '.join(unknown)}.",
            field=str(path),
            value=", ".join(unknown),
            remedy=f"Use {', '.join(defaults)}.",
            code="bad-policy",
        )
    given.setdefault("version", f"{defaults['version']}+file")
    try:
        return _ADAPTER.validate_python(defaults | given)
    except ValidationError as error:
        raise refused_by(error.errors(include_url=False)).within(str(path)) from error

"""Column types that mean the same on SQLite and PostgreSQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, String, Text
from sqlalchemy.types import TypeDecorator, TypeEngine


class UtcTime(TypeDecorator[datetime]):
    """An aware time in UTC. SQLite keeps fixed-width text, so that it sorts; PostgreSQL its own aware type."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Text on SQLite, TIMESTAMPTZ elsewhere."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(27))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Refuses naive times."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone cannot be stored")
        utc = value.astimezone(UTC)
        return utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if dialect.name == "sqlite" else utc

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Always aware, always UTC."""
        if value is None:
            return None
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        return value.astimezone(UTC)  # type: ignore[no-any-return]


class JsonText(TypeDecorator[Any]):
    """JSON kept as text, byte for byte: JSONB would change numbers, and digests are taken over what is
    stored."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Strict: NaN and Infinity are refused."""
        if value is None:
            return None
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Plain Python values."""
        return None if value is None else json.loads(value)

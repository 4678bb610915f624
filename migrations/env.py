"""Alembic's entry: runs the migrations over the connection that `app.store.migrate` hands in."""

from __future__ import annotations

from alembic import context

from app.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    include_name=lambda name, kind, parents: kind != "table" or not str(name).startswith("case_search"),
    render_as_batch=False,
    transaction_per_migration=False,
)
context.run_migrations()

"""Alembic's entry point: runs on the connection that `bot.store.migrate` hands over."""

from __future__ import annotations

from alembic import context

from bot.store import automod_tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=automod_tables.metadata,
    transactional_ddl=True,
)
context.run_migrations()

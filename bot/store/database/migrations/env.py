"""Alembic's entry point: runs on the connection that `bot.store.database.upgrade` hands over."""

from __future__ import annotations

from alembic import context

from bot.store.tables import fleet, policies, sessions  # noqa: F401 - add their tables
from bot.store.tables.queue import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True
)
context.run_migrations()

"""Brings a database's tables up to date with this version of the bot; forward only."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from bot.errors import StoreUnavailable

FOLDER = Path(__file__).parent / "migrations"
BEFORE_RELEASE = frozenset(f"{number:04}" for number in range(1, 20))
"""Versions of the tables before the first release; no migration leads from them to v001."""
_LOCK = 0x5D_1A_C5  # an advisory lock number that nothing else uses


def upgrade(connection: sa.Connection) -> None:
    """Run the migrations that are missing, inside the caller's transaction.

    Raises StoreUnavailable when the database was written by a newer version, or before the first release.
    """
    if connection.dialect.name == "postgresql":  # a write transaction of SQLite is exclusive
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    current = MigrationContext.configure(connection).get_current_revision()
    if current == newest(FOLDER):
        return
    if current in BEFORE_RELEASE:
        raise StoreUnavailable(
            "The queue's database was written before the first release: let queue.database name a new one."
        )
    config = alembic_config(FOLDER)
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreUnavailable(
            f"The queue's database was written by a newer version of the bot: start that version ({error})."
        ) from error


@cache
def newest(folder: Path) -> str | None:
    """Return the newest revision; a process reads the files of a folder of migrations once."""
    return ScriptDirectory.from_config(alembic_config(folder)).get_current_head()


def alembic_config(folder: Path) -> Config:
    """Return Alembic's configuration for a folder of migrations, without a connection."""
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config

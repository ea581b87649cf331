"""Brings a database's tables up to date with this version of the bot."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

from bot.errors import StoreUnavailable

_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x5D_1A_C5  # any number that nothing else in the database locks


def upgrade(connection: sa.Connection) -> None:
    """Run the migrations that are missing, inside the caller's transaction.

    Raises StoreUnavailable when the database was written by a newer version.
    """
    if connection.dialect.name == "postgresql":  # SQLite's transaction is alone already
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreUnavailable(
            f"The queue's database was written by a newer version of the bot: start that version ({error})."
        ) from error

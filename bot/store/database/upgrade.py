"""Brings a database's tables up to date with this version of the bot; forward only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from bot.domain.errors import StoreUnavailable

FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x5D_1A_C5  # an advisory lock number that nothing else uses
LOCK_SECONDS = 3
"""How long an upgrade waits for a lock. On PostgreSQL all later readers of the table wait behind it."""


def upgrade(connection: sa.Connection) -> None:
    """Run the migrations that are missing, inside the caller's transaction.

    Raises StoreUnavailable when the database was written by a newer version, and the driver's error when a
    lock is not free within LOCK_SECONDS: nothing has changed then.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
    _lock(connection)
    _forget_statistics(connection)
    current = MigrationContext.configure(connection).get_current_revision()
    if current == newest(FOLDER):
        return
    config = alembic_config(FOLDER)
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreUnavailable(
            f"The queue's database was written by a newer version of the bot: start that version ({error})."
        ) from error


def make_tables(connection: sa.Connection, revision: str) -> None:
    """Make the tables as `revision`, a known one, has them, inside the caller's transaction.

    The database must have none. A start that wants to upgrade the tables waits for the transaction.
    """
    _lock(connection)
    config = alembic_config(FOLDER)
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def tables_at(revision: str) -> frozenset[str]:
    """Return the names of the tables that `revision`, a known one, has."""
    return _tables_at(FOLDER, revision)


@cache
def _tables_at(_folder: Path, revision: str) -> frozenset[str]:
    engine = sa.create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            make_tables(connection, revision)
            return frozenset(sa.inspect(connection).get_table_names())
    finally:
        engine.dispose()


@dataclass(frozen=True, kw_only=True)
class Level:
    """The migration of a database (None: no tables), whether this version knows it, and the newest."""

    current: str | None
    is_known: bool
    head: str


def level(connection: sa.Connection) -> Level:
    """Return the level of a database, and change nothing."""
    current = MigrationContext.configure(connection).get_current_revision()
    return Level(current=current, is_known=current in _known(FOLDER), head=str(newest(FOLDER)))


def is_known(revision: str) -> bool:
    """Return whether this version knows a migration of this name."""
    return revision in _known(FOLDER)


@cache
def _known(folder: Path) -> frozenset[str]:
    scripts = ScriptDirectory.from_config(alembic_config(folder))
    return frozenset(script.revision for script in scripts.walk_revisions())


@cache
def newest(folder: Path) -> str | None:
    """Return the newest revision in a folder of migrations; cached, as it reads the files."""
    return ScriptDirectory.from_config(alembic_config(folder)).get_current_head()


def _lock(connection: sa.Connection) -> None:
    """Let one process change the tables at a time, until its transaction ends."""
    if connection.dialect.name == "postgresql":  # a write transaction of SQLite is exclusive
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def _forget_statistics(connection: sa.Connection) -> None:
    """Delete what an operator's ANALYZE has left in a file of SQLite.

    SQLite keeps only averages: if most images are done, it takes the waiting ones for as many, and reads the
    whole table for them. Without statistics it uses the indexes.
    """
    if connection.dialect.name == "sqlite":
        kept = sa.text("SELECT name FROM sqlite_master WHERE name LIKE 'sqlite_stat_'")
        for name in connection.scalars(kept).all():
            connection.execute(sa.text(f"DROP TABLE {name}"))


def alembic_config(folder: Path) -> Config:
    """Return Alembic's configuration for a folder of migrations, without a connection."""
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config

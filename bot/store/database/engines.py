"""The engine of a database from its URL: which are possible, and which driver each has."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.domain.errors import ConfigurationError
from bot.store.database.postgresql_server import create_postgresql_engine
from bot.store.database.sqlite_file import create_sqlite_engine

UPGRADE_SECONDS = 60.0
"""How long a start waits for SQLite's lock while another process upgrades the tables."""
STATEMENT_SECONDS = 86_400.0
"""How long one statement of an upgrade may take on PostgreSQL: it may index millions of rows."""
EXAMPLE = "sqlite+aiosqlite:///var/queue.sqlite3"
_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}


def check_url(url: str) -> None:
    """Raise ConfigurationError for a URL that can never work; no connection is made."""
    create_engine(parse_url(url))


def parse_url(url: str) -> sa.URL:
    """Return a URL with its driver; raises ConfigurationError for one that can never work."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        # The text is not repeated: it may hold a password.
        raise ConfigurationError(f"queue.database: this is no URL, such as {EXAMPLE}.") from None
    if "@" in (parsed.host or ""):
        raise ConfigurationError("queue.database: an @ in its password must be written %40.")
    backend = parsed.get_backend_name()
    if backend not in _DRIVERS:
        raise ConfigurationError("queue.database: this is neither sqlite nor postgresql.")
    if backend == "sqlite" and (parsed.host or parsed.port is not None or parsed.username is not None):
        raise ConfigurationError(
            f"queue.database: it has two slashes before its file: write three, as in {EXAMPLE}, or four "
            "before a whole path."
        )
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise ConfigurationError(
            "queue.database: SQLite needs a file: in memory it would forget accepted jobs."
        )
    return parsed.set(drivername=_DRIVERS[backend])


def patient(url: sa.URL) -> sa.URL:
    """Return the URL for an upgrade of the tables: it may take long, and another process may be at it."""
    if url.get_backend_name() != "sqlite":
        return url.update_query_dict({"command_timeout": str(STATEMENT_SECONDS)})
    if "timeout" in url.query:
        return url
    return url.update_query_dict({"timeout": str(UPGRADE_SECONDS)})


def create_engine(url: sa.URL) -> AsyncEngine:
    """Return the engine of a URL; it connects to nothing yet. Raises ConfigurationError."""
    create = create_sqlite_engine if url.get_backend_name() == "sqlite" else create_postgresql_engine
    try:
        return create(url, json_serializer=json_text)
    except (ValueError, OverflowError, TypeError, sa.exc.ArgumentError):
        # The values are not repeated: one may be a secret.
        options = ", ".join(sorted(url.query))
        raise ConfigurationError(f"queue.database: correct the value of an option: {options}.") from None


def json_text(value: Any) -> str:
    """Return JSON with people's words as they are: escapes would double or triple the words of most scripts.

    Lone surrogates stay escaped, because no database takes them as text.
    """
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()

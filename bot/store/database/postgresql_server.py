"""PostgreSQL on a server: the set-up of connections, and the server's name in messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bot.domain.errors import ConfigurationError

MOST_PORT = 65535
# The query parameters of an address that asyncpg takes.
_TEXTS = {"host", "port", "user", "password", "passfile", "service", "servicefile", "database", "ssl"}
_TEXTS |= {"target_session_attrs", "krbsrvname", "gsslib", "prepared_statement_cache_size"}
_NUMBERS = {"timeout": float, "command_timeout": float, "statement_cache_size": int}
# Without these timeouts a hanging server blocks the bot, and workers do not notice lost leases.
_PATIENCE = {"timeout": 10.0, "command_timeout": 30.0}
_SETTINGS = {
    "application_name": "sdjax-bot",
    # A machine that loses its power closes no connection: its locks must not be held for hours.
    "idle_in_transaction_session_timeout": "60s",
}


def create_postgresql_engine(url: sa.URL, *, json_serializer: Callable[[Any], str]) -> AsyncEngine:
    """Return an engine whose transactions are READ COMMITTED by default; connects to nothing.

    Raises ConfigurationError without the driver, for options that the driver does not have, or for a host or
    a port that can never work.
    """
    arguments = {**_PATIENCE, "server_settings": _SETTINGS, **_numbers(url)}
    unknown = sorted(url.query.keys() - _TEXTS - _NUMBERS.keys())
    if unknown:
        raise ConfigurationError(
            f"queue.database: its driver does not have the options: {', '.join(unknown)}"
            f"{' (write ssl=require for TLS)' if 'sslmode' in unknown else ''}."
        )
    try:
        engine = create_async_engine(
            url.difference_update_query(_NUMBERS),
            connect_args=arguments,
            json_serializer=json_serializer,
            isolation_level="READ COMMITTED",  # the locks are designed for this level
            pool_pre_ping=True,
            hide_parameters=True,  # parameters include tokens and prompts, and errors are logged
        )
    except ModuleNotFoundError:
        raise ConfigurationError(
            "queue.database: PostgreSQL needs its driver: pip install 'sdjax-bot[postgres]'."
        ) from None
    _, options = engine.dialect.create_connect_args(url)
    _check_servers(options)
    return engine


def has_password(url: str) -> bool:
    """Return whether the database's address holds a password; an invalid address may."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        return True
    return parsed.password is not None or "password" in parsed.query


def postgresql_place(url: sa.URL) -> str:
    """Return the database's address without passwords, for messages."""
    return url.difference_update_query(["password"]).render_as_string(hide_password=True)


def _check_servers(options: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for a host or a port of the driver's options that can never work."""
    hosts, ports = (_listed(options.get(name)) for name in ("host", "port"))
    if not all(1 <= port <= MOST_PORT for port in ports):
        raise ConfigurationError(f"queue.database: a port is a number from 1 to {MOST_PORT}.")
    # A path is the folder of a socket.
    if not all(host.startswith("/") or _is_host(host) for host in hosts):
        raise ConfigurationError("queue.database: its host is no name of a machine.")


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _is_host(name: str) -> bool:
    """Return whether a name can be looked up: each part has at most 63 characters."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


def _numbers(url: sa.URL) -> dict[str, Any]:
    """Return the numbers among the options; raises ValueError, also for those that the driver refuses."""
    numbers = {name: kind(str(url.query[name])) for name, kind in _NUMBERS.items() if name in url.query}
    if not all(
        number >= 0 if name == "statement_cache_size" else number > 0 for name, number in numbers.items()
    ):
        raise ValueError
    return numbers

"""Checks the addresses in the configuration."""

from __future__ import annotations

from ipaddress import ip_address

from yarl import URL

from bot.config.mistakes import InvalidValue
from bot.config.paths import check_path

SUPPORTED_DATABASES = ("sqlite+aiosqlite", "postgresql+asyncpg")
UNENCRYPTED = ("http", "ws", "ftp")


def check_api_url(value: str) -> str:
    """Return the address of Discord's API without a slash at its end; raises InvalidValue."""
    url = URL(value)
    if url.scheme not in ("https", "http") or not url.host:
        raise InvalidValue("this is not an address of the form https://host/path")
    if not url.path.rstrip("/").endswith("/v10"):
        raise InvalidValue("this must end in /v10, the version of Discord's API that the bot speaks")
    return value.rstrip("/")


def check_http(value: str) -> str:
    """Return an address of a web server, or an empty text; raises InvalidValue."""
    url = URL(value)
    if value and (url.scheme not in ("https", "http") or not url.host):
        raise InvalidValue("this is not an address of the form https://host/path")
    return value


def check_gateway_url(value: str) -> str:
    """Return the address of Discord's gateway; raises InvalidValue."""
    url = URL(value)
    if url.scheme not in ("wss", "ws") or not url.host:
        raise InvalidValue("this is not an address of the form wss://host/path")
    return value


def check_database(value: str) -> str:
    """Return the address of the queue's database; raises InvalidValue."""
    scheme, separator, rest = value.partition("://")
    if not separator or scheme not in SUPPORTED_DATABASES:
        choices = " or ".join(f"{scheme}://…" for scheme in SUPPORTED_DATABASES)
        raise InvalidValue(f"this is not the address of a database this bot can use: write {choices}")
    if scheme == SUPPORTED_DATABASES[0]:
        check_path(rest.partition("?")[0])
    return value


def leaves_unencrypted(address: str) -> bool:
    """Return whether data for `address` leaves this machine without encryption."""
    try:
        url = URL(address)
    except ValueError:
        return False
    return url.scheme in UNENCRYPTED and url.host is not None and not is_loopback(url.host)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches `host`. An empty host means the loopback."""
    if not host or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

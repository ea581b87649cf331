"""Addresses in the configuration: which can work, and which send secrets where others can read them."""

from __future__ import annotations

from ipaddress import ip_address

from yarl import URL

from bot.config_mistakes import Impossible

SUPPORTED_DATABASES = ("sqlite+aiosqlite", "postgresql+asyncpg")
PLAIN = ("http", "ws", "ftp")


def check_api_url(value: str) -> str:
    """The address of Discord's API, without a slash at its end; raises Impossible."""
    url = URL(value)
    if url.scheme not in ("https", "http") or not url.host:
        raise Impossible(f"“{value}” is not an address of the form https://host/path")
    if not url.path.rstrip("/").endswith("/v10"):
        raise Impossible(f"“{value}” must end in /v10, the version of Discord's API that the bot speaks")
    return value.rstrip("/")


def check_gateway_url(value: str) -> str:
    """The address of Discord's gateway; raises Impossible."""
    url = URL(value)
    if url.scheme not in ("wss", "ws") or not url.host:
        raise Impossible(f"“{value}” is not an address of the form wss://host/path")
    return value


def check_database(value: str) -> str:
    """The address of the queue's database; raises Impossible."""
    scheme, separator, _ = value.partition("://")
    if not separator or scheme not in SUPPORTED_DATABASES:
        choices = " or ".join(f"{scheme}://…" for scheme in SUPPORTED_DATABASES)
        raise Impossible(f"“{value}” is not a database this bot can use: write {choices}")
    return value


def readable_on_the_way(address: str) -> bool:
    """Whether what is sent to `address` leaves this machine without encryption."""
    try:
        url = URL(address)
    except ValueError:
        return False
    return url.scheme in PLAIN and url.host is not None and not is_loopback(url.host)


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine alone; an empty one is."""
    if not host or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

"""What the sections of the configuration share: their base, ids of Discord's, paths and addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from yarl import URL

from bot.config.mistakes import InvalidValue

Snowflake = Annotated[int, Field(ge=1, lt=2**63)]
"""An id of Discord's."""


class Section(BaseModel):
    """Base of the sections: frozen, without unknown keys, with finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Listener(Section):
    """Where something is served: nowhere for port 0, on the loopback for an empty host."""

    host: str = ""
    port: Annotated[int, Field(ge=0, le=65535)] = 0


def repeated(values: Iterable[Any]) -> list[Any]:
    """Return each value that occurs more than once, in sorted order."""
    return sorted(value for value, count in Counter(values).items() if count > 1)


MOST_IN_NAME, MOST_IN_PATH = 255, 2000  # bytes; file systems take no longer name, and Linux 4095 for a path
LOCAL = ("file", "local")  # schemes of fsspec


def check_path(value: str) -> str:
    """Return the value if a file may have this path; raises InvalidValue.

    Without this check each use of the path would have to expect that the system refuses the text itself.
    """
    if "\0" in value:
        raise InvalidValue("no file has a null character in its path")
    names = value.encode(errors="replace").split(b"/")
    if max(map(len, names)) > MOST_IN_NAME or sum(map(len, names)) > MOST_IN_PATH:
        raise InvalidValue(f"a path has at most {MOST_IN_NAME} bytes in each name, and {MOST_IN_PATH} in all")
    return value


def check_place(value: str) -> str:
    """Return the value if it may be an address of fsspec, or a path like those of `check_path`."""
    scheme, separator, _ = value.partition("://")
    if separator and scheme not in LOCAL and "\0" not in value:
        return value  # it may have a long password, and a bucket's names have no limit of a file system
    return check_path(value)


PathText = Annotated[str, AfterValidator(check_path)]
"""A path, or empty; the file need not exist."""
GivenPath = Annotated[str, Field(min_length=1), AfterValidator(check_path)]
"""A path that may not be empty."""
PlaceText = Annotated[str, Field(min_length=1), AfterValidator(check_place)]
"""A path or an address for pictures."""


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

"""Texts of the configuration that name a file or folder of a machine."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from bot.config.mistakes import InvalidValue

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

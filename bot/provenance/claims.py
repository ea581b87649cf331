"""What every mark claims: the digital source type of a picture, and the program that made it."""

from __future__ import annotations

import contextlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from sdjax_engine.images import starts_from_picture

SOURCE_TYPES = "http://cv.iptc.org/newscodes/digitalsourcetype/"
PAINTED = SOURCE_TYPES + "trainedAlgorithmicMedia"
PAINTED_OVER = SOURCE_TYPES + "compositeWithTrainedAlgorithmicMedia"
NAME = "sdjax-bot"


def source_type_of(data: bytes) -> str:
    """Return IPTC's digital source type of a picture file by its recipe."""
    return PAINTED_OVER if starts_from_picture(data) else PAINTED


def generator() -> dict[str, str]:
    """Return the name of this program, and its version if it is installed."""
    named, installed = {"name": NAME}, _version()
    return named if installed is None else named | {"version": installed}


@cache
def _version() -> str | None:
    # It is read from a file, once: a front without free file descriptors signs too.
    with contextlib.suppress(PackageNotFoundError):
        return version(NAME)
    return None

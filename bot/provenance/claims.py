"""What every mark claims: the digital source type of a picture, and the program that made it."""

from __future__ import annotations

import contextlib
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
    named = {"name": NAME}
    with contextlib.suppress(PackageNotFoundError):
        named["version"] = version(NAME)
    return named

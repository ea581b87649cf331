"""Reads untrusted JSON files of bounded size and depth; every fault raises an error of one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint, first_line, in_bytes

MOST_BYTES = 16 * 2**20
MOST_LEVELS = 32


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, or raise UnreadableCheckpoint."""
    try:
        with path.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UnreadableCheckpoint(f"{path} has more than {in_bytes(MOST_BYTES)} of JSON.")
        content = json.loads(data.decode("utf-8"))
    except FileNotFoundError:
        raise UnreadableCheckpoint(f"{path} is missing.") from None
    except (OSError, ValueError) as error:
        raise UnreadableCheckpoint(f"{path} cannot be read: {first_line(error)}") from error
    except RecursionError:
        raise too_deep(path) from None
    if levels_exceed(content, MOST_LEVELS):
        raise too_deep(path)
    if not isinstance(content, dict):
        raise UnreadableCheckpoint(f"{path} does not hold a JSON object.")
    return content


def too_deep(path: Path) -> UnreadableCheckpoint:
    return UnreadableCheckpoint(f"{path} is JSON nested more than {MOST_LEVELS} levels deep.")


def levels_exceed(content: object, most: int) -> bool:
    """Whether lists and objects are nested more than `most` levels deep."""
    level = [content]
    for _ in range(most + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True

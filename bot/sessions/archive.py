"""The archive of a round or a session: zip files of pictures, with recipes and votes as JSON.

    session.json         theme, rounds, and for each picture its file, name, recipe and votes
    round-1/1-Mina.png   the pictures, as painted

Each zip file is at most as large as Discord accepts; the pictures are divided over as many as needed.
"""

from __future__ import annotations

import io
import json
import re
import unicodedata
import zipfile
from collections.abc import Sequence
from typing import Any

from bot.domain.jobs import GIVEN
from bot.store.rows.jobs import every_value
from bot.store.rows.sessions import GroupSession, plan_values
from bot.store.sessions.boards import Entry

OVERHEAD = 512  # bytes that a zip file needs for each of its files, at most
DOCUMENT = "session.json"
MAX_NAME = 32  # characters


class Packer:
    """Divides files over zip files of at most `limit` bytes, in order, one zip file in memory at a time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._files: dict[str, bytes] = {}
        self._size = 0

    def fits(self, data: bytes) -> bool:
        """Return whether a file fits into a zip file."""
        return len(data) + OVERHEAD <= self._limit

    def add(self, name: str, data: bytes) -> bytes | None:
        """Add a file that fits; if the current zip file has no room for it, return that and begin another."""
        needed = len(data) + OVERHEAD
        full = self.take() if self._files and self._size + needed > self._limit else None
        self._files[name] = data
        self._size += needed
        return full

    def take(self) -> bytes:
        """Return the zip file of the files added since the last one."""
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:  # a PNG is compressed already
            for name, data in self._files.items():
                archive.writestr(name, data, zipfile.ZIP_DEFLATED if name == DOCUMENT else None)
        self._files, self._size = {}, 0
        return made.getvalue()


def document(session: GroupSession, entries: Sequence[Entry], *, unseen: int) -> bytes:
    """Return the description of a session as JSON, without the pictures that are not shown.

    `unseen` is the number of pictures that are withheld or held.
    """
    plan = plan_values(session.plan)
    values: dict[str, Any] = {
        "session": session.id,
        **{key: plan[key] for key in ("theme", "style", "required", "quota")},
        "opened_at": session.opened_at,
        "left_out": unseen,
        "pictures": [_described(entry) for entry in entries if entry.artifact is not None],
    }
    return json.dumps(values, ensure_ascii=False, indent=2).encode()


def _described(entry: Entry) -> dict[str, Any]:
    recipe = every_value(entry.recipe.from_image(entry.index))
    return {
        "round": entry.round,
        "number": entry.number,
        "name": entry.user_name,
        "file": file_name(entry),
        "votes": entry.votes,
        "seed": entry.seed,
        "recipe": {key: value for key, value in recipe.items() if key not in GIVEN},
    }


def file_name(entry: Entry) -> str:
    """Return the name of a picture in the archive: letters and digits of any script only."""
    name = re.sub(r"[^\w]+", "-", unicodedata.normalize("NFKC", entry.user_name))[:MAX_NAME].strip("-")
    return f"round-{entry.round}/{entry.number}{f'-{name}' if name else ''}.png"

"""Which types of files an option of a command or a form takes (`file_types`); pure.

Source: discord/discord-api-docs#8506. Discord does not document the extensions of the groups; these are the
ones that its client took in August 2026.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from bot.sandbox.rejections import FormErrors, Json, Path

MAX_FILE_TYPES = 10
EXTENSION = re.compile(r"\.[A-Za-z0-9][\w.+-]{0,30}", re.ASCII)
GROUPS = {
    "image": frozenset({".png", ".gif", ".jpg", ".jpeg", ".jfif", ".webp", ".avif"}),
    "video": frozenset({".mp4", ".mov", ".qt", ".webm"}),
    "audio": frozenset({".mp3", ".m4a", ".wav", ".ogg", ".opus", ".flac"}),
}


def check_file_types(part: Json, path: Path, errors: FormErrors) -> None:
    """Add every mistake of a part's `file_types` to `errors`."""
    types = part.get("file_types")
    if types is None:
        return
    if not isinstance(types, list):
        errors.add((*path, "file_types"), "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType.")
        return
    errors.length((*path, "file_types"), types, 0, MAX_FILE_TYPES)
    for index, one in enumerate(types):
        if one not in GROUPS and not (isinstance(one, str) and EXTENSION.fullmatch(one)):
            message = f"Value must be one of {sorted(GROUPS)} or an extension with its dot."
            errors.add((*path, "file_types", index), "BASE_TYPE_CHOICES", message)


def takes(types: Sequence[str] | None, filename: str) -> bool:
    """Whether a part with these `file_types` takes a file of this name; without any it takes all files."""
    ending = PurePosixPath(filename).suffix.lower()
    return not types or any(
        ending in GROUPS[one] if one in GROUPS else filename.lower().endswith(one.lower()) for one in types
    )

"""The folder of a network that the configuration names besides a checkpoint, local or from the hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights.file_names import Report, is_hub_id


def find_named_folder(source: str, files: Sequence[str], report: Report | None) -> Path:
    """Return the local folder of `source`, downloading `files` (patterns) where it is a hub id.

    Raises UnreadableCheckpoint.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.exists() or not is_hub_id(source):
        *others, last = (name for name in files if "?" not in name)
        raise UnreadableCheckpoint(
            f"There is no folder “{source}”: name a folder with {', '.join(others)} and {last}, or a hub id."
        )
    from sdjax_engine.weights.hub import fetch  # noqa: PLC0415 - the hub's client is slow to import

    return fetch(source, files, revision=None, report=report)

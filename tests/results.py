"""Tells a result's files from the previews that a message shows before."""

from __future__ import annotations

from typing import Any


def shows_result(message: dict[str, Any]) -> bool:
    """Whether a message has the files of a finished request."""
    names = [str(file["filename"]) for file in message["attachments"]]
    return any(not name.removeprefix("SPOILER_").startswith("preview") for name in names)

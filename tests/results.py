"""What a message says and offers, and whether it shows a result or the previews before it."""

from __future__ import annotations

from typing import Any

from bot.sandbox.component_rules import walk


def shows_result(message: dict[str, Any]) -> bool:
    """Whether a message has the files of a finished request."""
    names = [str(file["filename"]) for file in message["attachments"]]
    return any(not name.removeprefix("SPOILER_").startswith("preview") for name in names)


def text_of(message: dict[str, Any]) -> str:
    """The text of a message's components."""
    return "\n".join(part["content"] for _, part in walk(message["components"]) if "content" in part)


def labels(message: dict[str, Any]) -> list[str]:
    """The labels of a message's buttons."""
    return [part["label"] for _, part in walk(message["components"]) if "label" in part]

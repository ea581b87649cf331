"""The traffic between the bot and the sandbox, for checks against Discord's API documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One REST request with its answer. `route` is the path as Discord's documents write it;
    `request` and `response` are the JSON bodies (of a multipart request its `payload_json`)."""

    method: str
    route: str
    query: Mapping[str, str]
    request: Any
    status: int
    response: Any


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One gateway payload; `event` is a dispatch's type and None for every other opcode."""

    from_bot: bool
    op: int
    event: str | None
    payload: Any


Observer = Callable[[Exchange | Frame], None]


def nobody(_seen: Exchange | Frame) -> None:
    """The default observer: it ignores every exchange."""

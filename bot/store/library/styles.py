"""Styles: texts around a prompt, and options, that a server keeps under a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.store.database.database import of_row
from bot.store.library.named import NamedRows
from bot.store.rows.audit import Act
from bot.store.tables import queue

MAX_STYLES = 100  # of one server


@dataclass(frozen=True, kw_only=True)
class Style:
    """One style. `options` are values by the names of options of /imagine.

    `example` is the address of a message that shows a picture of this style; empty without one.
    """

    name: str
    prompt: str = ""
    negative_prompt: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    example: str = ""


class Styles(NamedRows[Style]):
    """The verbs of styles."""

    table = queue.styles
    most = MAX_STYLES
    full = "styles_full"
    act = Act.STYLE

    @staticmethod
    def _read(row: Any) -> Style:
        return of_row(Style, row, options=dict(row.options))

    @staticmethod
    def _values(thing: Style) -> Mapping[str, Any]:
        texts = {"prompt": thing.prompt, "negative_prompt": thing.negative_prompt}
        return {**texts, "options": dict(thing.options), "example": thing.example}

"""The content of a message as data: text, pictures, buttons and menus."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bot.delivery.buttons import MenuContent, Row

MAX_ALT = 1024
SUBTEXT = "-# "  # Markdown of a small line


class Tone(StrEnum):
    """The meaning of the colour beside a message."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class PictureContent:
    """The pictures to show as one file: names of artifacts in order, and the file name without suffix.

    The tiles of a grid are numbered from `first`, as the buttons are.
    A `spoiler` is covered until a person uncovers it.
    """

    artifacts: tuple[str, ...]
    first: int = 1
    stem: str
    alt: str
    spoiler: bool = False


@dataclass(frozen=True, kw_only=True)
class MessageContent:
    """The content of a message; an edit to an equal content is not needed.

    If words are cut, the line `folded` names the buttons that show all words. The menu `more` is before the
    last row. A `refusal` is shown only to its person if Discord still allows that.
    """

    heading: str
    status: str = ""
    footer: str = ""
    folded: str = ""
    pictures: tuple[PictureContent, ...] = ()
    rows: tuple[Row, ...] = ()
    menus: tuple[MenuContent, ...] = ()
    more: MenuContent | None = None
    tone: Tone
    refusal: bool = False

    @property
    def buttons(self) -> Row:
        """Every button, in reading order."""
        return tuple(button for row in self.rows for button in row)

    @property
    def text(self) -> str:
        """Every line of text, in reading order."""
        return "\n".join(part for part in (self.heading, self.status, self.footer, self.folded) if part)


def shortened(alt: str, most: int = MAX_ALT) -> str:
    """Return alternative text cut to `most` characters, by default as many as Discord takes."""
    return alt if len(alt) <= most else alt[: most - 1] + "…"

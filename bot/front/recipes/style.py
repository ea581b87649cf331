"""A style around the words of a person; no Discord here.

the command ◄── its style ◄── the person's settings ◄── the style in them ◄── the channel's ◄── …
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.domain.errors import UserMistake
from bot.domain.expansion import PLACE, in_places
from bot.front.recipes.options import MAX_CHOICES, Asked, clean, echo
from bot.store.library.named import key_of
from bot.store.library.styles import Style
from bot.texts.markup import tidy

STYLE = "style"
NO_STYLE = "-"
MAX_NAME = 60
MAX_TEXT = 1000


def style_name(text: str) -> str:
    """Return a style's name on one line.

    Raises UserMistake `style_name` for a name that is empty, too long, or has control characters.
    """
    name = " ".join(text.split())
    if not name or len(name) > MAX_NAME or name != tidy(clean(name)) or name == NO_STYLE:
        raise UserMistake("style_name", limit=MAX_NAME)
    return name


def style_text(text: str) -> str:
    """Return a style's text; raises UserMistake `style_text` for one that is too long."""
    cleaned = clean(text)
    if len(cleaned) > MAX_TEXT:
        raise UserMistake("style_text", count=len(cleaned), limit=MAX_TEXT)
    return cleaned


def styled(asked: Asked, style: Style) -> Asked:
    """Return `asked` with the texts of a style around its words; options are left as they are."""
    negative = placed(style.negative_prompt, asked.negative_prompt or "")
    return replace(
        asked,
        prompt=placed(style.prompt, asked.prompt),
        negative_prompt=negative or asked.negative_prompt,
        style=style.name,
    )


def placed(text: str, words: str) -> str:
    """Return a style's text with a person's words in place of `{prompt}`, or before the text without it.

    Raises InvalidRequest `long_prompt` where that is far too long for a prompt.
    """
    if PLACE not in text:
        return ", ".join(filter(None, (words, text)))
    return in_places(text, words).strip(" ," if not words else " ")


def with_style(levels: Sequence[Mapping[str, Any]], style: Style, *, before: int) -> list[Mapping[str, Any]]:
    """Return options of several owners, the nearest first, with those of a style as a level of their own."""
    return [*levels[:before], style.options, *levels[before:]]


def find(name: str, styles: Iterable[Style]) -> Style | None:
    """Return the first style of this name, in any letter case."""
    return next((style for style in styles if key_of(style.name) == key_of(name)), None)


def style_choices(typed: str, styles: Iterable[Style]) -> list[str]:
    """Return the names to suggest for `typed`; names that begin with it come first."""
    wanted = key_of(typed)
    keys = {key_of(style.name): style.name for style in reversed([*styles])}  # a server's own comes first
    found = sorted((not key.startswith(wanted), key) for key in keys if wanted in key)
    return [keys[key] for _, key in found][:MAX_CHOICES]


def unknown_style(name: str, styles: Iterable[Style]) -> UserMistake:
    """Return the error for a name that no style has."""
    names = style_choices("", styles)
    if not names:
        return UserMistake("style_none", value=echo(name))
    return UserMistake("style_unknown", value=echo(name), choices=", ".join(names))

"""The forms of a text in which rules look for words: as it was typed, and as the engine reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bot.process.threads import Check, unlimited
from sdjax_engine.prompts import read_prompt


def forms_of(texts: Iterable[str], check: Check = unlimited) -> list[str]:
    """Return the texts, and after them what the engine reads in place of a text where that differs.

    The engine replaces HTML entities, wide letters and wrongly decoded ones, and removes the brackets of
    emphasis: it paints `bl&#111;od` and `dead bo(d)y` as blood and a dead body.
    """
    written = list(texts)
    forms = (form for text in written for form in _forms(text, check) if form not in written)
    return [*written, *dict.fromkeys(forms)]


def _forms(text: str, check: Check) -> Iterator[str]:
    check("")
    prompt = read_prompt(text)
    if prompt.text != text.strip():
        yield prompt.text
    spelled = "".join(f"{' ' if piece.breaks else ''}{piece.text}" for piece in prompt.pieces)
    if spelled != prompt.text:
        yield spelled

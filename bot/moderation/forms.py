"""What the rules read of a prompt: the text as it is written, and as the engine reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sdjax_engine.prompts import read_prompt


def forms_of(texts: Iterable[str]) -> list[str]:
    """Return the texts, and after them those that the engine reads otherwise, as it reads them.

    The engine replaces HTML entities, wide letters and wrongly decoded ones, and takes the brackets of
    emphasis away: it paints `bl&#111;od` and `dead bo(d)y` as blood and a dead body.
    """
    written = list(texts)
    return [*written, *dict.fromkeys(read for text in written for read in _read(text) if read not in written)]


def _read(text: str) -> Iterator[str]:
    prompt = read_prompt(text)
    if prompt.text != text.strip():
        yield prompt.text
    spelled = "".join(f"{' ' if piece.breaks else ''}{piece.text}" for piece in prompt.pieces)
    if spelled != prompt.text:
        yield spelled

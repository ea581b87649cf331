"""What the rules read of a prompt: the text as it is written, and as the engine reads it."""

from __future__ import annotations

from collections.abc import Iterable

from sdjax_engine.prompts import clean


def forms_of(texts: Iterable[str]) -> list[str]:
    """Return the texts, and after them those that the engine reads otherwise, as it reads them.

    The engine replaces HTML entities, wide letters and wrongly decoded ones: it paints `bl&#111;od` as blood.
    """
    written = list(texts)
    return [*written, *(read for text in written if (read := clean(text)) != text.strip())]

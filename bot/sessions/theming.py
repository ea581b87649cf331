"""The theme, the style and the required words of a session, in the recipe of each picture."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from bot.domain.errors import UserMistake
from bot.domain.expansion import PLACE, in_places
from bot.domain.jobs import Recipe
from bot.store.rows.sessions import Plan
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import MAX_PROMPT_CHARACTERS

_LETTER = re.compile(r"[^\W\d_]", re.ASCII)


def themed(recipe: Recipe, plan: Plan) -> Recipe:
    """Return the recipe with the words of the session's style and theme, each unless it has them already.

    Raises UserMistake `session_words` where a required word is missing, and `session_long`.
    """
    try:
        prompt = with_words(with_words(recipe.prompt, plan.style_prompt), plan.theme)
        negative = with_words(recipe.negative_prompt, plan.style_negative)
    except InvalidRequest:
        raise UserMistake("session_long", limit=MAX_PROMPT_CHARACTERS) from None
    if max(len(prompt), len(negative)) > MAX_PROMPT_CHARACTERS:
        raise UserMistake("session_long", limit=MAX_PROMPT_CHARACTERS)
    if missing := missing_words(prompt, plan.required):
        raise UserMistake("session_words", words=", ".join(missing))
    return replace(recipe, prompt=prompt, negative_prompt=negative, style=plan.style or recipe.style)


def with_words(words: str, text: str) -> str:
    """Return `words` with `text` after them or, at its PLACE, around them; unchanged if `text` is in them.

    Raises InvalidRequest `long_prompt` where that is far too long for a prompt.
    """
    before, place, after = text.partition(PLACE)
    parts = [part.strip(" ,") for part in (before, after)]
    if all(part in words for part in parts):
        return words
    if not place:
        return ", ".join(filter(None, (words, parts[0])))
    return in_places(text, words).strip(" ,")


def missing_words(prompt: str, required: Sequence[str]) -> list[str]:
    """Return the required words that a prompt lacks; letter case and endings do not count."""
    said = _plain(prompt)
    return [word for word in required if not _finds(_plain(word), said)]


def _finds(word: str, said: str) -> bool:
    """Return whether a word of `said` begins with `word`; other scripts than Latin may join words."""
    beginning = r"\b" if _LETTER.match(word) else ""
    return re.search(beginning + re.escape(word), said) is not None


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())

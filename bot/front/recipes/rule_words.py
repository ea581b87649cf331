"""The name and the words of a rule on prompts, as a moderator typed them."""

from __future__ import annotations

from bot.domain.errors import UserMistake
from bot.front.recipes.options import clean
from bot.texts.markup import tidy

MAX_NAME = 60
MAX_TERMS = 500
MAX_TERM = 100  # characters


def rule_name(text: str) -> str:
    """Return a rule's name on one line; raises UserMistake `rule_name`."""
    name = " ".join(text.split())
    if not name or len(name) > MAX_NAME or name != tidy(clean(name)):
        raise UserMistake("rule_name", limit=MAX_NAME)
    return name


def read_terms(text: str, *, least: int) -> tuple[str, ...]:
    """Return words and phrases, one a line; raises UserMistake `rule_terms`."""
    terms = tuple(dict.fromkeys(filter(None, (" ".join(clean(line).split()) for line in text.splitlines()))))
    if not least <= len(terms) <= MAX_TERMS or any(len(term) > MAX_TERM for term in terms):
        raise UserMistake("rule_terms", limit=MAX_TERMS, characters=MAX_TERM)
    return terms

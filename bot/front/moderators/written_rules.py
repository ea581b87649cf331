"""The rules on prompts of a server as moderators write and name them."""

from __future__ import annotations

from collections.abc import Sequence

from bot.domain.errors import UserMistake
from bot.front.recipes.options import clean
from bot.front.services.request import Request, patiently
from bot.store.moderation.prompt_rules import PromptRule
from bot.texts.markup import tidy

MAX_NAME = 60
MAX_TERMS = 500
MAX_TERM = 100  # characters


async def rules_of(request: Request) -> list[PromptRule]:
    """Return the rules of the server."""
    read = request.services.store.prompt_rules.of
    return await patiently(read, request.guild_id or 0)


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


def unknown_rule(name: str, rules: Sequence[PromptRule]) -> UserMistake:
    """Return the error for a name that no rule has."""
    if not rules:
        return UserMistake("rule_none", value=name)
    return UserMistake("rule_unknown", value=name, choices=", ".join(rule.name for rule in rules[:10]))

"""Rules on prompts: which rule of a server refuses or holds the words of a request; pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bot.moderation.readings import Readings, read
from bot.moderation.terms import Terms
from bot.store.prompt_rules import Action, PromptRule


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The rule that refuses or holds a request, and the terms that it found, for moderators."""

    rule: PromptRule
    found: tuple[str, ...]


def judged(texts: Sequence[str], rules: Sequence[PromptRule], *, channel_id: int | None) -> Verdict | None:
    """Return the first rule that refuses one of the texts of a request, or else the first that holds it.

    None where no rule does either.
    """
    here = [rule for rule in rules if rule.channel_id in (None, channel_id)]
    allowed = [term for rule in here if rule.action is Action.ALLOW for term in rule.terms]
    severe = [[rule for rule in here if rule.action is action] for action in (Action.REFUSE, Action.HOLD)]
    if not any(severe):
        return None
    readings = list(_readings(texts, allowed))
    for rule in (*severe[0], *severe[1]):
        for reading in readings:
            if found := _found(reading, rule):
                return Verdict(rule=rule, found=found)
    return None


def _readings(texts: Iterable[str], allowed: Sequence[str]) -> Iterator[Readings]:
    for text in filter(str.strip, texts):
        yield read(_without(text, tuple(allowed)))


def _found(reading: Readings, rule: PromptRule) -> tuple[str, ...]:
    """Return what of a rule's terms a text has; empty where the rule does not apply."""
    found = compiled(rule.terms).find_all(reading)
    if not found or not rule.also:
        return tuple(found)
    beside = compiled(rule.also).find_all(reading)
    return (*found, *beside) if beside else ()


def _without(text: str, phrases: tuple[str, ...]) -> str:
    """Return a text without whole phrases, in any letter case."""
    return _pattern(phrases).sub(" ", text) if phrases else text


@lru_cache(maxsize=256)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    words = sorted(("".join(map(re.escape, phrase)) for phrase in phrases), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)


@lru_cache(maxsize=1024)
def compiled(terms: tuple[str, ...]) -> Terms:
    """Return the terms ready to be looked for, kept for the next prompt."""
    return Terms(terms)

"""Rules on prompts: which rule of a server refuses or holds the words of a request; pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product

from bot.moderation.readings import Readings, read
from bot.moderation.terms import Terms
from bot.store.prompt_rules import Action, PromptRule

LONG_LIST = 500
_SEVERE = (Action.REFUSE, Action.HOLD)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The rule that refuses or holds a request, and the terms that it found, for moderators."""

    rule: PromptRule
    found: tuple[str, ...]


def judged(
    texts: Sequence[str], rules: Sequence[PromptRule], *, channel_ids: Collection[int]
) -> Verdict | None:
    """Return the first rule that refuses the first such text of a request, or else the first that holds it.

    None where no rule does either. `channel_ids` are the request's channel and, for a thread, its channel.
    """
    here = [rule for rule in rules if rule.channel_id is None or rule.channel_id in channel_ids]
    allowed = [term for rule in here if rule.action is Action.ALLOW for term in rule.terms]
    refusing, holding = ([rule for rule in here if rule.action is action] for action in _SEVERE)
    severe = [*refusing, *holding]
    if not severe:
        return None
    # One list of all rules' terms is searched for in a fraction of the time of a list for each rule.
    every = compiled(tuple(dict.fromkeys(chain.from_iterable((*rule.terms, *rule.also) for rule in severe))))
    there = [frozenset(every.find_all(reading)) for reading in _readings(texts, allowed)]
    for rules_of_action in (refusing, holding):
        for terms, rule in product(filter(None, there), rules_of_action):
            if found := _found(terms, rule):
                return Verdict(rule=rule, found=found)
    return None


def _readings(texts: Iterable[str], allowed: Sequence[str]) -> Iterator[Readings]:
    for text in filter(str.strip, texts):
        yield read(_without(text, tuple(allowed)))


def _found(there: frozenset[str], rule: PromptRule) -> tuple[str, ...]:
    """Return which terms of a rule are there; none where the rule does not apply."""
    found = tuple(term for term in rule.terms if term in there)
    beside = tuple(term for term in rule.also if term in there)
    return (*found, *beside) if found and (beside or not rule.also) else ()


def _without(text: str, phrases: tuple[str, ...]) -> str:
    """Return a text without whole phrases, in any letter case."""
    # A pattern of 25,000 phrases would stop the event loop for a tenth of a second with every prompt.
    folded = _folded(text)
    near = tuple(phrase for phrase in phrases if _folded(phrase) in folded)
    return _pattern(near).sub(" ", text) if near else text


def _folded(text: str) -> str:
    """Return a text in which what `re.IGNORECASE` treats as equal is equal, also i without a dot."""
    return text.casefold().replace("\u0131", "i").replace("i\u0307", "i")


@lru_cache(maxsize=256)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    words = sorted(("".join(map(re.escape, phrase)) for phrase in phrases), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)


def compiled(terms: tuple[str, ...]) -> Terms:
    """Return the terms ready to be looked for, kept for the next prompt."""
    return _compiled(terms) if len(terms) <= LONG_LIST else _compiled_long(terms)


@lru_cache(maxsize=1024)
def _compiled(terms: tuple[str, ...]) -> Terms:
    return Terms(terms)


@lru_cache(maxsize=16)
def _compiled_long(terms: tuple[str, ...]) -> Terms:
    """Keep few of these: 50 rules of 500 terms take some 50 MB."""
    return Terms(terms)

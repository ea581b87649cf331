"""Rules on prompts: which rule of a server refuses or holds the words of a request; pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, product
from types import MappingProxyType

from bot.moderation.readings import Readings, read
from bot.moderation.terms import Terms
from bot.store.prompt_rules import Action, PromptRule

_SEVERE = (Action.REFUSE, Action.HOLD)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The rule that refuses or holds a request, and the terms that it found, for moderators."""

    rule: PromptRule
    found: tuple[str, ...]


class Judge:
    """A server's rules, compiled once for any number of requests."""

    def __init__(self, rules: Sequence[PromptRule]) -> None:
        self.rules = tuple(rules)
        severe = [rule for rule in rules if rule.action in _SEVERE]
        # One list of all rules' terms is searched for in a fraction of the time of a list for each rule.
        self._terms = tuple(dict.fromkeys(chain.from_iterable((*rule.terms, *rule.also) for rule in severe)))
        self.is_ready = not self._terms

    def __len__(self) -> int:
        """Return how many words and phrases the rules have."""
        return sum(len(rule.terms) + len(rule.also) for rule in self.rules)

    def prepare(self) -> None:
        """Compile the terms, which takes a second for 20,000: call it in a thread."""
        self._every.prepare()
        self.is_ready = True

    def verdict(
        self,
        texts: Sequence[str],
        *,
        channel_ids: Collection[int],
        known: Mapping[str, Readings] = MappingProxyType({}),
    ) -> Verdict | None:
        """Return the verdict on the first text that a rule refuses, else on the first text that a rule holds.

        The first rule that applies to this text counts. None if no rule applies. `channel_ids` are the
        request's channel and, for a thread, its parent channel. `known` has the readings of texts that were
        read before. Call `prepare` first, in a thread: otherwise the first search compiles the terms.
        """
        here = [rule for rule in self.rules if rule.channel_id is None or rule.channel_id in channel_ids]
        refusing, holding = ([rule for rule in here if rule.action is action] for action in _SEVERE)
        if not refusing and not holding:
            return None
        allowed = [pair for rule in here for pair in self._phrases.get(rule.name, ())]
        there = [frozenset(self._every.find_all(reading)) for reading in _readings(texts, allowed, known)]
        for rules_of_action in (refusing, holding):
            for terms, rule in product(filter(None, there), rules_of_action):
                if found := _found(terms, rule):
                    return Verdict(rule=rule, found=found)
        return None

    @cached_property
    def _every(self) -> Terms:
        return Terms(self._terms)

    @cached_property
    def _phrases(self) -> dict[str, list[Phrase]]:
        """The allowed phrases, by the names of their rules."""
        allowing = (rule for rule in self.rules if rule.action is Action.ALLOW)
        return {rule.name: [(_folded(term), term) for term in rule.terms] for rule in allowing}


Phrase = tuple[str, str]
"""A phrase that is allowed: as `_folded` returns it, and as it was typed."""


def _readings(
    texts: Iterable[str], allowed: Sequence[Phrase], known: Mapping[str, Readings]
) -> Iterator[Readings]:
    for text in filter(str.strip, texts):
        left = _without(text, allowed)
        yield known.get(left) or read(left)


def _found(there: frozenset[str], rule: PromptRule) -> tuple[str, ...]:
    """Return which terms of a rule are there; none where the rule does not apply."""
    found = tuple(term for term in rule.terms if term in there)
    beside = tuple(term for term in rule.also if term in there)
    return (*found, *beside) if found and (beside or not rule.also) else ()


def _without(text: str, phrases: Sequence[Phrase]) -> str:
    """Return a text without whole phrases, in any letter case."""
    if not phrases:
        return text
    # A pattern of 25,000 phrases would stop the event loop for a tenth of a second with every prompt.
    folded = _folded(text)
    near = tuple(phrase for own, phrase in phrases if own in folded)
    return _pattern(near).sub(" ", text) if near else text


def _folded(text: str) -> str:
    """Return a text in which what `re.IGNORECASE` treats as equal is equal, also i without a dot."""
    return text.casefold().replace("\u0131", "i").replace("i\u0307", "i")


@lru_cache(maxsize=256)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    words = sorted(("".join(map(re.escape, phrase)) for phrase in phrases), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)

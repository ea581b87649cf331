"""Rules on prompts: which rule of a server refuses or holds the words of a request; pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, product
from types import MappingProxyType

from bot.moderation.readings import Readings, read
from bot.moderation.terms import Terms
from bot.store.moderation.prompt_rules import Action, PromptRule

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
        self.every.prepare()
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
        allowed = frozenset(chain.from_iterable(self._phrases.get(rule.name, ()) for rule in here))
        there = [frozenset(self.every.find_all(reading)) for reading in _readings(texts, allowed, known)]
        for rules_of_action in (refusing, holding):
            for terms, rule in product(filter(None, there), rules_of_action):
                if found := _found(terms, rule):
                    return Verdict(rule=rule, found=found)
        return None

    @cached_property
    def every(self) -> Terms:
        """The terms of all rules that refuse or hold."""
        return Terms(self._terms)

    @cached_property
    def _phrases(self) -> dict[str, frozenset[str]]:
        """The allowed phrases, as `_folded` returns them, by the names of their rules."""
        allowing = (rule for rule in self.rules if rule.action is Action.ALLOW)
        return {rule.name: frozenset(map(_folded, rule.terms)) for rule in allowing}


def _readings(
    texts: Iterable[str], allowed: Collection[str], known: Mapping[str, Readings]
) -> Iterator[Readings]:
    for text in filter(str.strip, texts):
        left = _without(text, allowed)
        yield known.get(left) or read(left)


def _found(there: frozenset[str], rule: PromptRule) -> tuple[str, ...]:
    """Return which terms of a rule are there; none where the rule does not apply."""
    found = tuple(term for term in rule.terms if term in there)
    beside = tuple(term for term in rule.also if term in there)
    return (*found, *beside) if found and (beside or not rule.also) else ()


def _without(text: str, phrases: Collection[str]) -> str:
    """Return a text with a space for each whole phrase, in any letter case; the longest one counts."""
    if not phrases:
        return text
    folded = _folded(text)
    near = {phrase for phrase in phrases if phrase in folded}
    if not near:
        return text
    lengths = sorted(set(map(len, near)), reverse=True)
    letters = list(map(_folded, text))
    places = [*accumulate(map(len, letters), initial=0)]  # of each character of `text` in `folded`
    folded, ends = "".join(letters), {place: index for index, place in enumerate(places)}
    kept, index = [], 0
    while index < len(text):
        end = index
        if not _is_letter(text[index - 1 : index]):
            starts = places[index]
            found = (starts + length for length in lengths if folded[starts : starts + length] in near)
            end = next((ends[each] for each in found if _is_end(text, ends.get(each))), index)
        kept.append(" " if end > index else text[index])
        index = max(end, index + 1)
    return "".join(kept)


def _is_end(text: str, index: int | None) -> bool:
    """Return whether no letter follows; None is the middle of a character."""
    return index is not None and not _is_letter(text[index : index + 1])


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def _folded(text: str) -> str:
    """Return a text in one case; the letters i with and without a dot are equal."""
    return text.casefold().replace("\u0131", "i").replace("i\u0307", "i")

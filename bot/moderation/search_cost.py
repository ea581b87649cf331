"""The processor time that a search for the terms of a server's rules takes for its worst text.

The time is counted, so that a rule is refused on every machine or on none. It is also measured, on texts
that consist of the terms, in case the count misses something.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from bot.domain.errors import UserMistake
from bot.moderation.readings import LONGEST_SENT
from bot.moderation.rules import Judge
from bot.store.moderation.prompt_rules import PromptRule

MOST_COUNTED = 50.0
"""Milliseconds that the search may take by count. 20,000 common words of a language take 22 to 28."""
MOST_MEASURED = 200.0
"""Milliseconds that it may take by the clock; a slow machine needs several times as long as by count."""
_ALIKE, _OF_PHRASES, _TERM = 0.4, 0.000_4, 0.001
"""Milliseconds on one core of an AMD EPYC server, for a text of LONGEST_SENT characters.

They are those of a form that differs from others only in repeated letters (each word of the text may be a
form of each), of a word of a phrase, and of a term.
"""


def check_cost(rules: Sequence[PromptRule], *, clock: Callable[[], float] = time.thread_time) -> None:
    """Raise UserMistake `rule_slow` if a search for all terms of a server's rules may take too long.

    It compiles the terms, which takes seconds for 20,000 of them: call it in a thread.
    """
    judge = Judge(rules)
    judge.prepare()
    if counted(judge) > MOST_COUNTED or measured(judge, clock) > MOST_MEASURED:
        raise UserMistake("rule_slow")


def counted(judge: Judge) -> float:
    """Return how many milliseconds a search takes at most, by the number and the likeness of the terms."""
    terms = judge.every
    return terms.most_alike * _ALIKE + terms.phrase_words * _OF_PHRASES + len(terms.terms) * _TERM


def measured(judge: Judge, clock: Callable[[], float] = time.thread_time) -> float:
    """Return the milliseconds of the slowest search in texts that consist of the terms."""
    channel_ids = {rule.channel_id for rule in judge.rules if rule.channel_id is not None}
    longest = 0.0
    for text in worst_texts(judge.every.terms):
        tries = []
        for _ in range(2):  # the first one also fills caches
            began = clock()
            judge.verdict([text], channel_ids=channel_ids)
            tries.append(1000 * (clock() - began))
        longest = max(longest, min(tries))
    return longest


def worst_texts(terms: Sequence[str]) -> Iterator[str]:
    """Yield texts of LONGEST_SENT characters that hold as many of the terms, or as long ones, as fit."""
    by_length = sorted(terms, key=len)
    for ordered in (terms, by_length, by_length[::-1]):
        for between in (" ", ""):
            text = between.join(ordered)
            yield (text * (LONGEST_SENT // max(1, len(text)) + 1))[:LONGEST_SENT]

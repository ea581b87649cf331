"""Discord's AutoMod rules of a server, read from what Discord sends, and applied to prompts.

Keywords are matched as Discord's documents say: `cat` as a word, `cat*` at the beginning of one, `*cat` at
its end, `*cat*` anywhere; in any letter case. Signs bound a word as spaces do. Hidden spellings are not
looked for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from functools import cached_property
from operator import itemgetter
from time import sleep, thread_time
from typing import Any

import re2

from bot.moderation.rust_patterns import (
    KEYWORDS_MEMORY,
    NotAlike,
    Pattern,
    TooLarge,
    compiled,
    compiled_for_re2,
    cost_of,
)
from bot.process.threads import Check, unlimited

KEYWORD, PRESET = 1, 4  # types of triggers
MESSAGE_SENT = 1  # the event
BLOCK_MESSAGE = 1  # the action
PATTERNS_SECONDS = 0.1
"""Processor time that all patterns of a server may take together for one text. Others do not apply."""
READING_SECONDS = 1.0
"""Processor time that compiling and measuring all patterns of a server may take. Others do not apply."""
_WORD = r"\pL\pM\pN_"
EDGE_BEFORE, EDGE_AFTER = r"(?<!\w)", r"(?!\w)"


class Ignored(StrEnum):
    """Why a rule is not applied."""

    PRESET = auto()
    NOT_WORDS = auto()
    NOT_BLOCKING = auto()


@dataclass(frozen=True, kw_only=True)
class AutomodRule:
    """A rule with keywords or patterns.

    `ignored` says why it is not applied. The patterns `unread` are not, because they cannot be read, and the
    patterns `slow`, because they take too long. A person is exempt with one of `exempt_roles`, and in
    `exempt_channels` and their threads.
    """

    name: str
    keywords: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    exempt_roles: frozenset[int] = frozenset()
    exempt_channels: frozenset[int] = frozenset()
    ignored: Ignored | None = None

    def holds(self, *, roles: Iterable[int], places: Iterable[int]) -> bool:
        """Return whether the rule holds for a person with these roles, in a channel with these parents."""
        exempt = self.exempt_roles.intersection(roles) or self.exempt_channels.intersection(places)
        return self.ignored is None and not exempt

    def find(self, text: str, check: Check = unlimited) -> str | None:
        """Return the part of a text that the rule refuses, None without one; the text comes from `normal`."""
        for phrase in self._allowed:  # one pattern for all would keep the interpreter lock too long
            check(self.name)
            text = phrase.sub("\n", text)
        for pattern in (self._keywords, *self._patterns):
            check(self.name)
            if pattern is not None and (found := pattern.search(text)) is not None:
                return str(found[0]).strip() or str(found[0])
        return None

    def prepare(self) -> None:
        """Compile what is searched for, which takes milliseconds for a long list."""
        _ = self._keywords, self._patterns, self._allowed

    @property
    def size(self) -> int:
        """Return how large the rule is in memory, in instructions of what is compiled; prepare it before."""
        programs = [pattern.programsize for pattern in (self._keywords, *self._patterns) if pattern]
        return sum(programs) + sum(map(len, self.allowed))

    @cached_property
    def _keywords(self) -> Pattern | None:
        return _any_of(self.keywords)

    @cached_property
    def _allowed(self) -> tuple[re.Pattern[str], ...]:
        return _each_of(self.allowed)

    @cached_property
    def _patterns(self) -> tuple[Pattern, ...]:
        return tuple(map(compiled, self.patterns))


@dataclass(frozen=True, kw_only=True)
class AutomodVerdict:
    """The rule that refuses a request, and what it found, for moderators."""

    rule: AutomodRule
    found: str


def judged(
    texts: Iterable[str],
    rules: Sequence[AutomodRule],
    *,
    roles: Iterable[int],
    places: Iterable[int],
    check: Check = unlimited,
) -> AutomodVerdict | None:
    """Return the first rule that refuses one of the texts; None where none does."""
    roles, places = tuple(roles), tuple(places)
    holding = [rule for rule in rules if rule.holds(roles=roles, places=places)]
    if not holding:
        return None
    for text in map(normal, filter(str.strip, texts)):
        for rule in holding:
            if (found := rule.find(text, check)) is not None:
                return AutomodVerdict(rule=rule, found=found)
    return None


def normal(text: str) -> str:
    """Return a text in NFC, with one space for each run of spaces, and ? for each lone surrogate."""
    whole = text.encode("utf-8", "replace").decode()
    return " ".join(unicodedata.normalize("NFC", whole).split())


def read_rules(
    payload: Iterable[Mapping[str, Any] | None], *, cost_of: Callable[..., float] = cost_of
) -> tuple[AutomodRule, ...]:
    """Return the rules of Discord's answer that are switched on; the order stays.

    Compiling and measuring their patterns takes up to some seconds: call it in a thread.
    """
    rules = [_read(rule) for rule in payload if rule and rule.get("enabled")]
    return tuple(_sorted_out(rules, cost_of))


def _sorted_out(rules: Iterable[AutomodRule], cost_of: Callable[..., float]) -> Iterator[AutomodRule]:
    """Yield the rules with the patterns that can be read and are quick enough, the first ones first."""
    reading, searching = READING_SECONDS, PATTERNS_SECONDS
    for rule in rules:
        kept, unread, slow = list[str](), list[str](), list[str]()
        for pattern in rule.patterns:
            if reading <= 0.0:
                slow.append(pattern)
                continue
            began = thread_time()
            try:
                compiled(pattern)
                sleep(thread_time() - began)  # compiling keeps the interpreter lock: others have as long
                cost = cost_of(pattern, limit=searching)
            except TooLarge:
                slow.append(pattern)
            except NotAlike:
                unread.append(pattern)
            else:
                (kept if cost <= searching else slow).append(pattern)
                searching -= cost if cost <= searching else 0.0
            reading -= thread_time() - began
        yield replace(rule, patterns=tuple(kept), unread=tuple(unread), slow=tuple(slow))


def _read(rule: Mapping[str, Any]) -> AutomodRule:
    facts = rule.get("trigger_metadata") or {}
    why = _ignored(rule)
    return AutomodRule(
        name=str(rule["name"]),
        keywords=() if why else tuple(map(str, facts.get("keyword_filter") or ())),
        allowed=() if why else tuple(map(str, facts.get("allow_list") or ())),
        patterns=() if why else tuple(map(str, facts.get("regex_patterns") or ())),
        exempt_roles=frozenset(map(int, rule.get("exempt_roles") or ())),
        exempt_channels=frozenset(map(int, rule.get("exempt_channels") or ())),
        ignored=why,
    )


def _ignored(rule: Mapping[str, Any]) -> Ignored | None:
    if rule["trigger_type"] == PRESET:
        return Ignored.PRESET
    if rule["trigger_type"] != KEYWORD or rule["event_type"] != MESSAGE_SENT:
        return Ignored.NOT_WORDS
    if all(action["type"] != BLOCK_MESSAGE for action in rule["actions"]):
        return Ignored.NOT_BLOCKING
    return None


def _any_of(keywords: Iterable[str]) -> Pattern | None:
    """Match any keyword, with the sign before and after it.

    Keywords with the same boundaries are one alternation, of which RE2 makes a tree.
    """
    words: dict[tuple[str, str], list[str]] = {}
    for first, last, text in filter(itemgetter(2), map(_kind, keywords)):
        edges = "" if first else f"(?:^|[^{_WORD}])", "" if last else f"(?:$|[^{_WORD}])"
        words.setdefault(edges, []).append(re2.escape(text))
    made = [f"{before}(?:{'|'.join(sorted(own))}){after}" for (before, after), own in words.items()]
    return compiled_for_re2(f"(?i){'|'.join(made)}", memory=KEYWORDS_MEMORY) if made else None


def _each_of(allowed: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """Match each keyword of an allow list, of at most 100, the longest first."""
    kinds = sorted(filter(itemgetter(2), map(_kind, allowed)), key=lambda kind: -len(kind[2]))
    made = (
        f"{'' if first else EDGE_BEFORE}{re.escape(text)}{'' if last else EDGE_AFTER}"
        for first, last, text in kinds
    )
    return tuple(re.compile(each, re.IGNORECASE) for each in made)


def _kind(keyword: str) -> tuple[bool, bool, str]:
    """Return whether letters may stand before a keyword, whether after it, and the keyword without stars."""
    text = normal(keyword)
    first, last = text.startswith("*"), text.endswith("*") and len(text) > 1
    return first, last, text[first : len(text) - last].strip()

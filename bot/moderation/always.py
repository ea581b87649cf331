"""The rule that no server can switch off: nothing sexual with minors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from bot.moderation.readings import Readings, read
from bot.moderation.tables import read_lists
from bot.moderation.terms import Terms

_LANGUAGES = ("en", "ko", "zh", "ar")


@dataclass(frozen=True, kw_only=True)
class _Rule:
    minors: Terms
    sexual: Terms
    harmless: re.Pattern[str]


@cache
def _rule() -> _Rule:
    data = read_lists("hard_rule.toml")
    minors = [word for language in _LANGUAGES for word in data["minors"][language]]
    sexual = [word for language in _LANGUAGES for word in data["sexual"][language]]
    phrases = data["harmless"]["sexual"] + data["harmless"]["minors"]
    spaced = "|".join(r"[\s-]+".join(map(re.escape, phrase.split())) for phrase in phrases)
    return _Rule(
        minors=Terms([*minors, *_ages(data["ages"])]),
        sexual=Terms(sexual),
        harmless=re.compile(rf"\b(?:{spaced})"),
    )


def _ages(data: dict[str, Any]) -> Iterator[str]:
    """Yield how people write the ages of minors, in digits and in words."""
    for language in _LANGUAGES:
        numbers = [*map(str, range(1, data["oldest"] + 1)), *data[f"{language}_numbers"].split()]
        for form in data[language]:
            yield from map(form.format, numbers)


def breaks_hard_rule(text: str | Readings) -> bool:
    """Return whether a text names a minor, by a word or an age, and something sexual together.

    Phrases such as "sex education", "nude lipstick" or "baby blue" count as neither.
    """
    readings = read(text) if isinstance(text, str) else text
    rule = _rule()
    if not _names_both(rule, readings):
        return False
    without = rule.harmless.sub(" ", readings.lower)
    return without == readings.lower or _names_both(rule, read(without))


def _names_both(rule: _Rule, text: Readings) -> bool:
    return rule.sexual.matches(text) and rule.minors.matches(text)

"""The rule that no server can switch off: nothing sexual with minors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from bot.moderation.tables import read_lists
from bot.moderation.terms import BothOf

_LANGUAGES = ("en", "ko", "zh", "ar")


@cache
def hard_rule() -> BothOf:
    """Return the rule, which matches a text that names a minor, by a word or an age, and something sexual.

    Phrases such as "sex education", "nude lipstick" or "baby blue" count as neither. It is made and prepared
    once, which takes about 0.1 s.
    """
    data = read_lists("hard_rule.toml")
    minors = [word for language in _LANGUAGES for word in data["minors"][language]]
    sexual = [word for language in _LANGUAGES for word in data["sexual"][language]]
    harmless = data["harmless"]["sexual"] + data["harmless"]["minors"]
    ages = _ages(data["ages"])
    rule = BothOf(sexual, [*minors, *ages], harmless=harmless, joints=data["joints"]["en"].split())
    rule.prepare()
    return rule


def _ages(data: dict[str, Any]) -> Iterator[str]:
    """Yield how people write the ages of minors, in digits and in words."""
    for language in _LANGUAGES:
        numbers = [*map(str, range(1, data["oldest"] + 1)), *data[f"{language}_numbers"].split()]
        for form in data[language]:
            yield from map(form.format, numbers)

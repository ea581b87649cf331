"""Wildcards: the rules of a list, and the entries that a prompt draws from lists; no Discord here."""

from __future__ import annotations

from collections.abc import Sequence

from bot.domain.errors import UserMistake
from bot.domain.expansion import Choose, Phrase, chosen, is_wildcard_name, read_phrase
from bot.front.recipes.options import MAX_CHOICES, clean, echo
from bot.store.library.named import key_of
from bot.store.library.wildcards import Wildcard
from bot.texts.markup import tidy

MAX_NAME = 40
MAX_ENTRY = 200
MAX_ENTRIES = 500
MOST_COUNTED = 10**9  # larger numbers of combinations are shown as this number


def wildcard_name(text: str) -> str:
    """Return a list's name, with or without the underscores around; raises UserMistake `wildcard_name`."""
    name = text.strip().removeprefix("__").removesuffix("__")
    if not is_wildcard_name(name) or name != tidy(clean(name)):
        raise UserMistake("wildcard_name", limit=MAX_NAME)
    return name


def read_entries(text: str) -> tuple[str, ...]:
    """Return the entries of a list, one a line; raises UserMistake `wildcard_entries`."""
    entries = tuple(filter(None, (clean(line) for line in text.splitlines())))
    if not 1 <= len(entries) <= MAX_ENTRIES or any(len(entry) > MAX_ENTRY for entry in entries):
        raise UserMistake("wildcard_entries", limit=MAX_ENTRIES, characters=MAX_ENTRY)
    return entries


def wildcard_choices(typed: str, wildcards: Sequence[Wildcard]) -> list[str]:
    """Return the names to suggest for `typed`."""
    wanted = key_of(typed).strip("_")
    return [each.name for each in wildcards if wanted in key_of(each.name)][:MAX_CHOICES]


def drawing(wildcards: Sequence[Wildcard], *, seed: int) -> Choose:
    """Return a function that draws entries by this seed; it raises UserMistake for an unknown list."""
    known = {key_of(each.name): each.entries for each in wildcards}

    def choose(name: str, number: int) -> str:
        if key_of(name) not in known:
            raise unknown_wildcard(name, wildcards)
        return chosen(known[key_of(name)], seed=seed, number=number)

    return choose


def unknown_wildcard(name: str, wildcards: Sequence[Wildcard]) -> UserMistake:
    """Return the error for a name that no list has."""
    names = wildcard_choices("", wildcards)
    if not names:
        return UserMistake("wildcard_none", value=echo(name))
    return UserMistake("wildcard_unknown", value=echo(name), choices=", ".join(names))


def read_few(prompt: str, *, most: int) -> Phrase:
    """Return the phrase of a prompt; raises UserMistake `expansion_many` for more than `most` prompts."""
    phrase = read_phrase(prompt)
    if phrase.count > most:
        counted = f"{min(phrase.count, MOST_COUNTED)}{'+' if phrase.count > MOST_COUNTED else ''}"
        raise UserMistake("expansion_many", value=counted, limit=most)
    return phrase

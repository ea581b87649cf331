"""The shares of detected evasions and of accepted innocent prompts, by the lists beside this file."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.moderation import find_all

FOLDER = Path(__file__).with_name("lists")
LANGUAGES = ("en", "ko", "zh", "ar")


def read(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


HELD_OUT = read("held_out")  # written first and not looked at since
LISTS = {name: read(name) for name in LANGUAGES} | {f"{name}, held out": HELD_OUT[name] for name in LANGUAGES}
TERMS = tuple(term for name in LANGUAGES for term in LISTS[name]["evasions"])
"""The terms of all languages, as a server with members of all of them has them."""


def evasions(name: str) -> Iterator[tuple[str, str]]:
    """Each evasion of a list, after the term that it hides."""
    return ((term, text) for term, texts in LISTS[name]["evasions"].items() for text in texts)


def missed(name: str) -> list[tuple[str, str]]:
    """The evasions in which the hidden term is not found."""
    return [(term, text) for term, text in evasions(name) if term not in find_all(text, (*TERMS, term))]


@pytest.mark.parametrize("name", LISTS)
def test_nine_tenths_of_the_evasions_of_a_language_are_caught(name: str) -> None:
    assert len(missed(name)) <= 0.1 * len(list(evasions(name))), missed(name)


def test_nineteen_twentieths_of_all_evasions_are_caught() -> None:
    every = [evasion for name in LISTS for evasion in evasions(name)]
    assert len(every) > 600
    assert sum(len(missed(name)) for name in LISTS) <= 0.05 * len(every)


def test_all_but_one_in_a_hundred_innocent_prompts_pass() -> None:
    innocent = [text for prompts in LISTS.values() for text in prompts["innocent"]]
    condemned = [(text, found) for text in innocent if (found := find_all(text, TERMS))]
    assert len(innocent) > 400
    assert len(condemned) <= 0.01 * len(innocent), condemned

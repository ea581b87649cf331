"""The test with a million pictures calls every verb of the store: told here at once, as that test is slow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import iscoroutinefunction
from pathlib import Path

import bot.membership.processes
import bot.store.store  # noqa: F401 - with all members
from bot.store.database.database import Verbs

LIFE = Path(__file__).parents[1] / "contract" / "test_growth_contract.py"


def members(of: type[Verbs] = Verbs) -> Iterator[type[Verbs]]:
    for member in of.__subclasses__():
        yield member
        yield from members(member)


def test_every_verb_of_the_store_is_called_on_a_million_pictures() -> None:
    called = set(re.findall(r"\.(\w+)\b", LIFE.read_text(encoding="utf-8")))
    verbs = {
        name
        for member in members()
        if member.__module__.startswith("bot.")
        for name, verb in vars(member).items()
        if iscoroutinefunction(verb) and not name.startswith("_")
    }
    assert verbs - called == set(), f"call them in {LIFE.name}"

"""The lists of evasions and innocent prompts beside this file, and how a matcher does on them."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("lists")
LANGUAGES = ("en", "ko", "zh", "ar")

FindAll = Callable[[str, tuple[str, ...]], list[str]]


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Prompts of one language: `evasions` by the term that each of them hides."""

    evasions: dict[str, list[str]]
    innocent: list[str]

    @property
    def evasion_count(self) -> int:
        return sum(map(len, self.evasions.values()))


def own_prompts() -> dict[str, Prompts]:
    """The prompts by language that the matcher was built with."""
    files = {name: tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8")) for name in LANGUAGES}
    return {
        name: Prompts(evasions=data["evasions"], innocent=data["innocent"]) for name, data in files.items()
    }


def held_out_prompts() -> dict[str, Prompts]:
    """The prompts by language that were written first and not looked at since."""
    data = tomllib.loads((FOLDER / "held_out.toml").read_text(encoding="utf-8"))
    return {
        name: Prompts(evasions=data[name]["evasions"], innocent=data[name]["innocent"]) for name in LANGUAGES
    }


def every_term() -> tuple[str, ...]:
    """The terms of all languages in one list, as a server with members of all of them has it."""
    return tuple(term for prompts in own_prompts().values() for term in prompts.evasions)


def missed(prompts: Prompts, find_all: FindAll) -> list[str]:
    """The evasions in which the hidden term is not found."""
    terms = every_term()
    pairs = [(term, text) for term, texts in prompts.evasions.items() for text in texts]
    return [f"{term}: {text}" for term, text in pairs if term not in find_all(text, (*terms, term))]


def condemned(prompts: Prompts, find_all: FindAll) -> list[str]:
    """The innocent prompts in which any term of any language is found."""
    terms = every_term()
    found = ((text, find_all(text, terms)) for text in prompts.innocent)
    return [f"{text}: {', '.join(held)}" for text, held in found if held]

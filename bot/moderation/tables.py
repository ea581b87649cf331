"""The data files of this package, read once."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).with_name("data")


@cache
def read_words(name: str) -> frozenset[str]:
    """Return the words of a text file; lines that begin with # are comments."""
    lines = (_FOLDER / name).read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def read_lists(name: str) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    return tomllib.loads((_FOLDER / name).read_text(encoding="utf-8"))


@cache
def look_alikes() -> dict[str, str]:
    """Return the Latin letter that each look-alike stands for."""
    text = (_FOLDER / "look_alikes.txt").read_text(encoding="utf-8")
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {other: letter for letter, others in lines for other in others}


@cache
def simplified() -> dict[str, str]:
    """Return the simplified character of each traditional one."""
    return {pair[0]: pair[1] for pair in read_words("traditional.txt")}

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
    return frozenset(word for line in _lines(name) for word in line.split())


def read_lists(name: str) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    return tomllib.loads((_FOLDER / name).read_text(encoding="utf-8"))


@cache
def look_alikes() -> dict[str, str]:
    """Return the letter that each look-alike stands for."""
    return {other: letter for letter, others in map(str.split, _lines("look_alikes.txt")) for other in others}


def _lines(name: str) -> list[str]:
    lines = (_FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]

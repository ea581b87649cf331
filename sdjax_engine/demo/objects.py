"""The objects that the demo checkpoint paints, with their names in four languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

Language = Literal["en", "ko", "zh", "ar"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


@dataclass(frozen=True, kw_only=True)
class Object:
    """One object: its character, its kind, and its names in each language, the usual one first."""

    character: str
    kind: str
    names: Mapping[Language, tuple[str, ...]]

    @property
    def file(self) -> str:
        """The name of its picture in the folder of Fluent Emoji."""
        return f"{ord(self.character):x}.webp"


def _read(file: Path) -> dict[str, Object]:
    """Read `objects.txt`: a line `# kind` before its objects, and a line of names in columns for each."""
    objects: dict[str, Object] = {}
    kind = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            kind = line.removeprefix("# ")
        elif line and not line.startswith("##"):
            character, *columns = (column.strip() for column in line.split("|"))
            names = {
                language: tuple(name.strip() for name in column.split(","))
                for language, column in zip(LANGUAGES, columns, strict=True)
            }
            objects[names["en"][0]] = Object(character=character, kind=kind, names=MappingProxyType(names))
    return objects


OBJECTS = MappingProxyType(_read(Path(__file__).with_name("objects.txt")))
"""Every object by its usual English name."""

"""Which values some JSON schemas cannot tell apart, so that one of them is validated for all."""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

TEXT = re.compile(r'"(?:[^"\\]|\\.)*"(:)?')
"""A string in JSON, with a colon where it is the name of a property."""


class Forms:
    """Digests of values, equal only for values that the schemas judge alike.

    A string counts by the limits of lengths around its length and by the patterns that it matches, unless an
    `enum` or `const` names it. Equal strings stay equal and different ones different: some lists must not
    hold one twice. `format` is not validated, and so counts for nothing.
    """

    def __init__(self, schemas: Iterable[Any]) -> None:
        parts = [part for schema in schemas for part in _objects(schema)]
        named = [value for part in parts for value in [*_list(part.get("enum")), part.get("const")]]
        self._named = {value for value in named if isinstance(value, str)}
        patterns = {part["pattern"] for part in parts if isinstance(part.get("pattern"), str)}
        self._patterns = [re.compile(pattern) for pattern in sorted(patterns)]
        # Two lengths are alike where none of these is between them, or equal to the smaller one.
        shortest = {part["minLength"] - 1 for part in parts if isinstance(part.get("minLength"), int)}
        longest = {part["maxLength"] for part in parts if isinstance(part.get("maxLength"), int)}
        self._limits = sorted(shortest | longest)
        self._kinds: dict[str, str | None] = {}

    def of(self, value: Any) -> bytes:
        """Return the digest of a JSON value."""
        numbers: dict[str, int] = {}

        def numbered(found: re.Match[str]) -> str:
            text = found[0]
            if found[1]:
                return text
            if text not in self._kinds:
                self._kinds[text] = self._kind(json.loads(text))
            kind = self._kinds[text]
            return text if kind is None else f"{kind}#{numbers.setdefault(text, len(numbers))}"

        return hashlib.sha256(TEXT.sub(numbered, json.dumps(value, sort_keys=True)).encode()).digest()

    def _kind(self, text: str) -> str | None:
        """Return what the schemas can see of a string; None where they name it."""
        if text in self._named:
            return None
        matched = "".join("01"[bool(pattern.search(text))] for pattern in self._patterns)
        return f"{bisect_left(self._limits, len(text))}:{matched}"


def _objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Give every object within a schema."""
    if isinstance(schema, dict):
        yield schema
        schema = list(schema.values())
    for each in _list(schema):
        yield from _objects(each)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

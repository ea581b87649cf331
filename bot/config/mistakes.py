"""Turns pydantic's validation errors into sentences that say what to change."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bot.redaction import redact

KEY = "[key]"  # pydantic appends it to the path of a key that is itself invalid


class InvalidValue(ValueError):
    """A value that cannot be used, alone or with another value: one sentence for each mistake.

    A text of the configuration is in quotes, “so”: it is hidden where it comes from the environment.
    """

    def __init__(self, *mistakes: str) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes


_WANTED = {
    "int_type": "a whole number is wanted",
    "int_parsing": "a whole number is wanted",
    "int_from_float": "a whole number is wanted",
    "float_type": "a number is wanted",
    "finite_number": "a finite number is wanted",
    "string_type": "a text in quotes is wanted",
    "bool_type": "true or false is wanted",
    "tuple_type": "a list in brackets is wanted",
    "dict_type": "a table in braces is wanted",
    "model_type": "a section is wanted",
    "model_attributes_type": "a section is wanted",
    "greater_than": "more than {gt:g} is wanted",
    "greater_than_equal": "{ge} is the least",
    "less_than_equal": "{le} is the most",
    "string_too_short": "it may not be empty",
    "string_too_long": "{max_length} characters are the most",
    "string_pattern_mismatch": "letters, digits and . _ + - only, please",
    "too_short": "at least {min_length} is wanted",
    "too_long": "{max_length} are the most",
}


Loc = tuple[int | str, ...]
"""Keys and list indices that lead to a value."""


def dotted(loc: Loc) -> str:
    """Return a path such as `models[2].sampler`; indices begin at 1."""
    path = ""
    for part in loc:
        if part == KEY:
            continue
        path += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def sentences(
    error: ValidationError,
    root: type[BaseModel],
    named: Callable[[Loc], str] = dotted,
    hide: Callable[[str], str] = str,
) -> list[str]:
    """Return one sentence for each mistake; it begins with what `named` calls the key, and has no secret.

    `hide` removes further texts in quotes that must not be shown.
    """
    return [
        redact(sentence) for details in error.errors() for sentence in _sentences(details, root, named, hide)
    ]


def _sentences(
    details: ErrorDetails, root: type[BaseModel], named: Callable[[Loc], str], hide: Callable[[str], str]
) -> Iterator[str]:
    key = named(details["loc"])
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, InvalidValue):
        for mistake in cause.mistakes:
            yield f"{key}: {hide(mistake)}."
    elif details["type"] == "extra_forbidden":
        yield f"{key}: {_unknown_key(details['loc'], root)}."
    elif details["type"] in ("literal_error", "enum"):
        expected = details["ctx"]["expected"].replace("''", "empty")
        yield f"{key}: {_shown(details['input'], hide)} is none of {expected}."
    elif details["type"] != "too_short" or not details["input"]:
        # pydantic also reports "too short" for a list in which every item is invalid: skip that.
        wanted = _WANTED.get(details["type"])
        said = wanted.format(**details.get("ctx", {})) if wanted else details["msg"]
        yield f"{key}: {said}, not {_shown(details['input'], hide)}."


def _unknown_key(loc: Loc, root: type[BaseModel]) -> str:
    *section, key = loc
    valid = list(_section_at(tuple(section), root).model_fields)
    where = f" in [{dotted(tuple(section))}]" if section else ""
    near = [name for name in valid if str(key) in name.split("_")]
    near = near or difflib.get_close_matches(str(key), valid, n=1, cutoff=0.0)
    *others, last = (f"“{name}”" for name in near)
    said = f"near it are {', '.join(others)} and {last}" if others else f"the nearest is {last}"
    return f"there is no key of this name{where}; {said}"


def _section_at(loc: Loc, root: type[BaseModel]) -> type[BaseModel]:
    """Return the model class at a path of keys and list indices."""
    here = root
    for part in loc:
        if isinstance(part, str):
            here = _model_in(here.model_fields[part].annotation)
    return here


def _model_in(annotation: Any) -> type[BaseModel]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return _model_in(get_args(annotation)[0])


def _shown(value: object, hide: Callable[[str], str]) -> str:
    """Return the value as written, without secrets and at most 60 characters long."""
    # A list or a section is not repeated: it may hold an address with a password.
    if value and isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a section"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = hide(f"“{value}”") if isinstance(value, str) else str(value)
    text = redact(text)  # before the text is cut, which could split a secret
    return text if len(text) <= 60 else f"{text[:57]}…"

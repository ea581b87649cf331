"""Turns pydantic's validation errors into sentences that say what to change."""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bot.telemetry.redaction import HIDDEN, redact

KEY = "[key]"  # pydantic appends it to the path of a key that is itself invalid
_FILES = ("token_file", "client_secret_file", "private_key")
MAY_BE_SECRET = ("database", "artifacts", *_FILES, "api_url", "gateway_url")
"""Keys whose values are not repeated: an address may be a password alone, a file's name the token itself."""

_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


class InvalidValue(ValueError):
    """A value that cannot be used, alone or with another value: one sentence for each mistake.

    The texts of the configuration in them are `quoted`. Where the value is a section, `key` is what is wrong
    in it.
    """

    def __init__(self, *mistakes: str, key: str = "") -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes
        self.key = key


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
Say = Callable[[Loc, str], str]
"""Makes a sentence of the place of a mistake and what is wrong there."""


def quoted(text: object) -> str:
    """Return a text of the configuration in quotes, on one line; it is found again by these quotes."""
    inside = " ".join(str(text).splitlines()).replace("“", "'").replace("”", "'")
    return f"“{inside}”"


def is_pasted(file: str, error: Exception) -> bool:
    """Return whether the name of a file that cannot be read may be the secret itself, so it is not repeated.

    The name of a file that is there is none, and no name in a folder that is there: the root and the present
    folder do not count.
    """
    folder = Path(file).parent
    missing = isinstance(error, OSError) and error.errno in _MISSING
    return "\0" in file or (missing and (str(folder) in (".", "/") or not os.path.isdir(folder)))  # noqa: PTH112


def hidden(sentence: str) -> str:
    """Return the sentence without what is in quotes."""
    return re.sub("“[^”]*”", f"“{HIDDEN}”", sentence)


def say(loc: Loc, said: str) -> str:
    """Return the sentence with the key in front."""
    return f"{dotted(loc)}: {said}."


def dotted(loc: Loc) -> str:
    """Return a path such as `models[2].sampler`; indices begin at 1."""
    path = ""
    for part in loc:
        if part == KEY:
            continue
        path += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def sentences(error: ValidationError, root: type[BaseModel], say: Say = say) -> list[str]:
    """Return one sentence for each mistake, made by `say`, without addresses' passwords and tokens."""
    return [redact(say(loc, said)) for details in error.errors() for loc, said in _mistakes(details, root)]


def _mistakes(details: ErrorDetails, root: type[BaseModel]) -> Iterator[tuple[Loc, str]]:
    """Give the place of each mistake, and what is wrong there."""
    loc = details["loc"]
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, InvalidValue):
        for mistake in cause.mistakes:
            yield (*loc, cause.key) if cause.key else loc, mistake
    elif details["type"] == "extra_forbidden":
        yield loc, _unknown_key(loc, root)
    elif details["type"] in ("literal_error", "enum"):
        expected = details["ctx"]["expected"].replace("''", "empty")
        yield loc, f"{_shown(details['input'])} is none of {expected}"
    elif details["type"] != "too_short" or not details["input"]:
        # pydantic also reports "too short" for a list in which every item is invalid: skip that.
        wanted = _WANTED.get(details["type"])
        said = wanted.format(**details.get("ctx", {})) if wanted else details["msg"]
        may_be_secret = loc[-1:] and loc[-1] in MAY_BE_SECRET
        yield loc, said if may_be_secret else f"{said}, not {_shown(details['input'])}"


def _unknown_key(loc: Loc, root: type[BaseModel]) -> str:
    *section, key = loc
    valid = list(_section_at(tuple(section), root).model_fields)
    where = f" in [{dotted(tuple(section))}]" if section else ""
    near = [name for name in valid if str(key) in name.split("_")]
    near = near or difflib.get_close_matches(str(key), valid, n=1, cutoff=0.0)
    *others, last = near
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


def _shown(value: object) -> str:
    """Return the value as written, without secrets and at most 60 characters long."""
    # A list or a section is not repeated: it may hold an address with a password.
    if value and isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a section"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = redact(str(value))  # before the text is cut, which could split a secret
    text = text if len(text) <= 58 else f"{text[:57]}…"
    return quoted(text) if isinstance(value, str) else text

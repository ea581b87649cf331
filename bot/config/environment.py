"""Keys of the configuration from variables of the environment, such as `SDJAX__QUEUE__DATABASE`.

`SDJAX__MODELS__0__NAME` is a key of the first [[models]]. A variable with `_FILE` after its key names a file
that holds the value. A value is TOML (a number, true or false, a list, a table), unless its key takes a text.
"""

from __future__ import annotations

import copy
import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from bot.config.mistakes import KEY, InvalidValue, hidden, quoted, say
from bot.config.text_files import read_text_file
from bot.telemetry.redaction import HIDDEN, redact

PREFIX, BETWEEN, FILE = "SDJAX__", "__", "_FILE"
SECRETS = ("DISCORD_TOKEN", "DISCORD_CLIENT_SECRET", PREFIX)
"""The beginnings of the names of variables that hold secrets, such as passwords."""
_SENTENCE = re.compile(r"([a-z_]+(?:\.[a-z_]+|\[\d+\])*): (.+)\.", re.DOTALL)
_PARTS = re.compile(r"([a-z_]+)|(\d+)")
_SOURCES = (
    "checkpoint",
    "vae",
    "denoiser",
    "picture_classifier",
    "preview_decoder",
    "source",
)  # of a model: the engine quotes them

KeyPath = tuple[str | int, ...]
"""Keys and indices that lead to a value of the document."""


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A variable of the environment: its name, the place of its value, and the file that holds it, if any."""

    name: str
    place: KeyPath
    annotation: Any
    value: str = field(repr=False)  # it may be a secret
    file: str = ""

    @property
    def parsed(self) -> Any:
        """The value, parsed as TOML; the text itself if the key takes text or the text is not valid TOML."""
        if _takes_text(self.annotation):
            return self.value
        try:
            document = tomllib.loads(f"value = {self.value}")
        except tomllib.TOMLDecodeError:
            return self.value
        return document["value"] if document.keys() == {"value"} else self.value


@dataclass(frozen=True, kw_only=True)
class Overlaid:
    """A document with the values of `variables` in place of its own, and a sentence for each mistake."""

    document: dict[str, Any] = field(repr=False)
    variables: tuple[Variable, ...] = ()
    mistakes: tuple[str, ...] = ()

    def say(self, place: KeyPath, said: str) -> str:
        """Return the sentence of a mistake; if a variable sets the place, with its name and not its texts.

        The text of a variable may be a secret that belongs into another.
        """
        for variable in sorted(self.variables, key=lambda each: -len(each.place)):
            if place[: len(variable.place)] == variable.place:
                below = _without_texts(place[len(variable.place) :], variable.annotation)
                return say((variable.name, *below), hidden(said))
        return say(place, said)

    def say_again(self, sentence: str) -> str:
        """Return a sentence that begins with a key, such as `web.token_file`, as `say` makes it.

        A sentence without a key names the variable that sets the source of weights which it quotes.
        """
        found = _SENTENCE.fullmatch(sentence)
        if not found:  # the engine knows no keys
            for variable in self.variables:
                for place in _sources(variable.place, variable.parsed, sentence):
                    return self.say(place, sentence.removesuffix("."))
            return sentence
        parts = _PARTS.findall(found[1])
        return self.say(tuple(key or int(number) - 1 for key, number in parts), found[2])


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that needs no secret of the configuration."""
    return {name: value for name, value in environ.items() if not name.startswith(SECRETS)}


def overlaid(document: Mapping[str, Any], environ: Mapping[str, str], root: type[BaseModel]) -> Overlaid:
    """Return the document with the variables' values in it; `root` is the model of the document."""
    variables, mistakes = _variables(environ, root)
    found = copy.deepcopy(dict(document))
    used: dict[KeyPath, Variable] = {}
    for variable in sorted(variables, key=lambda each: (len(each.place), _order(each.place))):
        if other := used.get(variable.place):
            mistakes.append(f"{variable.name}: {other.name} says the same key; set one of them.")
            continue
        used[variable.place] = variable
        mistakes += _put(found, variable)
    in_order = tuple(sorted(used.values(), key=lambda each: each.name))
    return Overlaid(document=found, variables=in_order, mistakes=tuple(mistakes))


def _order(place: KeyPath) -> list[tuple[int, str]]:
    return [(part, "") if isinstance(part, int) else (0, part) for part in place]


def _variables(environ: Mapping[str, str], root: type[BaseModel]) -> tuple[list[Variable], list[str]]:
    variables, mistakes = [], []
    for name, value in sorted(environ.items()):
        if not name.startswith(PREFIX):
            continue
        try:
            variables.append(_variable(name, value, root))
        except InvalidValue as error:
            mistakes.append(f"{redact(name)}: {error}.")
    return variables, mistakes


def _variable(name: str, value: str, root: type[BaseModel]) -> Variable:
    """Return the variable; raises InvalidValue for a name without a key and an unreadable file."""
    place: list[str | int] = []
    parts = name.removeprefix(PREFIX).split(BETWEEN)
    here: type[BaseModel] | None = root
    annotation: Any = root
    from_file = False
    for number, part in enumerate(parts):
        if here is None:
            raise InvalidValue(f"{BETWEEN.join(parts[:number])} has no keys of its own")
        if _item(annotation) is here:  # a list of tables
            place.append(_index(part, parts[number - 1]))
            annotation = here
        else:
            key, from_file = _key(part, here, PREFIX + "".join(each + BETWEEN for each in parts[:number]))
            place.append(key)
            annotation = here.model_fields[key].annotation
        here = _model(annotation) or _item(annotation)
    if _model(annotation):
        raise InvalidValue("it names a section: name one of its keys as well")
    file, value = (value, _content(value)) if from_file else ("", value)
    if not value.isascii() and value != value.encode(errors="replace").decode():
        raise InvalidValue("it is not a text in UTF-8")
    return Variable(name=name, place=tuple(place), annotation=annotation, value=value, file=file)


def _key(part: str, model: type[BaseModel], before: str) -> tuple[str, bool]:
    """Return the key that a part of a name stands for, and whether a file has its value."""
    key, keys = part.lower(), model.model_fields
    if key in keys:
        return key, False
    if part.endswith(FILE) and (of_file := key.removesuffix(FILE.lower())) in keys:
        return of_file, True
    near = difflib.get_close_matches(key, list(keys), n=1, cutoff=0.0)[0]
    raise InvalidValue(f"there is no key of this name; the nearest is {before}{near.upper()}")


def _index(part: str, of_list: str) -> int:
    if not (part.isascii() and part.isdigit()):
        raise InvalidValue(f"after {of_list}, a number from 0 on is wanted, not “{part}”")
    return int(part)


def _content(file: str) -> str:
    try:
        return read_text_file(file).rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidValue(f"the file that it names cannot be read: {reason}") from None


def _put(document: dict[str, Any], variable: Variable) -> list[str]:
    """Put the value into its place; return a mistake for a list that has no such place."""
    *above, last = variable.place
    here: Any = document
    for part, following in zip(above, variable.place[1:], strict=True):
        if isinstance(part, str) and isinstance(here, dict):
            here = here.setdefault(part, [] if isinstance(following, int) else {})
        elif isinstance(part, int) and isinstance(here, list):
            if part > len(here):
                return [
                    f"{variable.name}: the list has {len(here)} before it; the next number is {len(here)}."
                ]
            here.extend([{}] if part == len(here) else [])
            here = here[part]
    if isinstance(here, dict):  # otherwise the file has a mistake there, which is reported by itself
        here[str(last)] = variable.parsed
    return []


def _without_texts(place: KeyPath, annotation: Any) -> Iterator[str | int]:
    """Give the parts of a place in a value of this type; a key that is none of a section is hidden."""
    for part in place:
        model = _model(annotation)
        if isinstance(part, int) or part == KEY:
            annotation = _item(annotation)
            yield part
        elif model and part in model.model_fields:
            annotation = model.model_fields[part].annotation
            yield part
        else:
            annotation = None
            yield HIDDEN


def _sources(place: KeyPath, value: Any, sentence: str) -> Iterator[KeyPath]:
    """Yield the places, in the value of this place, of sources of weights that the sentence has in quotes."""
    if isinstance(value, dict | list):
        for part, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _sources((*place, part), below, sentence)
    elif place[0] == "models" and place[-1] in _SOURCES and quoted(value) in sentence:
        yield place


def _model(annotation: Any) -> type[BaseModel] | None:
    """Return the annotation if it is a section; None for any other type."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _item(annotation: Any) -> type[BaseModel] | None:
    """Return the section that each item of a list is; None where the annotation is no list of sections."""
    return _model(get_args(annotation)[0]) if get_origin(annotation) is tuple else None


def _takes_text(annotation: Any) -> bool:
    """Return whether a value of this type is taken as plain text, and not parsed as TOML."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return all(isinstance(each, str) for each in arguments)
    if origin in (Union, UnionType):
        return bool not in arguments and any(_takes_text(each) for each in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return issubclass(annotation, str)
    return annotation is str

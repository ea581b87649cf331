"""[prompts]: styles and suggested keywords for every server, and the most prompts of one request."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from importlib import resources
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError, model_validator

from bot.config.mistakes import InvalidValue, quoted, sentences
from bot.config.section import PathText, Section, repeated
from bot.config.text_files import read_text_file
from sdjax_engine.request import MAX_CLIP_SKIP, MAX_GUIDANCE_SCALE, MAX_STEPS, Sampler

STARTER = "starter"  # in place of a file: the bundled set, for the demo's world
MAX_STYLE_TEXT = 1000
MAX_STYLES = 100


def _one_line(value: str) -> str:
    controls = any(unicodedata.category(letter) in ("Cc", "Cs") for letter in value)
    if value != " ".join(value.split()) or controls or value == "-":
        raise InvalidValue(f"{value!r} is no name for a style: write it on one line, without spaces around")
    return value


class StyleSection(Section):
    """One style of the styles file. It does not set the options whose keys are None."""

    name: Annotated[str, Field(min_length=1, max_length=60), AfterValidator(_one_line)]
    prompt: Annotated[str, Field(max_length=MAX_STYLE_TEXT)] = ""
    negative_prompt: Annotated[str, Field(max_length=MAX_STYLE_TEXT)] = ""
    model: str | None = None
    size: str | None = None
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] | None = None
    guidance: Annotated[float, Field(ge=0, le=MAX_GUIDANCE_SCALE)] | None = None
    clip_skip: Annotated[int, Field(ge=1, le=MAX_CLIP_SKIP + 1)] | None = None
    sampler: Sampler | None = None
    lora: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of /imagine that the style has."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"name", "prompt", "negative_prompt"})


class _StylesFile(Section):
    styles: Annotated[tuple[StyleSection, ...], Field(max_length=MAX_STYLES)] = ()


class PromptsConfig(Section):
    """The styles that every server has, how many prompts one request may have, and suggested keywords."""

    styles_file: PathText = ""
    max_permutations: Annotated[int, Field(ge=1, le=100)] = 12
    keywords_file: PathText = ""
    _styles: tuple[StyleSection, ...] = PrivateAttr(default=())

    @property
    def styles(self) -> tuple[StyleSection, ...]:
        """The styles of the styles file, in its order."""
        return self._styles

    @model_validator(mode="after")
    def _read_styles(self) -> PromptsConfig:
        if self.styles_file:
            try:
                self._styles = read_styles(self.styles_file)
            except InvalidValue as error:
                raise InvalidValue(*error.mistakes, key="styles_file") from None
        return self


def _starter() -> str:
    return (resources.files("bot.config") / "starter_styles.toml").read_text(encoding="utf-8")


def read_styles(file: str) -> tuple[StyleSection, ...]:
    """Return the styles of a TOML file, or of the bundled set; raises InvalidValue with every mistake."""
    try:
        document = tomllib.loads(_starter() if file == STARTER else read_text_file(file))
    except OSError as error:
        raise InvalidValue(f"{quoted(file)} cannot be read: {error.strerror}") from None
    except ValueError as error:  # a TOMLDecodeError is one
        raise InvalidValue(f"{quoted(file)} is not TOML: {error}") from None
    try:
        styles = _StylesFile.model_validate(document).styles
    except ValidationError as error:
        # Straight quotes: the texts of the file are shown also where its name must not be.
        mistakes = [re.sub("[“”]", "'", each).rstrip(".") for each in sentences(error, _StylesFile)]
        raise InvalidValue(*(f"in {quoted(file)}, {mistake}" for mistake in mistakes)) from None
    if twice := repeated(style.name.casefold() for style in styles):
        raise InvalidValue(*(f"in {quoted(file)}, two styles are called '{name}'" for name in twice))
    return styles

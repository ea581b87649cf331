"""Recipes as the JSON values of rows, and rows that this version cannot read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

from bot.domain.jobs import Recipe
from sdjax_engine.request import Lora, Sampler, SecondPass, Variation

log = logging.getLogger(__name__)

UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)
"""The errors of reading a row that another version has written, or that is damaged."""
DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(Recipe)}
"""The default values of a recipe, by name. Rows leave them out, so no later version may change them."""


_WORDS = frozenset({"prompt", "negative_prompt", "init_image", "mask_image", "loras", "style"})


def recipe_values(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe as JSON values, without those that have their default.

    So an older version can read every recipe that uses none of the newer values.
    """
    values = every_value(recipe)
    return {name: value for name, value in values.items() if getattr(recipe, name) != DEFAULTS[name]}


def every_value(recipe: Recipe) -> dict[str, Any]:
    """Return the whole recipe as JSON values."""
    return {**asdict(recipe), "sampler": recipe.sampler.value}


def is_readable(values: Mapping[str, Any]) -> bool:
    """Return whether this version knows every value of a recipe, so that it paints what was asked for."""
    try:
        return values.keys() <= DEFAULTS.keys() and recipe_from(values) is not None
    except UNREADABLE:
        return False


@lru_cache(maxsize=10_000)
def tell_unreadable(kind: str, row_id: str | int, reason: str) -> None:
    """Log once in the life of the process that a row is passed over."""
    log.error(
        "the %s %s is passed over: this version cannot read its row (%s). A newer version can, or the row is "
        "damaged.",
        *(kind, row_id, reason),
    )


def recipe_from(values: Mapping[str, Any]) -> Recipe:
    """Return the recipe that `recipe_values` wrote, now or in another version; see `is_readable`.

    Raises one of UNREADABLE for values that this version does not know.
    """
    values = {name: value for name, value in values.items() if name in DEFAULTS}
    loras = tuple(Lora(**lora) for lora in values.get("loras", ()))
    variations = tuple(Variation(**variation) for variation in values.get("variations", ()))
    changed: dict[str, Any] = {
        "sampler": Sampler(values["sampler"]),
        "loras": loras,
        "variations": variations,
    }
    if (second := values.get("second_pass")) is not None:
        changed["second_pass"] = SecondPass(**second)
    if "guidance_interval" in values:
        changed["guidance_interval"] = tuple(values["guidance_interval"])
    return Recipe(**{**values, **changed})


def silenced(values: Any) -> dict[str, Any]:
    """Return the JSON values of any recipe without words and file names, and without unknown values."""
    said = values if isinstance(values, Mapping) else {}
    kept = {name: value for name, value in said.items() if name in DEFAULTS and name not in _WORDS}
    return {**kept, "prompt": ""}

"""Preferences and the options of a command: the nearest wins; no Discord here.

the command ◄── the person's ◄── the channel's ◄── the server's ◄── the model's defaults
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from bot.domain.errors import UserMistake
from bot.front.recipes.options import Asked, parse
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import Offer

NEGATIVE_PROMPT = "negative_prompt"
ORDER = ("model", "size", "steps", "guidance", "sampler", "lora", "variants", NEGATIVE_PROMPT)
"""The order in which preferences are filled in: the model comes first, because suitability depends on it."""


def nearest(preferred: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the options of several owners, the nearest first, as one."""
    return {name: value for options in reversed(preferred) for name, value in options.items()}


def filled_in(asked: Asked, options: Mapping[str, Any], offers: Sequence[Offer]) -> tuple[Asked, list[str]]:
    """Return `asked` with preferred options in place of those left out, and the names of unsuitable ones.

    An option is unsuitable if the request would be refused with it, such as a size of another model.
    """
    unsuitable = []
    for name in ORDER:
        if name not in options or getattr(asked, name) is not None:
            continue
        tried = replace(asked, **{name: options[name]})
        try:
            parse(tried, offers)
        except (InvalidRequest, UserMistake):
            unsuitable.append(name)
        else:
            asked = tried
    return asked, unsuitable


def check(options: Mapping[str, Any], offers: Sequence[Offer]) -> None:
    """Raise as `parse` where no request could have these options."""
    known = {field.name for field in fields(Asked)}
    parse(Asked(prompt="a picture", **{name: options[name] for name in options if name in known}), offers)

"""Options of other bots that people type into a prompt, and which option of `/imagine` does the same."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

# Phones write a long dash for two short ones.
_FLAG: Final = re.compile(r"(?<!\S)(?:--|—|–)([A-Za-z]{1,12})\b((?:[ =]+(?!--|—|–)[^\s,]+)?)")

OPTION_OF_FLAG: Final = MappingProxyType(
    {
        "ar": "size",
        "aspect": "size",
        "w": "size",
        "h": "size",
        "no": "negative_prompt",
        "negative": "negative_prompt",
        "seed": "seed",
        "steps": "steps",
        "cfg": "guidance",
        "scale": "guidance",
        "sampler": "sampler",
        "model": "model",
        "v": "model",
        "niji": "model",
        "iw": "strength",
        "strength": "strength",
        "repeat": "variants",
        "r": "variants",
        "n": "variants",
    }
)


@dataclass(frozen=True, kw_only=True)
class Hint:
    """What was typed into the prompt, and the name of the option that does the same."""

    typed: str
    option: str


def hint_of(prompt: str, options: Container[str]) -> Hint | None:
    """The first option of another bot in `prompt` for which there is one in `options`; None without one."""
    for flag in _FLAG.finditer(prompt):
        option = OPTION_OF_FLAG.get(flag[1].lower())
        if option is not None and option in options:
            return Hint(typed=flag[0], option=option)
    return None

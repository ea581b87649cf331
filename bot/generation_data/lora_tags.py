"""`<lora:NAME:WEIGHT>` in a prompt, as people type it for AUTOMATIC1111's web UI."""

from __future__ import annotations

import re
from collections.abc import Collection

from bot.generation_data.data import MAX_NAME, name_of, number
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import MAX_LORA_WEIGHT, Lora

NETWORK = re.compile(r"(?:,[ \t]{0,4}|[ \t]{0,4})<(lora|lyco|hypernet):([^:<>\n]{1,200})(:[^<>\n]{0,100})?>")
"""A network of the web UI in a prompt, with the comma or the spaces before it: its kind, name and weights."""
LORAS = ("lora", "lyco")


def weight_in(weights: str) -> str:
    """Return the text of the first weight of a tag; empty if it has none."""
    return next(iter(weights.split(":")[1:2]), "").rpartition("=")[2].strip()


def without_tags(prompt: str) -> str:
    """Return a prompt without the networks of the web UI."""
    return _tidied(NETWORK.sub("", prompt))


def take_loras(prompt: str, offered: Collection[str]) -> tuple[str, tuple[Lora, ...]]:
    """Return the prompt without the tags of offered LoRAs, and those LoRAs; other tags stay text.

    Of a repeated name the last tag counts. Raises InvalidRequest for a weight that is no number.
    """
    names = {name.casefold(): name for name in offered}
    found: dict[str, Lora] = {}

    def take(tag: re.Match[str]) -> str:
        name = names.get(name_of(tag[2]).casefold())
        if name is None or tag[1] not in LORAS:
            return tag[0]
        text = weight_in(tag[3] or "")
        weight = number(text) if text else 1.0
        if weight is None:
            raise InvalidRequest("lora_weight", value=text[:MAX_NAME], limit=f"{MAX_LORA_WEIGHT:g}")
        found[name] = Lora(name=name, weight=weight)
        return ""

    left = NETWORK.sub(take, prompt)
    return (_tidied(left) if found else prompt), tuple(found.values())


def tags_in(prompt: str) -> list[str]:
    """Return the tags of LoRAs in a prompt, as they were typed."""
    return [tag[0].lstrip(", \t") for tag in NETWORK.finditer(prompt) if tag[1] in LORAS]


def _tidied(prompt: str) -> str:
    return prompt.strip().removeprefix(",").lstrip()

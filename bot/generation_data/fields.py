"""Generation data that bots show in the fields of an embed, as the text that A1111 writes."""

from __future__ import annotations

import json
from collections.abc import Iterable

PROMPT, NEGATIVE = "prompt", "negative prompt"
NAMES = {
    "positive prompt": PROMPT,
    "positive": PROMPT,
    "negative": NEGATIVE,
    "sampling steps": "Steps",
    "steps": "Steps",
    "cfg": "CFG scale",
    "cfg scale": "CFG scale",
    "guidance": "CFG scale",
    "guidance scale": "CFG scale",
    "sampler": "Sampler",
    "sampling method": "Sampler",
    "resolution": "Size",
    "dimensions": "Size",
    "size": "Size",
    "seed": "Seed",
    "checkpoint": "Model",
    "model": "Model",
}
"""From the names that bots give to fields to the names in the text; other names stay as they are."""

MARKUP = "`*_ \n"  # around the words of a field


def text_of_fields(description: str, fields: Iterable[tuple[str, str]]) -> str:
    """Return the text for an embed's fields; without a field for the prompt, the description is the prompt.

    Empty if no field has the number of steps: such an embed is not taken for generation data.
    """
    found: dict[str, str] = {}
    for name, value in fields:
        plain = name.strip(f"{MARKUP}:").casefold()
        found.setdefault(NAMES.get(plain, plain), value.strip(MARKUP))
    prompt, negative = found.pop(PROMPT, description.strip(MARKUP)), found.pop(NEGATIVE, "")
    if "Steps" not in found:  # texts are read before files: a part must not hide the recipe in a picture
        return ""
    steps = found.pop("Steps")
    settings = ", ".join(f"{name}: {_value(value)}" for name, value in found.items())
    lines = [prompt, f"Negative prompt: {negative}" if negative else "", f"Steps: {steps}, {settings}"]
    return "\n".join(filter(None, lines))


def _value(value: str) -> str:
    line = " ".join(value.split())
    return json.dumps(line, ensure_ascii=False) if "," in line else line

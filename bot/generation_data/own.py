"""This bot's own recipe as JSON, from the PNG chunk or the EXIF note of a picture; every value is exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bot.domain.jobs import GIVEN, MASK
from bot.generation_data.data import (
    GenerationData,
    NoGenerationData,
    SecondPassData,
    Tool,
    item,
    listed,
    merged,
    number,
    whole,
)
from sdjax_engine.request import Lora

VERSION = 1
READ = {
    *("prompt", "negative_prompt", "seed", "num_inference_steps", "guidance_scale", "sampler", "height"),
    *("width", "model", "strength", "loras", "second_pass", "clip_skip", "references", *GIVEN),
}


def is_own(found: Mapping[str, Any]) -> bool:
    """Return whether the JSON object is a recipe of this bot."""
    return isinstance(found.get("request"), dict) and "version" in found


def read_own(found: Mapping[str, Any]) -> GenerationData:
    """Return what the recipe says; raises NoGenerationData for one of a later version."""
    if found["version"] != VERSION:
        raise NoGenerationData("generation_data_version")
    request: dict[str, Any] = _implied(found["request"]) | found["request"]
    references = request.get("references")
    skipped = whole(request.get("clip_skip", 0))
    started = any(name in request for name in ("init_image", MASK))
    return GenerationData(
        tool=Tool.OWN,
        prompt=_text(request, "prompt"),
        negative_prompt=_text(request, "negative_prompt"),
        width=whole(request.get("width")),
        height=whole(request.get("height")),
        steps=whole(request.get("num_inference_steps")),
        sampler=_text(request, "sampler"),
        guidance=number(request.get("guidance_scale")),
        seed=whole(request.get("seed")),
        model=_text(request, "model"),
        loras=merged(_loras(request.get("loras"))),
        strength=number(request.get("strength", 1.0)) if started else None,
        second_pass=_second_pass(request.get("second_pass")),
        clip_skip=None if skipped is None else skipped + 1,  # the recipe counts the layers left out
        started=started,
        references=len(references) if isinstance(references, list) else 0,
        unread=listed(item(str(name), value) for name, value in request.items() if name not in READ),
    )


def _implied(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a recipe leaves out because it is usual, and what still tells of a given picture."""
    found: dict[str, Any] = {}
    if "control_image" in request:
        found["control_type"] = "edges"
    if "image_prompt" in request:
        found["image_prompt_strength"] = 1.0
    return found


def _text(request: Mapping[str, Any], name: str) -> str:
    value = request.get(name)
    return value if isinstance(value, str) else ""


def _second_pass(found: Any) -> SecondPassData | None:
    if not isinstance(found, dict):
        return None
    return SecondPassData(
        width=whole(found.get("width")),
        height=whole(found.get("height")),
        steps=whole(found.get("num_inference_steps")),
        strength=number(found.get("strength")),
    )


def _loras(found: Any) -> Iterator[Lora]:
    for pair in found if isinstance(found, list) else []:
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str):
            weight = number(pair[1])
            if weight is not None:
                yield Lora(name=pair[0], weight=weight)

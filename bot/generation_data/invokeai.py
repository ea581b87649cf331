"""InvokeAI's metadata: `invokeai_metadata` of versions 3 and later, `sd-metadata` of version 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bot.generation_data.data import (
    MAX_NAME,
    GenerationData,
    Tool,
    item,
    listed,
    merged,
    name_of,
    number,
    whole,
    words,
)
from sdjax_engine.request import Lora

READ = {
    *("positive_prompt", "negative_prompt", "width", "height", "steps", "scheduler", "cfg_scale", "seed"),
    *("model", "loras", "strength", "clip_skip", "init_image", "generation_mode"),
}
SILENT = {"app_version", "rand_device", "positive_style_prompt", "negative_style_prompt"}


def is_invokeai(found: Mapping[str, Any]) -> bool:
    """Return whether the JSON object is InvokeAI's metadata of version 3 or later."""
    return "positive_prompt" in found


def read_invokeai(found: Mapping[str, Any]) -> GenerationData:
    """Return what the metadata of version 3 or later say."""
    model = found.get("model")
    model = model if isinstance(model, dict) else {"name": model}
    skipped = whole(found.get("clip_skip"))
    mode = words(found.get("generation_mode"))
    started = mode.endswith(("img2img", "inpaint", "outpaint")) or bool(found.get("init_image"))
    unread = [
        item(str(name), _shown(value))
        for name, value in found.items()
        if name not in READ and name not in SILENT and value not in (None, "", [], {}, False)
    ]
    return GenerationData(
        tool=Tool.INVOKEAI,
        prompt=words(found.get("positive_prompt")),
        negative_prompt=words(found.get("negative_prompt")),
        width=whole(found.get("width")),
        height=whole(found.get("height")),
        steps=whole(found.get("steps")),
        sampler=words(found.get("scheduler"))[:MAX_NAME],
        guidance=number(found.get("cfg_scale")),
        seed=whole(found.get("seed")),
        model=_model_name(model),
        model_hash=words(model.get("hash"))[:MAX_NAME],
        loras=merged(_loras(found.get("loras"))),
        strength=number(found.get("strength")) if started else None,
        clip_skip=None if skipped is None else skipped + 1,  # InvokeAI counts the layers left out
        started=started,
        unread=listed(unread),
    )


def is_version_2(found: Mapping[str, Any]) -> bool:
    """Return whether the JSON object is InvokeAI's `sd-metadata`."""
    image = found.get("image")
    return isinstance(image, dict) and "prompt" in image


def read_version_2(found: Mapping[str, Any]) -> GenerationData:
    """Return what `sd-metadata` say; their negative prompt stands in brackets in the prompt."""
    image: Mapping[str, Any] = found["image"]
    prompt = image.get("prompt")
    if isinstance(prompt, list):
        prompt = ", ".join(words(part.get("prompt")) for part in prompt if isinstance(part, dict))
    positive, negative_prompt = _brackets(words(prompt))
    started = image.get("type") == "img2img"
    return GenerationData(
        tool=Tool.INVOKEAI,
        prompt=positive,
        negative_prompt=negative_prompt,
        width=whole(image.get("width")),
        height=whole(image.get("height")),
        steps=whole(image.get("steps")),
        sampler=words(image.get("sampler"))[:MAX_NAME],
        guidance=number(image.get("cfg_scale")),
        seed=whole(image.get("seed")),
        model=name_of(found.get("model_weights")),
        model_hash=words(found.get("model_hash"))[:MAX_NAME],
        strength=number(image.get("strength")) if started else None,
        started=started,
        unread=listed(item(name) for name in ("facetool", "upscale", "postprocessing") if image.get(name)),
    )


def _brackets(prompt: str) -> tuple[str, str]:
    """Return the prompt without its parts in brackets, and these parts."""
    kept, negative, depth = [], [], 0
    for piece in prompt.replace("]", "[]").split("["):
        if piece.startswith("]"):
            depth = 0
            kept.append(piece[1:])
        elif depth:
            negative.append(piece)
        else:
            kept.append(piece)
        depth = 1
    return " ".join("".join(kept).split()), ", ".join(filter(None, (part.strip() for part in negative)))


def _model_name(model: Mapping[str, Any]) -> str:
    return name_of(model.get("name")) or name_of(model.get("model_name"))


def _loras(found: Any) -> Iterator[Lora]:
    """Yield the LoRAs of version 3, `{"lora": {"model_name": …}}`, and of 4, `{"model": {"name": …}}`."""
    for entry in found if isinstance(found, list) else []:
        if not isinstance(entry, dict):
            continue
        model = entry.get("model") or entry.get("lora")
        weight = number(entry.get("weight"))
        if isinstance(model, dict):
            yield Lora(name=_model_name(model), weight=1.0 if weight is None else weight)


def _shown(value: Any) -> str:
    """Return a value in few words: the name of a model, how many entries of a list."""
    if isinstance(value, dict):
        return _model_name(value)
    if isinstance(value, list):
        return str(len(value))
    return str(value)[:MAX_NAME]

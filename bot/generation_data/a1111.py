"""The `parameters` text of AUTOMATIC1111's web UI, and of Forge, SD.Next, Civitai and this bot.

    a bird on a branch <lora:ink:0.8>
    Negative prompt: frame
    Steps: 20, Sampler: Euler a, CFG scale: 7, Seed: 5, Size: 512x512, Model: sd15

Discord puts a pasted text on one line, so the line breaks may be missing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bot.generation_data.data import (
    MAX_NAME,
    GenerationData,
    NoGenerationData,
    SecondPassData,
    Tool,
    item,
    listed,
    merged,
    name_of,
    number,
    whole,
    words,
)
from bot.generation_data.lora_tags import NETWORK, weight_in, without_tags
from sdjax_engine.request import Lora

MAX_KEY = 60  # characters
MAX_BROKEN_JSON = 8  # values that may begin as JSON and are not: each costs a look at the rest of the text

_STEPS_LINE = re.compile(r"^[ \t]{0,8}Steps: ?\d", re.MULTILINE)
_STEPS = re.compile(r"(?<!\S)Steps: ?\d{1,6}(?=, ?[A-Z]|\s{0,8}$)")
_NEGATIVE_LINE = re.compile(r"^[ \t]{0,8}Negative prompt:", re.MULTILINE)
_NEGATIVE = re.compile(r"(?<!\S)Negative prompt:")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SIZE = re.compile(r"(\d{1,6}) ?[x×] ?(\d{1,6})")

SILENT = {
    *("version", "app", "backend", "pipeline", "operations", "parser", "hashes"),
    *("created date", "civitai metadata", "lora hashes", "time taken", "module 1", "module 2", "module 3"),
    "int8",  # of this bot: what the model's weights were rounded to
}
"""Settings that no picture depends on, or that say again what another setting says."""


def read_a1111(text: str) -> GenerationData:
    """Return what the text says; raises NoGenerationData where it has no line of settings."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    prompts, settings_text = _divided(text)
    settings = dict(_settings(settings_text))
    prompt, negative_prompt = _two_prompts(prompts)
    prompt, loras, unread = _without_networks(prompt)
    return _data(settings, prompt, negative_prompt, loras, unread)


def _divided(text: str) -> tuple[str, str]:
    """Return the prompts and the settings."""
    lines = [match.start() for match in _STEPS_LINE.finditer(text)]
    if lines:
        return text[: lines[-1]], text[lines[-1] :]
    if (match := _STEPS.search(text)) is not None:
        return text[: match.start()], text[match.start() :]
    before, _, last = text.rstrip().rpartition("\n")
    known = {name.casefold() for name, _ in _settings(last)} & {*KNOWN, *SILENT}
    if len(known) < 3:
        raise NoGenerationData
    return before, last


def _two_prompts(text: str) -> tuple[str, str]:
    found = _NEGATIVE_LINE.search(text) or _NEGATIVE.search(text)
    if found is None:
        return text.strip(), ""
    return text[: found.start()].strip(), text[found.end() :].strip()


def _without_networks(prompt: str) -> tuple[str, list[Lora], list[str]]:
    """Return the prompt without `<lora:name:weight>`, the LoRAs, and other networks of its kind."""
    loras, unread = [], []
    for kind, name, weights in NETWORK.findall(prompt):
        if kind == "hypernet":
            unread.append(item("hypernet", name))
        else:
            loras.append(Lora(name=name_of(name), weight=_weight(weight_in(weights))))
    return without_tags(prompt), loras, unread


def _weight(value: object) -> float:
    read = number(value)
    return 1.0 if read is None else read


def _settings(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of `name: value, name: "a, b", name: {"a": 1}`, in time linear in length."""
    text = text.replace("\n", ", ")
    start, broken = 0, 0
    while (colon := text.find(":", start)) != -1:
        name = text[max(start, colon - MAX_KEY) : colon].rpartition(",")[2].strip()
        begin = colon + 1
        while begin < len(text) and text[begin] == " ":
            begin += 1
        value: Any = None
        end = -1
        if text[begin : begin + 1] in ("[", "{", '"') and broken < MAX_BROKEN_JSON:
            value, end = _json_value(text, begin)
            broken += end == -1
        if end == -1:
            end = text.find(",", begin)
            end = len(text) if end == -1 else end
            value = text[begin:end].strip()
        start = end
        if name:
            yield name, value


def _json_value(text: str, begin: int) -> tuple[Any, int]:
    """Return the JSON value at `begin` and its end; -1 where there is none."""
    try:
        if text[begin] == '"':
            quoted = _STRING.match(text, begin)
            return (None, -1) if quoted is None else (json.loads(quoted[0], strict=False), quoted.end())
        return json.JSONDecoder(strict=False).raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None, -1


KNOWN = {
    *("steps", "sampler", "schedule type", "cfg scale", "seed", "size", "model hash", "model", "clip skip"),
    *("denoising strength", "hires upscale", "hires resize", "hires steps", "lora", "civitai resources"),
}


def _data(
    settings: Mapping[str, Any], prompt: str, negative_prompt: str, loras: list[Lora], unread: list[str]
) -> GenerationData:
    by_name = {name.casefold(): value for name, value in settings.items()}
    unread += [
        item(name, _shown(value))
        for name, value in settings.items()
        if name.casefold() not in KNOWN and name.casefold() not in SILENT
    ]
    size = _SIZE.fullmatch(words(by_name.get("size")))
    civitai, model, others = _civitai(by_name.get("civitai resources"))
    strength = number(by_name.get("denoising strength"))
    second_pass = _second_pass(by_name, strength)
    if second_pass is not None:  # the strength is that of the second pass
        strength = None
    return GenerationData(
        tool=Tool.A1111,
        prompt=prompt,
        negative_prompt=negative_prompt,
        width=int(size[1]) if size else None,
        height=int(size[2]) if size else None,
        steps=whole(by_name.get("steps")),
        sampler=words(by_name.get("sampler"))[:MAX_NAME],
        schedule=words(by_name.get("schedule type"))[:MAX_NAME],
        guidance=number(by_name.get("cfg scale")),
        seed=whole(by_name.get("seed")),
        model=name_of(by_name.get("model")) or model,
        model_hash=words(by_name.get("model hash"))[:MAX_NAME],
        loras=merged([*loras, *_own_loras(words(by_name.get("lora"))), *civitai]),
        strength=strength,
        second_pass=second_pass,
        clip_skip=whole(by_name.get("clip skip")),
        started=strength is not None,
        unread=listed([*unread, *others]),
    )


def _second_pass(by_name: Mapping[str, Any], strength: float | None) -> SecondPassData | None:
    """Return the "Hires. fix" of the settings; `by_name` has their names in lower case.

    The web UI runs all its steps; this bot runs steps × strength. So the steps are divided by the strength.
    """
    if not any(name.startswith("hires ") for name in by_name):
        return None
    size = _SIZE.fullmatch(words(by_name.get("hires resize")))
    steps = whole(by_name.get("hires steps"))
    if steps and strength:
        steps = math.ceil(steps / min(1.0, strength) - 1e-9)
    return SecondPassData(
        width=int(size[1]) if size else None,
        height=int(size[2]) if size else None,
        factor=number(by_name.get("hires upscale")),
        steps=steps or None,
        strength=strength,
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _own_loras(text: str) -> Iterator[Lora]:
    """Yield the LoRAs of this bot's own `parameters` text: `ink:0.8, fog:1`."""
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, weight = part.partition(":")
        yield Lora(name=name_of(name), weight=_weight(weight))


def _civitai(resources: Any) -> tuple[list[Lora], str, list[str]]:
    """Return the LoRAs, the model and all other resources of Civitai's list."""
    loras, model, others = [], "", []
    for resource in resources if isinstance(resources, list) else []:
        if not isinstance(resource, dict):
            continue
        kind, name = words(resource.get("type")).casefold(), name_of(resource.get("modelName"))
        if kind in ("lora", "lycoris", "dora", "locon"):
            loras.append(Lora(name=name, weight=_weight(resource.get("weight"))))
        elif kind == "checkpoint":
            model = model or name
        elif kind or name:
            others.append(item(kind[:MAX_KEY] or "resource", name))
    return loras, model, others

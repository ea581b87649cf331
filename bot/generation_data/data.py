"""What is read from every format, and the only error of reading."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from bot.domain.errors import UserMistake
from sdjax_engine.request import Lora

MAX_BYTES = 64 * 1024  # of one text, in UTF-8
MAX_LORAS = 32
MAX_UNREAD = 40
MAX_ITEM = 80  # characters of an item that is listed
MAX_NAME = 200  # characters of the name of a model, sampler or LoRA
MAX_NUMBER = 30  # characters of a number


class NoGenerationData(UserMistake):
    """The text or file cannot be read as generation data."""

    message_id = "generation_data_none"


class Tool(StrEnum):
    """The format of the data, by the name of the tool that it comes from."""

    OWN = "sdjax-bot"
    A1111 = "A1111"
    COMFYUI = "ComfyUI"
    INVOKEAI = "InvokeAI"


@dataclass(frozen=True, kw_only=True)
class SecondPassData:
    """A second pass in a larger size, given in pixels or as the factor of both sides."""

    width: int | None = None
    height: int | None = None
    factor: float | None = None
    steps: int | None = None
    strength: float | None = None


@dataclass(frozen=True, kw_only=True)
class GenerationData:
    """What a picture was painted with, in the tool's own words; None or empty where the data does not say.

    `sampler`, `schedule` and `model` are names as the tool writes them, and `model` has no folder or file
    extension. `clip_skip` counts as A1111 does: 1 uses the last layer. `started` says whether the picture was
    painted from another picture, and `references` how many reference pictures the model was shown. `unread`
    are settings that are not understood, as `name: value`.
    """

    tool: Tool
    prompt: str = ""
    negative_prompt: str = ""
    width: int | None = None
    height: int | None = None
    steps: int | None = None
    sampler: str = ""
    schedule: str = ""
    guidance: float | None = None
    seed: int | None = None
    model: str = ""
    model_hash: str = ""
    loras: tuple[Lora, ...] = ()
    strength: float | None = None
    second_pass: SecondPassData | None = None
    clip_skip: int | None = None
    started: bool = False
    references: int = 0
    unread: tuple[str, ...] = ()


def whole(value: object) -> int | None:
    """Return a whole number from a JSON value or its text; None for anything else."""
    read = number(value)
    if read is None or read != int(read):
        return None
    return int(value) if isinstance(value, int | str) and _digits(value) else int(read)


def _digits(value: int | str) -> bool:
    return isinstance(value, int) or value.strip().lstrip("-").isdecimal()


def number(value: object) -> float | None:
    """Return a finite number from a JSON value or its text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        if isinstance(value, str) and len(value) > MAX_NUMBER:
            return None
        read = float(value)
    except (ValueError, OverflowError):
        return None
    return read if math.isfinite(read) else None


def words(value: object) -> str:
    """Return a text as it is; empty for any other JSON value."""
    return value.strip() if isinstance(value, str) else ""


def name_of(value: object) -> str:
    """Return the name of a model or LoRA, without its folder and file extension."""
    name = words(value).replace("\\", "/").rpartition("/")[2]
    for ending in (".safetensors", ".ckpt", ".pt", ".pth", ".bin", ".gguf", ".sft"):
        if name.casefold().endswith(ending):
            name = name[: -len(ending)]
    return name[:MAX_NAME]


def item(name: str, value: object = "") -> str:
    """Return a setting as it is listed: on one line and shortened."""
    text = f"{name}: {value}" if value not in ("", None) else name
    line = " ".join(text[: 4 * MAX_ITEM].split())
    return line if len(line) <= MAX_ITEM else line[: MAX_ITEM - 1] + "…"


def listed(items: Iterable[str]) -> tuple[str, ...]:
    """Return the items once each, at most `MAX_UNREAD`."""
    return tuple(dict.fromkeys(items))[:MAX_UNREAD]


def merged(loras: Iterable[Lora]) -> tuple[Lora, ...]:
    """Return the LoRAs by name: the first of a repeated name counts."""
    found: dict[str, Lora] = {}
    for lora in loras:
        if lora.name:
            found.setdefault(lora.name, lora)
    return tuple(found.values())[:MAX_LORAS]

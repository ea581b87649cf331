"""Typed options to a recipe, or to one sentence that says what to change; no Discord here."""

from __future__ import annotations

import math
import re
import secrets
import unicodedata
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from bot.errors import UserMistake
from bot.expansion import SIGNS
from bot.jobs import MAX_VARIANTS, Recipe
from bot.sizes import nearest_size, same_shape
from bot.texts import tidy
from sdjax_engine.request import MAX_LORA_WEIGHT, MAX_SEED, InvalidRequest, Lora, Offer, parse_sampler

MAX_CHOICES = 25
MAX_CHOICE = 100  # characters of a suggested value
MAX_ECHO = 60  # characters of a wrong value that are said back
PICTURE_STRENGTH = 0.75  # the strength when none is given
WHOLLY = 1.0
COMMON_ASPECTS = ((1, 1), (5, 4), (4, 3), (3, 2), (16, 10), (16, 9), (2, 1), (21, 9))

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
"""Options of other bots that people type into a prompt, and the option of /imagine that does the same."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options as they were typed, unchecked; None for an option that was left out.

    `image` and `mask` say whether those files were sent.
    """

    prompt: str
    negative_prompt: str | None = None
    variants: int | None = None
    size: str | None = None
    seed: int | None = None
    steps: int | None = None
    guidance: float | None = None
    sampler: str | None = None
    model: str | None = None
    strength: float | None = None
    lora: str | None = None
    style: str | None = None
    image: bool = False
    mask: bool = False


def may_expand(prompt: str) -> bool:
    """Return whether a prompt may have alternatives, wildcards or escapes."""
    return any(sign in prompt for sign in SIGNS)


def random_seed() -> int:
    """Return a random seed."""
    return secrets.randbelow(MAX_SEED + 1)


def parse(asked: Asked, offers: Sequence[Offer], *, new_seed: Callable[[], int] = random_seed) -> Recipe:
    """Return the recipe of the options, with the model's defaults for those left out.

    Raises `InvalidRequest` or `UserMistake` for the first option that must change.
    """
    offer = find_offer(asked.model, offers)
    width, height = offer.sizes[0] if asked.size is None else find_size(asked.size, offer)
    variants = 1 if asked.variants is None else asked.variants
    if not 1 <= variants <= MAX_VARIANTS:
        raise InvalidRequest("variants", value=variants, limit=MAX_VARIANTS)
    seed = new_seed() if asked.seed is None else asked.seed
    if not 0 <= seed <= MAX_SEED:
        raise InvalidRequest("seed", value=seed, limit=MAX_SEED)
    if asked.mask and not asked.image:
        raise InvalidRequest("mask_alone")
    if asked.strength is not None and not asked.image:
        raise UserMistake("strength_alone")
    recipe = Recipe(
        prompt=clean(asked.prompt),
        negative_prompt=clean(asked.negative_prompt or ""),
        seed=seed,
        variants=variants,
        num_inference_steps=offer.num_inference_steps if asked.steps is None else asked.steps,
        guidance_scale=offer.guidance_scale if asked.guidance is None else float(asked.guidance),
        sampler=offer.sampler if asked.sampler is None else parse_sampler(echo(asked.sampler)),
        width=width,
        height=height,
        model=offer.model,
        strength=WHOLLY if asked.strength is None else float(asked.strength),
        loras=parse_loras(asked.lora or "", offer),
        style=asked.style or "",
    )
    offer.check(recipe.request(0))
    return recipe


def start_from(
    recipe: Recipe, asked: Asked, offer: Offer, *, size: tuple[int, int], picture: str, mask: str | None
) -> Recipe:
    """Return `recipe` with the start picture `picture`, of this `size`, and the mask `mask`: names of files.

    Without a size, the offered size nearest in shape is used. Without a strength it is 0.75, or 1 with a
    mask.
    """
    width, height = nearest_size(size, offer) if asked.size is None else (recipe.width, recipe.height)
    strength = recipe.strength
    if asked.strength is None:
        strength = PICTURE_STRENGTH if mask is None else WHOLLY
    return replace(recipe, init_image=picture, mask_image=mask, strength=strength, width=width, height=height)


def parse_loras(text: str, offer: Offer) -> tuple[Lora, ...]:
    """Return the LoRAs of `ink, fog:0.8`; the last of a repeated name counts. `Offer.check` checks names."""
    names = {name.casefold(): name for name in offer.loras}
    found: dict[str, Lora] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        typed, colon, weight = part.partition(":")
        name = names.get(typed.strip().casefold(), echo(typed))
        found[name] = Lora(name=name, weight=_weight(weight) if colon else 1.0)
    return tuple(found.values())


def lora_choices(typed: str, offer: Offer) -> list[tuple[str, str]]:
    """Return suggestions for the last of the LoRAs in `typed`: (name to show, value to send)."""
    before, comma, last = typed.rpartition(",")
    wanted = last.strip().casefold()
    found = [
        f"{before}{comma}{' ' if comma else ''}{name}" for name in offer.loras if wanted in name.casefold()
    ]
    return [(text, text) for text in found if len(text) <= MAX_CHOICE][:MAX_CHOICES]


def find_offer(model: str | None, offers: Sequence[Offer]) -> Offer:
    """Return the offer of the model of this name, or the first offer."""
    if model is None:
        return offers[0]
    for offer in offers:
        if offer.model.casefold() == model.strip().casefold():
            return offer
    raise InvalidRequest("model", value=echo(model), choices=", ".join(offer.model for offer in offers))


def find_size(text: str, offer: Offer) -> tuple[int, int]:
    """Return the offered size for `512x768` or for a shape such as `2:3`."""
    numbers = _two_numbers(text)
    choices = ", ".join(size_name(size) for size in offer.sizes)
    if numbers is None:
        raise UserMistake("size_or_aspect", value=echo(text), choices=choices)
    kind, first, second = numbers
    if kind == "size" and (first, second) in offer.sizes:
        return first, second
    if kind == "aspect":
        alike = [size for size in offer.sizes if same_shape(size, (first, second))]
        if alike:
            return alike[0]
    raise InvalidRequest("size", model=offer.model, value=echo(text), choices=choices)


def size_choices(typed: str, offer: Offer) -> list[tuple[str, str]]:
    """Return the sizes to suggest for `typed`: (name to show, value to send)."""
    typed = typed.strip().casefold().replace("×", "x")
    sizes = [(size_name(size), f"{size[0]}x{size[1]}") for size in offer.sizes]
    return [(name, value) for name, value in sizes if typed in name][:MAX_CHOICES]


def size_name(size: tuple[int, int]) -> str:
    """Return a size with its shape: `768x512 (3:2)`."""
    return f"{size[0]}x{size[1]} ({aspect_name(size)})"


def aspect_name(size: tuple[int, int]) -> str:
    """Return the usual name of a size's shape, or the exact ratio."""
    for first, second in COMMON_ASPECTS:
        for aspect in ((first, second), (second, first)):
            if same_shape(size, aspect):
                return f"{aspect[0]}:{aspect[1]}"
    divisor = math.gcd(*size)
    return f"{size[0] // divisor}:{size[1] // divisor}"


def clean(text: str) -> str:
    """Return `text` without control characters and broken surrogates.

    Empty when no character is visible.
    """
    whole = text.encode("utf-8", "replace").decode("utf-8")
    kept = (
        character if character == "\n" or unicodedata.category(character) != "Cc" else " "
        for character in whole
    )
    cleaned = "".join(kept).strip()
    return cleaned if any(unicodedata.category(character)[0] not in "ZC" for character in cleaned) else ""


def echo(text: str) -> str:
    """Return a wrong value for an error sentence: on one line and shortened."""
    line = tidy(clean(text))
    return line if len(line) <= MAX_ECHO else line[: MAX_ECHO - 1] + "…"


def _two_numbers(text: str) -> tuple[str, int, int] | None:
    text = "".join(text.split()).casefold().replace("×", "x").replace("*", "x").replace("/", ":")
    for sign, kind in (("x", "size"), (":", "aspect")):
        first, found, second = text.partition(sign)
        if found and _is_number(first) and _is_number(second):
            return kind, int(first), int(second)
    return None


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest("lora_weight", value=echo(text), limit=f"{MAX_LORA_WEIGHT:g}") from None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) > 0


@dataclass(frozen=True, kw_only=True)
class Hint:
    """A flag that was typed into the prompt, and the name of the option that does the same."""

    typed: str
    option: str


def hint_of(prompt: str, options: Container[str]) -> Hint | None:
    """Return the first flag of another bot in `prompt` that one of `options` replaces; None without one."""
    for flag in _FLAG.finditer(prompt):
        option = OPTION_OF_FLAG.get(flag[1].lower())
        if option is not None and option in options:
            return Hint(typed=flag[0], option=option)
    return None

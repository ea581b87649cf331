"""Typed options and preferences: a recipe, or one sentence that says what to change; no Discord here."""

from __future__ import annotations

import math
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final

from bot.domain.errors import SeveralMistakes, UserMistake
from bot.domain.expansion import SIGNS
from bot.domain.jobs import MASK, MAX_VARIANTS, REFERENCES, Recipe
from bot.domain.sizes import nearest_size
from bot.generation_data.lora_tags import tags_in, take_loras
from bot.texts.markup import tidy
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import (
    MAX_LORA_WEIGHT,
    MAX_SEED,
    ControlType,
    Lora,
    Offer,
    SecondPass,
    same_shape,
)
from sdjax_engine.sampler_names import parse_sampler

LORA = "lora"
CHECKED = (
    *("model", "size", "variants", "steps", "guidance", "clip_skip", "sampler", "seed", "strength"),
    *("lora", "hires", "control_type", "control_strength", "image_prompt_strength"),
    *("negative_prompt", "prompt"),
)
"""The options that can be wrong; the model comes first, because the others depend on it."""
MOST_MISTAKES = 5  # of one message; a sentence has up to 300 characters
RANDOM_SEED = -1  # in A1111
MAX_CHOICES = 25
MAX_CHOICE = 100  # characters of a suggested value
MAX_ECHO = 60  # characters of a wrong value that an error quotes
SHAPING = ("init_image", "control_image", *REFERENCES)  # the first that is there decides the size
PICTURE_STRENGTH = 0.75  # the strength when none is given
WHOLLY = 1.0
IMAGE_PROMPT_STRENGTH = 0.6  # the strength of an image prompt when none is given
HIRES_STRENGTH = 0.5  # of a second pass, when none is given
HIRES_STRENGTHS = ("0.3", "0.5", "0.7")  # to choose from
COMMON_ASPECTS = ((1, 1), (5, 4), (4, 3), (3, 2), (16, 10), (16, 9), (2, 1), (21, 9))

# Phones replace two hyphens by a dash.
_FLAG: Final = re.compile(r"(?<!\S)(?:--|—|–)([A-Za-z]{1,12})\b((?:[ =]+(?!--|—|–)[^\s,]+)?)")
_NUMBER: Final = re.compile(r"(?:[0-9]{1,3}(?:\.[0-9]{1,20})?|\.[0-9]{1,20})(?:e-[0-9]{1,3})?")

CONTROL_ALIASES: Final = MappingProxyType(
    {
        "canny": ControlType.EDGES,
        "lineart": ControlType.LINES,
        "openpose": ControlType.POSE,
        "seg": ControlType.SEGMENTS,
    }
)
"""Other names of types of control pictures."""
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
        "hr": "hires",
        "hires": "hires",
        "upscale": "hires",
        "repeat": "variants",
        "r": "variants",
        "n": "variants",
    }
)
"""Options of other bots that people type into a prompt, and the option of /imagine that does the same."""
NEGATIVE_PROMPT = "negative_prompt"
ORDER = ("model", "size", "steps", "guidance", "clip_skip", "sampler", "lora", "variants", NEGATIVE_PROMPT)
"""The order in which preferences are filled in: the model comes first, because suitability depends on it."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options as they were typed, unchecked; None for an option that was left out.

    `clip_skip` is 1 where no layer of CLIP is left out. `image`, `mask`, `control` and `image_prompt` say
    whether those files were sent, `references` how many.
    """

    prompt: str
    negative_prompt: str | None = None
    variants: int | None = None
    size: str | None = None
    seed: int | None = None
    steps: int | None = None
    guidance: float | None = None
    clip_skip: int | None = None
    sampler: str | None = None
    model: str | None = None
    strength: float | None = None
    lora: str | None = None
    style: str | None = None
    hires: str | None = None
    control_type: str | None = None
    control_strength: float | None = None
    image_prompt_strength: float | None = None
    image: bool = False
    mask: bool = False
    control: bool = False
    image_prompt: bool = False
    references: int = 0

    @property
    def is_shaped(self) -> bool:
        """Whether a given picture decides the size: no size is typed."""
        return self.size is None and (self.image or self.control or self.references > 0)


def may_expand(prompt: str) -> bool:
    """Return whether a prompt may have alternatives, wildcards or escapes."""
    return any(sign in prompt for sign in SIGNS)


def random_seed() -> int:
    """Return a random seed."""
    return secrets.randbelow(MAX_SEED + 1)


def together(mistakes: Sequence[Exception]) -> Exception:
    """Return the mistakes as one error, each of them once, and as many as a message has room for."""
    found: dict[str, Exception] = {}
    for each in mistakes:
        for one in each.mistakes if isinstance(each, SeveralMistakes) else (each,):
            found.setdefault(str(one), one)
    first, *others = list(found.values())[:MOST_MISTAKES]
    return SeveralMistakes([first, *others]) if others else first


@contextmanager
def reported_with(earlier: Sequence[UserMistake]) -> Iterator[None]:
    """Surround checks: raise their mistakes together with `earlier` ones."""
    try:
        yield
    except (InvalidRequest, UserMistake) as error:
        raise together([*earlier, error]) from None
    if earlier:
        raise together(earlier)


def parse(asked: Asked, offers: Sequence[Offer], *, new_seed: Callable[[], int] = random_seed) -> Recipe:
    """Return the recipe of the options, with the model's defaults for those left out.

    Without a model it is the first that takes the given pictures. `<lora:NAME:WEIGHT>` in the prompt adds a
    LoRA that the model offers, or sets the weight of a chosen one.

    Raises `InvalidRequest` or `UserMistake` for an option that must change, SeveralMistakes for several.
    """
    if asked.model is None:
        offers = [usual_offer(asked, offers)]
    try:
        return _parse(asked, offers, new_seed=new_seed)
    except (InvalidRequest, UserMistake) as error:
        raise together([*_mistakes_of_each(asked, offers), error]) from None


def usual_offer(asked: Asked, offers: Sequence[Offer]) -> Offer:
    """Return the first offer for the given pictures: with the type of control, of their kinds, or any."""
    able = [each for each in offers if each.controlnets or not asked.control]
    able = [each for each in able if each.image_prompts or not asked.image_prompt]
    able = [each for each in able if each.references >= asked.references]
    for offer in able if asked.control_type else ():
        with suppress(InvalidRequest, UserMistake):
            _control(asked, offer)
            return offer
    return (*able, *offers)[0]


def _mistakes_of_each(asked: Asked, offers: Sequence[Offer]) -> Iterator[Exception]:
    """Yield the mistake of each option that does not suit those before it that do."""
    good = Asked(prompt="picture", image=asked.image)
    typeless = asked.control and asked.control_type is None
    files = *["control"] * typeless, *["image_prompt"] * asked.image_prompt, "references"
    for name in (*CHECKED, *files):
        if getattr(asked, name) is None or (name == "hires" and asked.is_shaped):
            continue
        file = next((each for each in ("control", "image_prompt") if name.startswith(each)), None)
        given = {file: getattr(asked, file)} if file else {}
        tried = replace(good, **{name: getattr(asked, name)} | given)
        try:
            _parse(tried, offers)
        except (InvalidRequest, UserMistake) as error:
            yield error
            if name == "model":  # the others depend on it
                return
        else:
            good = tried


def _parse(asked: Asked, offers: Sequence[Offer], *, new_seed: Callable[[], int] = random_seed) -> Recipe:
    """Return the recipe; raises for the first option that must change."""
    offer = find_offer(asked.model, offers)
    width, height = offer.sizes[0] if asked.size is None else find_size(asked.size, offer)
    variants = 1 if asked.variants is None else asked.variants
    if not 1 <= variants <= MAX_VARIANTS:
        raise InvalidRequest("variants", value=variants, limit=MAX_VARIANTS)
    seed = new_seed() if asked.seed in (None, RANDOM_SEED) else asked.seed
    if not 0 <= seed <= MAX_SEED:
        raise InvalidRequest("seed", value=seed, limit=MAX_SEED)
    if asked.mask and not asked.image:
        raise InvalidRequest("mask_alone")
    if asked.strength is not None and not asked.image:
        raise UserMistake("strength_alone")
    prompt, tagged = take_loras(clean(asked.prompt), offer.loras)
    loras = {lora.name: lora for lora in (*parse_loras(asked.lora or "", offer), *tagged)}
    recipe = Recipe(
        prompt=prompt,
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
        loras=tuple(loras.values()),
        style=asked.style or "",
        guidance_interval=offer.guidance_interval,
        clip_skip=offer.clip_skip if asked.clip_skip is None else asked.clip_skip - 1,
        **_control(asked, offer),
        **_image_prompt(asked, offer),
    )
    if not asked.is_shaped:
        recipe = with_second_pass(recipe, asked, offer)
    offer.check(replace(recipe.request(0), references=(b"",) * asked.references))
    return recipe


def _control(asked: Asked, offer: Offer) -> dict[str, Any]:
    """Return the values of a recipe for its control picture, which `with_given` names; none without one.

    Raises UserMistake `control_alone` and `control_type_missing`, and InvalidRequest.
    """
    if not asked.control:
        if asked.control_type is not None or asked.control_strength is not None:
            raise UserMistake("control_alone")
        return {}
    kinds = [kind for kind, _ in offer.control_types]
    if asked.control_type is not None:
        kind = parse_control_type(asked.control_type, offer)
    elif len(kinds) > 1:
        raise UserMistake("control_type_missing", choices=", ".join(kinds))
    else:
        kind = kinds[0] if kinds else ControlType.EDGES
    strength = 1.0 if asked.control_strength is None else float(asked.control_strength)
    return {"controlnet": offer.controlnet_of(kind), "control_type": kind, "control_strength": strength}


def _image_prompt(asked: Asked, offer: Offer) -> dict[str, Any]:
    """Return the values of a recipe for its image prompt, which `with_given` names; none without one.

    Raises UserMistake `image_prompt_alone`, and InvalidRequest where the model takes none.
    """
    strength = asked.image_prompt_strength
    if not asked.image_prompt:
        if strength is not None:
            raise UserMistake("image_prompt_alone")
        return {}
    if not offer.image_prompts:
        raise InvalidRequest("no_image_prompts", model=offer.model)
    return {"image_prompt_strength": IMAGE_PROMPT_STRENGTH if strength is None else float(strength)}


def parse_control_type(text: str, offer: Offer) -> ControlType:
    """Return the type of a control picture by its name, or by that of the reference's detectors.

    Raises InvalidRequest for a type that there is not.
    """
    typed = text.strip().casefold()
    if not offer.controlnets:
        raise InvalidRequest("no_controlnets", model=offer.model)
    try:
        return CONTROL_ALIASES.get(typed) or ControlType(typed)
    except ValueError:
        choices = ", ".join(kind for kind, _ in offer.control_types)
        raise InvalidRequest("control_type", value=echo(text), model=offer.model, choices=choices) from None


def parse_by_any(asked: Asked, offers: Sequence[Offer]) -> Recipe:
    """Return the recipe by the first model that takes the options, unless one of them names the model.

    Until saved settings and styles are read, any model may be the one that paints. Raises as `parse` by the
    first model where none takes the options.
    """
    if asked.model is None:
        for offer in offers:
            with suppress(InvalidRequest, UserMistake):
                return _parse(asked, [offer])
    return parse(asked, offers)


def with_second_pass(recipe: Recipe, asked: Asked, offer: Offer) -> Recipe:
    """Return `recipe` with the second pass that was typed, if any.

    Raises UserMistake `hires`, and InvalidRequest for a size, steps or a strength that are not possible.
    """
    if not asked.hires:
        return recipe
    size = recipe.width, recipe.height
    second = parse_second_pass(asked.hires, size, steps=recipe.num_inference_steps, offer=offer)
    recipe = replace(recipe, second_pass=second)
    offer.check(recipe.request(0))
    return recipe


def parse_second_pass(text: str, size: tuple[int, int], *, steps: int, offer: Offer) -> SecondPass:
    """Return the second pass of `1024x1024 0.5 15`, after a first pass in `size` with `steps` steps.

    The text has a size or `2x`, and perhaps a strength and steps, in any order; words between are ignored.
    Raises UserMistake `hires` for other text or without a size, InvalidRequest if no larger size is offered.
    """
    larger = offer.larger_sizes(size)
    found: dict[str, float] = {}
    target: tuple[int, int] | None = None
    for part in _parts(text):
        if (given := _larger_of(part, size)) is not None and target is None:
            target = given
        elif (match := _NUMBER.fullmatch(part)) is not None:
            is_strength = "." in part or float(part) <= 1
            found.setdefault("strength" if is_strength else "steps", float(match[0]))
        elif not part.rstrip(":=").isalpha():
            target = None
            break
    if not larger:
        raise InvalidRequest("no_second_pass", model=offer.model)
    if target is None:
        choices = ", ".join(f"{width}x{height}" for width, height in larger)
        raise UserMistake("hires", value=echo(text), choices=choices)
    return SecondPass(
        width=target[0],
        height=target[1],
        strength=found.get("strength", HIRES_STRENGTH),
        num_inference_steps=int(found.get("steps", steps)),
    )


def _larger_of(part: str, size: tuple[int, int]) -> tuple[int, int] | None:
    """Return the size of `1024x1024`, or `size` times the factor of `2x`, `x2` or `1.5x`."""
    if (numbers := _two_numbers(part)) is not None and numbers[0] == "size":
        return numbers[1], numbers[2]
    if (factor := re.fullmatch(r"x?([1-8](?:\.[0-9]{1,2})?)x?", part)) is None or "x" not in part:
        return None
    return round(size[0] * float(factor[1])), round(size[1] * float(factor[1]))


def number_text(number: float) -> str:
    """Return a number as it is typed, with all its digits: `7` for 7.0."""
    return repr(number).removesuffix(".0")


def hires_text(second: SecondPass) -> str:
    """Return a second pass as it is typed."""
    return f"{second.width}x{second.height} {number_text(second.strength)} {second.num_inference_steps}"


def hires_choices(typed: str, size: str | None, offer: Offer) -> list[tuple[str, str]]:
    """Return the second passes to suggest for `typed`, after a first one in `size`: (name, value)."""
    try:
        first = offer.sizes[0] if size is None else find_size(size, offer)
    except (InvalidRequest, UserMistake):
        first = offer.sizes[0]
    larger = offer.larger_sizes(first)
    names = [f"{width}x{height}" for width, height in larger]
    names += [f"{name} {strength}" for name in names for strength in HIRES_STRENGTHS]
    parts = _parts(typed)
    if parts and (given := _larger_of(parts[0], first)) is not None:
        if given in larger:
            parts[0] = f"{given[0]}x{given[1]}"
        elif _two_numbers(parts[0]) is None:  # a factor to no offered size: all there are
            parts[0] = ""
    wanted = " ".join(parts).strip()
    double = f"{2 * first[0]}x{2 * first[1]}"
    found = [name for name in names if wanted in name][:MAX_CHOICES]
    return [(f"{name} (2x)" if name == double else name, name) for name in found]


def _parts(text: str) -> list[str]:
    return text.replace(",", " ").casefold().replace("×", "x").replace("*", "x").split()


def with_given(
    recipe: Recipe,
    asked: Asked,
    offer: Offer,
    *,
    names: Mapping[str, str],
    sizes: Mapping[str, tuple[int, int]],
) -> Recipe:
    """Return `recipe` with the given pictures, whose files and sizes (width, height) are by field of `GIVEN`.

    Without a size, the offered size nearest in shape to a picture of SHAPING is used: of an image prompt a
    square is seen. Without a strength that of a start picture is 0.75, or 1 with a mask.
    """
    width, height = recipe.width, recipe.height
    shape = next((sizes[field] for field in SHAPING if field in sizes), None)
    if shape is not None and asked.size is None:
        width, height = nearest_size(shape, offer)
    strength = recipe.strength
    if asked.strength is None and "init_image" in names:
        strength = WHOLLY if MASK in names else PICTURE_STRENGTH
    files: Mapping[str, Any] = names
    made = replace(recipe, **files, strength=strength, width=width, height=height)
    return with_second_pass(made, asked, offer)


def parse_loras(text: str, offer: Offer) -> tuple[Lora, ...]:
    """Return the LoRAs of `ink, fog:0.8`; the last of a repeated name counts. `Offer.check` checks names."""
    names = {name.casefold(): name for name in offer.loras}
    found: dict[str, Lora] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        typed, _, weight = part.partition(":")
        name = names.get(typed.strip().casefold(), echo(typed))
        found[name] = Lora(name=name, weight=_weight(weight) if weight.strip() else 1.0)
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
    wanted = _compact(typed)
    sizes = [(size_name(size), f"{size[0]}x{size[1]}") for size in offer.sizes]
    return [(name, value) for name, value in sizes if wanted in _compact(name)][:MAX_CHOICES]


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
    whole = text.encode(errors="replace").decode()
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
    for sign, kind in (("x", "size"), (":", "aspect")):
        first, found, second = _compact(text).partition(sign)
        if found and _is_number(first) and _is_number(second):
            return kind, int(first), int(second)
    return None


def _compact(text: str) -> str:
    """Return a size or a shape in one form: `192x128` of `192 × 128` or `192*128`, `3:2` of `3/2`."""
    return "".join(text.split()).casefold().replace("×", "x").replace("*", "x").replace("/", ":")


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest("lora_weight", value=echo(text), limit=f"{MAX_LORA_WEIGHT:g}") from None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) > 0


@dataclass(frozen=True, kw_only=True)
class Hint:
    """A flag or a LoRA that was typed into the prompt, and the name of the option that does the same."""

    typed: str
    option: str


def hints_of(prompt: str) -> Iterator[Hint]:
    """Yield the flags of other bots in `prompt` that an option of /imagine replaces, then LoRAs' tags."""
    for flag in _FLAG.finditer(prompt):
        option = OPTION_OF_FLAG.get(flag[1].lower())
        if option is not None:
            yield Hint(typed=flag[0], option=option)
    for tag in tags_in(prompt):
        yield Hint(typed=tag, option=LORA)


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

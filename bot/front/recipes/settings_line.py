"""Settings as one editable line: `size 512x512, steps 20, guidance 7, sampler DDIM, seed 5`; no Discord here.

The names are those of the options of /imagine, in English or in the person's language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bot.domain.errors import UserMistake
from bot.domain.jobs import Recipe
from bot.front.recipes.options import echo, hires_text, number_text
from bot.store.people.preferences import PREVIEWS
from bot.texts.catalogue import Texts
from sdjax_engine.request import SAMPLER_NAMES, Offer

NUMBERS: Mapping[str, type[int | float]] = {
    "variants": int,
    "steps": int,
    "guidance": float,
    "clip_skip": int,
    "seed": int,
    "strength": float,
    "control_strength": float,
    "image_prompt_strength": float,
    "reference": int,
}
LISTS = ("lora", "style")  # their values may have commas
PAINTED = (
    *("size", "variants", "steps", "guidance", "clip_skip", "sampler", "seed", "strength"),
    *("control_type", "control_strength", "image_prompt_strength", "hires", "lora", "model", "style"),
)
"""The settings that a picture depends on."""
KEPT = "reference"
"""The setting of a form that repeats a result: how many of its references stay."""
SETTINGS = (*PAINTED, KEPT, PREVIEWS)
PREFERABLE = (
    *("size", "variants", "steps", "guidance", "clip_skip", "sampler"),
    *("lora", "model", "style", PREVIEWS),
)
OF_STYLES = tuple(name for name in PREFERABLE if name not in ("style", PREVIEWS))
DIGITS = 24  # of the longest float: -2.2250738585072014e-308


def settings_of(recipe: Recipe, offers: Sequence[Offer] = ()) -> dict[str, object]:
    """Return the settings of a recipe by the names of the options, as they are typed.

    Clip skip is a setting where it is not that of the recipe's model, which may be among `offers`.
    """
    own = next((offer.clip_skip for offer in offers if offer.model == recipe.model), 0)
    loras = (f"{lora.name}:{number_text(lora.weight)}".removesuffix(":1") for lora in recipe.loras)
    return {
        "size": f"{recipe.width}x{recipe.height}",
        "variants": str(recipe.variants),
        "steps": str(recipe.num_inference_steps),
        "guidance": recipe.guidance_scale,
        "clip_skip": None if recipe.clip_skip == own else str(recipe.clip_skip + 1),
        "sampler": SAMPLER_NAMES[recipe.sampler],
        "seed": str(recipe.seed),
        "strength": recipe.strength if recipe.init_image else None,
        "control_type": recipe.control_type.value if recipe.control_image else None,
        "control_strength": recipe.control_strength if recipe.control_image else None,
        "image_prompt_strength": recipe.image_prompt_strength if recipe.image_prompt else None,
        "hires": None if recipe.second_pass is None else hires_text(recipe.second_pass),
        "lora": ", ".join(loras),
        "model": recipe.model,
        KEPT: str(recipe.references) if recipe.references else None,
    }


def options_line(values: Mapping[str, object], names: Texts) -> str:
    """Return options, by their names, as a line."""
    filled = [name for name in SETTINGS if values.get(name) not in (None, "")]
    return ", ".join(f"{_label(name, names)} {_text(values[name], names)}" for name in filled)


def _label(name: str, names: Texts) -> str:
    return names.pgettext("name", "previews") if name == PREVIEWS else names.pgettext("name", name)


def _text(value: object, names: Texts) -> str:
    if isinstance(value, bool):
        return names.pgettext("switch", "on") if value else names.pgettext("switch", "off")
    return number_text(value) if isinstance(value, float) else str(value)


def settings_in(
    line: str, names: Texts, *, settings: Sequence[str] = PAINTED
) -> tuple[dict[str, Any], list[UserMistake]]:
    """Return the values by the names of the options, which are among `settings`, and all mistakes.

    A part without a name continues a list of LoRAs or the name of a style. The last of a repeated name
    counts. A mistake is a UserMistake `settings_name` for all unknown names, `settings_number` for a value
    that is no number, `settings_switch` for one that is neither on nor off.
    """
    wrong: list[UserMistake] = []
    unknown: list[str] = []
    known = {form.casefold(): name for name in settings for form in (name, _label(name, names))}
    found: dict[str, str] = {}
    last = ""
    for part in filter(None, (part.strip() for part in line.replace("\n", ",").split(","))):
        typed, _, value = re.sub(r"\s*[=\s]\s*", " ", part, count=1).partition(" ")
        name = known.get(typed.rstrip(":").casefold())
        if name is None and last in LISTS:
            found[last] = ", ".join(filter(None, (found[last], part)))
        elif name is None:
            unknown.append(part)
        else:
            found[name], last = value.strip(), name
    if unknown:
        choices = ", ".join(_label(each, names) for each in settings)
        wrong.append(UserMistake("settings_name", value=echo(", ".join(unknown)), choices=choices))
    values: dict[str, Any] = {}
    for name, text in found.items():
        try:
            values |= {name: _value(name, text, names)} if text else {}
        except UserMistake as error:
            wrong.append(error)
    return values, wrong


def _value(name: str, text: str, names: Texts) -> Any:
    if name == PREVIEWS:
        forms = {"on": True, "off": False}
        forms |= {_text(value, names).casefold(): value for value in forms.values()}
        if text.casefold() not in forms:
            raise UserMistake("settings_switch", name=_label(name, names), value=echo(text))
        return forms[text.casefold()]
    kind = NUMBERS.get(name)
    if kind is None:
        return text
    try:
        if len(text) > DIGITS:
            raise ValueError(text)
        return kind(text)
    except ValueError:
        raise UserMistake("settings_number", name=names.pgettext("name", name), value=echo(text)) from None

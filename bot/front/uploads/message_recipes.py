"""Generation data that was read from a message, on its way into a form; no Discord here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.domain.errors import UserMistake
from bot.front.recipes.settings_line import options_line
from bot.front.uploads.messages import Kind
from bot.generation_data import GenerationData, NoGenerationData, read_picture, read_text
from bot.generation_data.data import MAX_BYTES
from bot.texts.catalogue import Texts
from sdjax_engine.request import SAMPLER_NAMES, Offer, Sampler

TOLD = frozenset({"generation_data_graph", "generation_data_version", "generation_data_long"})
"""The mistakes in a message's text that are reported: other mistakes occur in any text."""


@dataclass(frozen=True, kw_only=True)
class MessageRecipe:
    """The generation data, the name of its file (empty for a text), and whether the result is private."""

    data: GenerationData
    file: str = ""
    private: bool = False


def read_texts(texts: Iterable[str]) -> GenerationData | None:
    """Return the generation data of the first text that has any; None without one.

    Raises NoGenerationData where a text is generation data that cannot be used.
    """
    errors = []
    for text in texts:
        try:
            return read_text(text)
        except NoGenerationData as error:
            errors.append(error)
    told = [error for error in errors if error.message_id in TOLD]
    if told:
        raise told[0]
    return None


def read_file(kind: Kind, file: bytes) -> GenerationData:
    """Return the generation data of a picture or of a text file; raises NoGenerationData."""
    if kind is Kind.PICTURE:
        return read_picture(file)
    if len(file) > MAX_BYTES:
        raise NoGenerationData("generation_data_long", limit=MAX_BYTES // 1024)
    return read_text(file.decode("utf-8-sig", "replace"))


def telling(errors: Sequence[Exception], *, otherwise: UserMistake) -> Exception:
    """Return the first error that is not about a file without data; `otherwise` if there is none."""
    empty = ("generation_data_none", "generation_data_no_file")
    told = [error for error in errors if getattr(error, "message_id", "") not in empty]
    return told[0] if told else otherwise


def recipe_line(options: Mapping[str, Any], offers: Sequence[Offer], names: Texts) -> str:
    """Return `recipe_settings` as a line."""
    return options_line(recipe_settings(options, offers), names)


def recipe_settings(options: Mapping[str, Any], offers: Sequence[Offer]) -> dict[str, Any]:
    """Return the settings of fitted options, and the model's defaults for what they leave open.

    A missing seed stays missing.
    """
    offer = next((each for each in offers if each.model == options.get("model")), offers[0])
    width, height = offer.sizes[0]
    values = {
        "size": f"{width}x{height}",
        "variants": 1,
        "steps": offer.num_inference_steps,
        "guidance": offer.guidance_scale,
        "sampler": offer.sampler.value,
        "model": offer.model,
        **options,
    }
    return {**values, "sampler": SAMPLER_NAMES[Sampler(values["sampler"])]}

"""`/imagine recipe:`: pasted generation data in place of the options that were left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.front.answers.answers import add
from bot.front.recipes.options import Asked, find_offer
from bot.front.services.request import Request
from bot.generation_data import Difference, fit, read_text
from bot.texts.catalogue import Texts
from bot.texts.markup import shown
from sdjax_engine.request import Offer

SHOWN_ITEM = 60
SHOWN_DIFFERENCES = 10
IMAGE = "image"  # the setting of a difference


@dataclass(frozen=True, kw_only=True)
class Pasted:
    """A request filled in from pasted text, and the parts of the text that are not used unchanged.

    With `literal` the words of the prompt are pasted: they have no alternatives and draw from no list.
    """

    asked: Asked
    literal: bool
    differences: tuple[Difference, ...]


def filled_from(asked: Asked, text: str, offers: Sequence[Offer]) -> Pasted:
    """Fill in options that were left out; a prompt without letters or digits, such as `-`, is left out too.

    Raises UserMistake where the text cannot be read, InvalidRequest for an unknown model.
    """
    wordless = not any(letter.isalnum() for letter in asked.prompt)
    fitted = fit(read_text(text), offers if asked.model is None else [find_offer(asked.model, offers)])
    left_out = {name for name in fitted.options if getattr(asked, name) is None}
    literal = wordless and "prompt" in fitted.options
    used: dict[str, Any] = {name: fitted.options[name] for name in left_out}
    if literal:
        used["prompt"] = fitted.options["prompt"]
    typed = {
        name
        for name in (
            "negative_prompt",
            "size",
            "seed",
            "steps",
            "guidance",
            "clip_skip",
            "sampler",
            "model",
            "lora",
            "hires",
        )
        if getattr(asked, name) is not None
    }
    typed |= set() if wordless else {"prompt"}
    typed |= {"image"} if asked.image else set()
    typed |= {"reference"} if asked.references else set()
    differences = tuple(each for each in fitted.differences if each.setting not in typed)
    return Pasted(asked=replace(asked, **used), literal=literal, differences=differences)


async def name_differences(request: Request, differences: Sequence[Difference]) -> None:
    """Tell the person privately, item by item, which parts of the pasted text are not used unchanged."""
    names, texts = request.names, request.texts
    await add(request, "\n".join(difference_lines(differences, names, texts)))


def difference_lines(
    differences: Sequence[Difference], names: Texts, texts: Texts, *, heading: str = "", image: str = ""
) -> Iterator[str]:
    """Yield the lines about differences; `names` has the names of the options.

    `heading` replaces the first line, and `image` the line about a picture that the recipe started from.
    """
    yield heading or texts.gettext("What differs here from the pasted recipe:")
    for difference in differences[:SHOWN_DIFFERENCES]:
        own = image if difference.setting == IMAGE else ""
        yield texts.line(own or _said(difference, names, texts), mark="- ")
    if len(differences) > SHOWN_DIFFERENCES:
        more = texts.ngettext("{count} more item", "{count} more items", len(differences) - SHOWN_DIFFERENCES)
        yield texts.line(more, mark="- ")


def _said(difference: Difference, names: Texts, texts: Texts) -> str:
    value = shown(difference.value, SHOWN_ITEM)
    if difference.setting == "other":
        return texts.gettext("{value}: left out", value=value)
    name = names.pgettext("name", difference.setting)
    if difference.setting == IMAGE:
        return texts.gettext(
            "It started from another picture: send that too, with the option {name}.", name=name
        )
    if not difference.instead:
        return texts.gettext("{name} {value}: left out", name=name, value=value)
    instead = shown(difference.instead, SHOWN_ITEM)
    return texts.gettext("{name} {value}: here {instead}", name=name, value=value, instead=instead)

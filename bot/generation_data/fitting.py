"""Generation data and the offers of this bot: the options of a request, and everything that is different."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.domain.sizes import nearest_larger, nearest_size
from bot.generation_data.data import GenerationData, SecondPassData, Tool
from bot.generation_data.sampler_names import named_sampler
from sdjax_engine.request import (
    MAX_GUIDANCE_SCALE,
    MAX_LORA_WEIGHT,
    MAX_PROMPT_CHARACTERS,
    MAX_SEED,
    SAMPLER_NAMES,
    Lora,
    Offer,
)

MAX_FACTOR = 8.0


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A setting of the generation data that is not used as it is.

    `setting` is the name of an option of /imagine, or `other` for a setting that has none. `instead` is the
    value that is used; empty where the setting is left out.
    """

    setting: str
    value: str
    instead: str = ""


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The options of a request by their names, as they are typed, and the differences in order."""

    options: dict[str, Any]
    differences: tuple[Difference, ...]


def fit(data: GenerationData, offers: Sequence[Offer]) -> Fitted:
    """Return what of `data` can be painted with `offers`; every setting is used or reported."""
    fitting = _Fitting(offer=offers[0])
    fitting.model(data, offers)
    fitting.prompts(data)
    fitting.size(data)
    fitting.second_pass(data)
    fitting.numbers(data)
    fitting.sampler(data)
    fitting.loras(data.loras)
    fitting.clip_skip(data)
    fitting.others(data)
    return Fitted(options=fitting.options, differences=tuple(fitting.differences))


@dataclass(kw_only=True)
class _Fitting:
    """The options and differences so far, and the offer of the model."""

    offer: Offer
    options: dict[str, Any] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def differ(self, setting: str, value: object, instead: object = "") -> None:
        self.differences.append(Difference(setting=setting, value=str(value), instead=str(instead)))

    def model(self, data: GenerationData, offers: Sequence[Offer]) -> None:
        found = [offer for offer in offers if _same_name(offer.model, data.model)]
        if found:
            self.offer = found[0]
            self.options["model"] = self.offer.model
        elif data.model or data.model_hash:
            self.differ("model", data.model or data.model_hash, self.offer.model)

    def prompts(self, data: GenerationData) -> None:
        for name, text in (("prompt", data.prompt), ("negative_prompt", data.negative_prompt)):
            if len(text) > MAX_PROMPT_CHARACTERS:
                self.differ(name, len(text), MAX_PROMPT_CHARACTERS)
            if text:
                self.options[name] = text[:MAX_PROMPT_CHARACTERS]

    def size(self, data: GenerationData) -> None:
        if not data.width or not data.height or min(data.width, data.height) < 1:
            return
        size = data.width, data.height
        used = size if size in self.offer.sizes else nearest_size(size, self.offer)
        self.options["size"] = f"{used[0]}x{used[1]}"
        if used != size:
            self.differ("size", f"{size[0]}x{size[1]}", self.options["size"])

    def second_pass(self, data: GenerationData) -> None:
        if (wanted := data.second_pass) is None:
            return
        first = self.offer.sizes[0]
        if "size" in self.options:
            width, height = self.options["size"].split("x")
            first = int(width), int(height)
        size = _enlarged(wanted, (data.width or first[0], data.height or first[1]))
        rest = [str(value) for value in (wanted.strength, wanted.steps) if value is not None]
        text = " ".join([f"{size[0]}x{size[1]}", *rest] if size else rest)
        used = nearest_larger(size, self.offer.larger_sizes(first)) if size else None
        if used is None:
            self.differ("hires", text)
            return
        self.options["hires"] = " ".join([f"{used[0]}x{used[1]}", *rest])
        if used != size:
            self.differ("hires", text, self.options["hires"])

    def numbers(self, data: GenerationData) -> None:
        if data.steps is not None:
            self.options["steps"] = max(1, min(data.steps, self.offer.max_steps))
            if self.options["steps"] != data.steps:
                self.differ("steps", data.steps, self.options["steps"])
        for name, value, most in (
            ("guidance", data.guidance, MAX_GUIDANCE_SCALE),
            ("seed", data.seed, MAX_SEED),
        ):
            if value is not None and 0 <= value <= most:
                self.options[name] = value
            elif value is not None:
                self.differ(name, f"{value:g}" if isinstance(value, float) else value)

    def sampler(self, data: GenerationData) -> None:
        if not data.sampler:
            return
        written = f"{data.sampler} {data.schedule}".strip()
        found = named_sampler(data.sampler, data.schedule)
        suits = found is not None and (not self.offer.samplers or found.sampler in self.offer.samplers)
        if found is None or not suits:
            self.differ("sampler", written, SAMPLER_NAMES[self.offer.sampler])
            return
        self.options["sampler"] = found.sampler.value
        if not found.exact:
            self.differ("sampler", written, SAMPLER_NAMES[found.sampler])

    def loras(self, loras: Sequence[Lora]) -> None:
        names = {name.casefold(): name for name in self.offer.loras}
        used = []
        for lora in loras:
            name = names.get(lora.name.casefold())
            if name is None or abs(lora.weight) > MAX_LORA_WEIGHT:
                self.differ("lora", f"{lora.name}:{lora.weight:g}")
            else:
                used.append(name if lora.weight == 1 else f"{name}:{lora.weight!r}")
        if used:
            self.options["lora"] = ", ".join(used)

    def clip_skip(self, data: GenerationData) -> None:
        if data.clip_skip is None:
            return
        # Other tools name the layer that is used: 2 in most recipes for SDXL, where it is the usual one.
        usual = 1 if data.tool is Tool.OWN else self.offer.usual_layer
        skipped, own = max(data.clip_skip - usual, 0), self.offer.clip_skip
        if skipped == own:
            return
        if skipped <= max(own, self.offer.most_skipped):
            self.options["clip_skip"] = skipped + 1
        else:
            self.differ("clip_skip", data.clip_skip)

    def others(self, data: GenerationData) -> None:
        if data.started:
            self.differ("image", "" if data.strength is None else f"{data.strength:g}")
        if data.references:
            self.differ("reference", data.references)
        for item in data.unread:
            self.differ("other", item)


def _enlarged(wanted: SecondPassData, size: tuple[int, int]) -> tuple[int, int] | None:
    """Return the size of a second pass after a first one in `size`."""
    if wanted.width and wanted.height:
        return wanted.width, wanted.height
    if wanted.factor and 1 < wanted.factor <= MAX_FACTOR:
        return round(size[0] * wanted.factor), round(size[1] * wanted.factor)
    return None


def _same_name(offered: str, written: str) -> bool:
    return bool(written) and "".join(_plain(offered)) == "".join(_plain(written))


def _plain(name: str) -> Iterator[str]:
    """Yield the letters and digits of a name: `SD 1.5` and `sd-1_5` are one."""
    return (letter for letter in name.casefold() if letter.isalnum())

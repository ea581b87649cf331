"""What the command line asks for, and what that is once the checkpoint's defaults have filled it in."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bot.config import ModelConfig
from bot.jobs import MAX_VARIANTS, Recipe
from sdjax_engine.config import Dtype, ModelSpec
from sdjax_engine.model.defaults import default_offer
from sdjax_engine.request import MAX_SEED, InvalidRequest, Lora, Offer, Sampler, parse_sampler
from sdjax_engine.weights.files import DEMO

STRENGTH, STRENGTH_OF_MASK, STRENGTH_OF_ENLARGEMENT = 0.8, 1.0, 0.4


@dataclass(frozen=True, kw_only=True)
class WishedLora:
    """A LoRA's file and how strongly it is to work."""

    file: Path
    weight: float = 1.0

    @property
    def name(self) -> str:
        return self.file.stem


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the command line asks for; None is the checkpoint's default.

    `size` and `enlarge` are (width, height) in pixels: with the second, every picture is painted in the
    first, enlarged and refined.
    """

    prompt: str
    negative_prompt: str = ""
    seed: int | None = None
    variants: int = 1
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    sampler: str | None = None
    size: tuple[int, int] | None = None
    enlarge: tuple[int, int] | None = None
    image: Path | None = None
    mask: Path | None = None
    strength: float | None = None
    loras: tuple[WishedLora, ...] = ()
    source: str = DEMO
    revision: str | None = None
    variant: str | None = None
    dtype: Dtype = Dtype.AUTO

    def spec(self, offer: Offer) -> ModelSpec:
        """The model to load for `offer`."""
        return ModelSpec(
            offer=offer,
            source=self.source,
            revision=self.revision,
            variant=self.variant,
            loras={lora.name: lora.file for lora in self.loras},
            lora_rank=0,
        )


def offer_of(wish: Wish, *, report: Callable[[str], None]) -> Offer:
    """What the checkpoint takes: of the demo its own settings, of others what their configurations say.

    `sizes` holds only what is wanted, since every size offered is compiled.
    """
    if wish.source == DEMO:
        offer = _demo_offer(wish)
    else:
        sampler = parse_sampler(wish.sampler) if wish.sampler else None
        offer = default_offer(
            wish.source, revision=wish.revision, variant=wish.variant, sampler=sampler, report=report
        )
    wanted = (wish.size or offer.sizes[0], wish.enlarge)
    sizes = tuple(dict.fromkeys(size for size in wanted if size))
    return replace(offer, sizes=sizes, loras=tuple(lora.name for lora in wish.loras))


def _demo_offer(wish: Wish) -> Offer:
    offer = ModelConfig().offer
    if wish.size is not None and wish.size not in offer.sizes:
        choices = ", ".join(f"{width}x{height}" for width, height in offer.sizes)
        raise InvalidRequest("size", model=DEMO, value=f"{wish.size[0]}x{wish.size[1]}", choices=choices)
    return offer


def recipe_of(wish: Wish, offer: Offer) -> Recipe:
    """The recipe of the first pass, every default filled in; raises InvalidRequest."""
    if not 1 <= wish.variants <= MAX_VARIANTS:
        raise InvalidRequest("variants", value=wish.variants, limit=MAX_VARIANTS)
    if wish.mask is not None and wish.image is None:
        raise InvalidRequest("mask_alone")
    steps, guidance = wish.num_inference_steps, wish.guidance_scale
    sampler: Sampler = parse_sampler(wish.sampler) if wish.sampler else offer.sampler
    width, height = wish.size or offer.sizes[0]
    recipe = Recipe(
        prompt=wish.prompt,
        negative_prompt=wish.negative_prompt,
        seed=secrets.randbelow(MAX_SEED + 1) if wish.seed is None else wish.seed,
        variants=wish.variants,
        num_inference_steps=offer.num_inference_steps if steps is None else steps,
        guidance_scale=offer.guidance_scale if guidance is None else guidance,
        sampler=sampler,
        width=width,
        height=height,
        model=offer.model,
        init_image=str(wish.image) if wish.image else None,
        mask_image=str(wish.mask) if wish.mask else None,
        strength=_strength(wish) if wish.image else 1.0,
        loras=tuple(Lora(name=lora.name, weight=lora.weight) for lora in wish.loras),
    )
    if not 0 <= recipe.seed <= MAX_SEED:
        raise InvalidRequest("seed", value=recipe.seed, limit=MAX_SEED)
    offer.check(recipe.request(0))
    return recipe


def _strength(wish: Wish) -> float:
    usual = STRENGTH_OF_MASK if wish.mask else STRENGTH
    return usual if wish.strength is None else wish.strength

"""The options of the command line, and the recipe that they give with the checkpoint's defaults."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bot.config import EngineSection, ModelConfig
from bot.domain.jobs import MAX_VARIANTS, Recipe
from bot.generation_data.lora_tags import take_loras
from bot.worker.opening import spec_of, with_defaults
from sdjax_engine.config import ModelSpec
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import (
    MAX_REFERENCES,
    MAX_SEED,
    ControlType,
    Lora,
    Offer,
    Sampler,
    SecondPass,
)
from sdjax_engine.sampler_names import parse_sampler
from sdjax_engine.weights.files import DEMO

STRENGTH, STRENGTH_OF_MASK, STRENGTH_OF_ENLARGEMENT = 0.8, 1.0, 0.4


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of the command line; None means the default of the model.

    `model` has all LoRAs that may be used, `loras` the weights of those that are, by name. `size` and
    `enlarge` are (width, height) in pixels. With `enlarge`, each picture is painted in `size`, enlarged and
    refined. `controlnet` is the network for the picture `control`: its name in `model`, or its folder, file
    or hub id. Without it, `model` has a network for the type. `ip_adapter` is the file of the IP-Adapter for
    the picture `image_prompt`, `image_encoder` its encoder; None: those of `model`.
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
    control: Path | None = None
    controlnet: str | None = None
    control_type: str = ControlType.EDGES.value
    control_strength: float = 1.0
    image_prompt: Path | None = None
    image_prompt_strength: float = 0.6
    ip_adapter: str | None = None
    image_encoder: str | None = None
    references: tuple[Path, ...] = ()
    loras: Mapping[str, float] = field(default_factory=dict)
    model: ModelConfig = field(default_factory=ModelConfig)
    engine: EngineSection = field(default_factory=EngineSection)


def spec_and_offer(options: Options, *, report: Callable[[str], None]) -> tuple[ModelSpec, Offer]:
    """Return the model to load, and its offer, from its checkpoint's configuration files.

    The offer's `sizes` are the requested ones, its LoRAs those that the prompt or `loras` names. Raises
    InvalidRequest if the demo does not offer `size`, other checkpoints paint any size; and for too many
    references.
    """
    given: dict[str, Any] = {"sampler": parse_sampler(options.sampler)} if options.sampler else {}
    if options.image_prompt is None:
        given |= {"image_prompt": "", "image_encoder": ""}  # they would be read for nothing
    elif options.ip_adapter is not None:
        given |= {"image_prompt": options.ip_adapter, "image_encoder": options.image_encoder or ""}
    model = with_defaults(options.model.model_copy(update=given), report)
    spec = spec_of(model)
    offer = spec.offer
    if model.checkpoint == DEMO and options.size is not None and options.size not in offer.sizes:
        choices = ", ".join(f"{width}x{height}" for width, height in offer.sizes)
        raise InvalidRequest(
            "size", model=model.name, value=f"{options.size[0]}x{options.size[1]}", choices=choices
        )
    requested = (options.size or offer.sizes[0], options.enlarge)
    sizes = tuple(dict.fromkeys(size for size in requested if size))
    _, tagged = take_loras(options.prompt, offer.loras)
    used = tuple(dict.fromkeys([*options.loras, *(lora.name for lora in tagged)]))
    offer = replace(offer, sizes=sizes, loras=used)
    files = {name: Path(model.loras[name]) for name in used}
    nets = net_of(options)
    if (count := len(options.references)) > MAX_REFERENCES:
        raise InvalidRequest("references", count=count, model=offer.model, limit=MAX_REFERENCES)
    offer = replace(offer, controlnets=tuple(nets), control_types=(), references=count)
    return replace(spec, offer=offer, loras=files, lora_rank=0, controlnets=nets), offer


def net_of(options: Options) -> dict[str, str]:
    """Return the network for the control picture: its source by its name in recipes; empty without a picture.

    Raises InvalidRequest where the model has no network for the type.
    """
    if options.control is None:
        return {}
    offered, named = options.model.controlnets, options.controlnet
    if named is None:
        named = options.model.offer.controlnet_of(ControlType(options.control_type))
    return {named: offered[named].source} if named in offered else {Path(named).stem: named}


def recipe_of(options: Options, offer: Offer) -> Recipe:
    """Return the recipe with every default; raises InvalidRequest.

    `<lora:NAME:WEIGHT>` in the prompt gives the weight of one of the LoRAs.
    """
    if not 1 <= options.variants <= MAX_VARIANTS:
        raise InvalidRequest("variants", value=options.variants, limit=MAX_VARIANTS)
    if options.mask is not None and options.image is None:
        raise InvalidRequest("mask_alone")
    steps, guidance = options.num_inference_steps, options.guidance_scale
    sampler: Sampler = parse_sampler(options.sampler) if options.sampler else offer.sampler
    width, height = options.size or offer.sizes[0]
    prompt, tagged = take_loras(options.prompt, offer.loras)
    loras = {name: Lora(name=name, weight=weight) for name, weight in options.loras.items()}
    recipe = Recipe(
        prompt=prompt,
        negative_prompt=options.negative_prompt,
        seed=secrets.randbelow(MAX_SEED + 1) if options.seed is None else options.seed,
        variants=options.variants,
        num_inference_steps=offer.num_inference_steps if steps is None else steps,
        guidance_scale=offer.guidance_scale if guidance is None else guidance,
        sampler=sampler,
        width=width,
        height=height,
        model=offer.model,
        init_image=str(options.image) if options.image else None,
        mask_image=str(options.mask) if options.mask else None,
        strength=_strength(options) if options.image else 1.0,
        loras=tuple((loras | {lora.name: lora for lora in tagged}).values()),
        guidance_interval=offer.guidance_interval,
        clip_skip=offer.clip_skip,
        control_image=str(options.control) if options.control else None,
        controlnet=next(iter(net_of(options)), ""),
        control_type=ControlType(options.control_type) if options.control else ControlType.EDGES,
        control_strength=options.control_strength if options.control else 1.0,
        image_prompt=str(options.image_prompt) if options.image_prompt else None,
        image_prompt_strength=options.image_prompt_strength if options.image_prompt else 1.0,
    )
    if options.enlarge:
        larger_width, larger_height = options.enlarge
        second = SecondPass(
            width=larger_width,
            height=larger_height,
            num_inference_steps=recipe.num_inference_steps,
            strength=_strength_of_enlargement(options),
        )
        recipe = replace(recipe, second_pass=second)
    if not 0 <= recipe.seed <= MAX_SEED:
        raise InvalidRequest("seed", value=recipe.seed, limit=MAX_SEED)
    offer.check(recipe.request(0))
    return recipe


def _strength_of_enlargement(options: Options) -> float:
    """Return the strength of the second pass; with a start picture, the option applies to that instead."""
    given = None if options.image else options.strength
    return STRENGTH_OF_ENLARGEMENT if given is None else given


def _strength(options: Options) -> float:
    usual = STRENGTH_OF_MASK if options.mask else STRENGTH
    return usual if options.strength is None else options.strength

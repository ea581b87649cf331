"""Stable Diffusion 1, 2 and XL, their inpainting forms and latent consistency models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.family import Guidance, Networks, Parts
from sdjax_engine.families.precision import Precisions
from sdjax_engine.families.stable_diffusion.control import control_of
from sdjax_engine.families.stable_diffusion.denoiser import UNetDenoiser
from sdjax_engine.families.stable_diffusion.image_prompt import image_prompts_of
from sdjax_engine.families.stable_diffusion.latents import Vae, latents_of
from sdjax_engine.families.stable_diffusion.parts import (
    CORRECTIONS,
    DEFAULTS,
    TEXT_ENCODERS,
    UNET,
    VAE,
    clashes,
    classes_of,
    is_xl,
    most_skipped_of,
    native_size_of,
    tokenizers_of,
)
from sdjax_engine.families.stable_diffusion.text import ClipTexts
from sdjax_engine.prompts import Tokenizer, Triggers, clean
from sdjax_engine.request import WHOLE, Offer

PIPELINES = (
    "StableDiffusionPipeline",
    "StableDiffusionImg2ImgPipeline",
    "StableDiffusionInpaintPipeline",
    "StableDiffusionControlNetPipeline",
    "StableDiffusionXLPipeline",
    "StableDiffusionXLImg2ImgPipeline",
    "StableDiffusionXLInpaintPipeline",
    "StableDiffusionXLControlNetPipeline",
    "LatentConsistencyModelPipeline",
    "LatentConsistencyModelImg2ImgPipeline",
)


class StableDiffusion:
    """A UNet under one or two of CLIP's text encoders."""

    pipelines = PIPELINES
    optional = frozenset[str]()
    adaptable = (UNET, *TEXT_ENCODERS)
    foreign_names = None

    def classes(self, pipeline: str) -> dict[str, tuple[str, ...]]:
        """Return the classes of each network of a pipeline."""
        return classes_of(pipeline)

    def tokenizers(self, pipeline: str) -> dict[str, tuple[str, ...]]:
        """Return the classes of each tokenizer of a pipeline."""
        return tokenizers_of(pipeline)

    def read_tokenizer(self, folder: Path) -> Tokenizer:
        """Return CLIP's tokenizer; raises UnreadableCheckpoint."""
        return Tokenizer.load(folder)

    def clashes(self, parts: Parts) -> Iterator[str]:
        """Yield what does not fit together; raises UnreadableCheckpoint for an impossible size."""
        return clashes(parts)

    def native_size(self, configs: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
        """Return the size of the UNet's `sample_size`; raises UnreadableCheckpoint."""
        return native_size_of(configs[UNET], configs[VAE])

    def most_skipped(self, configs: Mapping[str, Mapping[str, Any]]) -> int:
        """Return the most layers that the text encoders may skip."""
        return most_skipped_of([configs[name] for name in TEXT_ENCODERS if name in configs])

    def usual_layer(self, configs: Mapping[str, Mapping[str, Any]]) -> int:
        """Return 2 for SDXL, which has two text encoders, else 1."""
        return sum(name in configs for name in TEXT_ENCODERS)

    def corrections(self, pipeline: str) -> Mapping[str, Any]:
        """Return the scheduler's settings that the pipeline overrides."""
        return CORRECTIONS.get(pipeline, {})

    def defaults(
        self, pipeline: str, index: Mapping[str, Any], scheduler_config: Mapping[str, Any]
    ) -> tuple[int, float]:
        """Return the defaults of the reference's calls."""
        del index, scheduler_config
        return next(defaults for name, defaults in DEFAULTS.items() if pipeline.startswith(name))

    def networks(self, parts: Parts, offer: Offer) -> Networks:
        """Return the networks of a checkpoint, as they are used for an offer; raises UnreadableCheckpoint."""
        unet, vae = parts.components[UNET], parts.components[VAE]
        encoders = {name: parts.components[name] for name in TEXT_ENCODERS if name in parts.components}
        latents, config = latents_of(vae.config, parts.index), unet.config
        check_guidance(offer, config)
        embeddings = {clean(name): rows for name, rows in parts.embeddings.items()}
        if len({name.casefold() for name in embeddings}) < len(parts.embeddings):
            raise UnreadableCheckpoint(
                f"Two embeddings of {offer.model} have names that a prompt cannot tell apart: rename one."
            )
        takes_sizes = config.get("addition_embed_type") == "text_time"
        denoiser = UNetDenoiser(
            component=UNET,
            blueprint=unet.blueprint,
            further_channels=int(config["in_channels"]) - latents.channels,
            takes_sizes=takes_sizes,
            takes_guidance=takes_guidance(config),
            takes_lengths=offer.prompt_chunks > 1,
        )
        return Networks(
            texts=ClipTexts(
                components=tuple(encoders),
                blueprints=tuple(encoder.blueprint for encoder in encoders.values()),
                tokenizers=parts.tokenizers,
                most_chunks=offer.prompt_chunks,
                most_skipped=most_skipped_of([encoder.config for encoder in encoders.values()]),
                pools=takes_sizes,
                zeros_for_empty=is_xl(parts.pipeline)
                and bool(parts.index.get("force_zeros_for_empty_prompt", True)),
                known_words=parts.known_words,
                triggers=tuple(
                    Triggers.of(embeddings, first=int(each.config["vocab_size"]))
                    for each in encoders.values()
                ),
                widths={name: int(each.config["hidden_size"]) for name, each in encoders.items()},
            ),
            denoiser=denoiser,
            autoencoder=Vae(
                component=VAE,
                network=Precisions.of(vae),
                scaling_factor=float(vae.config["scaling_factor"]),
            ),
            latents=latents,
            guidance=Guidance(by_negative=not takes_guidance(config), given=takes_guidance(config)),
            control=control_of(parts.controlnets, denoiser, unet, offer, latents),
            image_prompts=image_prompts_of(parts.image_prompt),
        )


def takes_guidance(unet_config: Mapping[str, Any]) -> bool:
    """Whether the UNet is conditioned on the guidance scale."""
    return unet_config.get("time_cond_proj_dim") is not None


def check_guidance(offer: Offer, unet_config: Mapping[str, Any]) -> None:
    """Raise UnreadableCheckpoint for a guidance interval of a UNet that is conditioned on the scale."""
    if offer.guidance_interval != WHOLE and takes_guidance(unet_config):
        start, stop = offer.guidance_interval
        raise UnreadableCheckpoint(
            f"{offer.model} cannot be painted with guidance from {start:g} to {stop:g} of the steps: "
            "its UNet is trained on the guidance scale. Leave guidance_interval out."
        )

"""The parts of a Stable Diffusion checkpoint: what a pipeline's folder has, and what must fit together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint, quoted
from sdjax_engine.families.family import Parts
from sdjax_engine.families.stable_diffusion.latents import scale_of
from sdjax_engine.models.unet_config import TIME_IDS
from sdjax_engine.request import MAX_CLIP_SKIP

TEXT_ENCODERS = ("text_encoder", "text_encoder_2")
UNET, VAE = "unet", "vae"
CLASSES = {
    "text_encoder": ("CLIPTextModel",),
    "text_encoder_2": ("CLIPTextModelWithProjection",),
    UNET: ("UNet2DConditionModel",),
    VAE: ("AutoencoderKL",),
}
TOKENIZERS = ("CLIPTokenizer", "CLIPTokenizerFast")
DEFAULTS = {"StableDiffusionXL": (50, 5.0), "LatentConsistencyModel": (4, 8.5), "StableDiffusion": (50, 7.5)}
"""Steps and guidance by how a pipeline's class begins."""
MOST_PIXELS = 16384  # along one side
DEFAULT_SIDE = 64  # of the latents, if the UNet's configuration has none: the reference's default
CORRECTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "StableDiffusionPipeline": {"steps_offset": 1, "clip_sample": False},
        "StableDiffusionImg2ImgPipeline": {"steps_offset": 1, "clip_sample": False},
        "StableDiffusionInpaintPipeline": {"steps_offset": 1, "skip_prk_steps": True},
    }
)
"""The scheduler settings that a reference pipeline overrides, because old configurations lack these keys."""


def is_xl(pipeline: str) -> bool:
    """Whether a pipeline is SDXL's: two text encoders, conditioning on sizes."""
    return "XL" in pipeline


def classes_of(pipeline: str) -> dict[str, tuple[str, ...]]:
    """Return the classes of each network of a pipeline."""
    return {name: classes for name, classes in CLASSES.items() if name != TEXT_ENCODERS[1] or is_xl(pipeline)}


def tokenizers_of(pipeline: str) -> dict[str, tuple[str, ...]]:
    """Return the classes of each tokenizer of a pipeline."""
    names = ("tokenizer", "tokenizer_2") if is_xl(pipeline) else ("tokenizer",)
    return dict.fromkeys(names, TOKENIZERS)


def native_size_of(unet: Mapping[str, Any], vae: Mapping[str, Any]) -> tuple[int, int]:
    """Return (width, height) in pixels of pictures of the UNet's `sample_size`.

    Raises UnreadableCheckpoint for an impossible size.
    """
    size = unet.get("sample_size") or DEFAULT_SIDE
    scale = scale_of(vae)
    try:
        height, width = size if isinstance(size, tuple | list) else (size, size)
        sides = int(width) * scale, int(height) * scale
    except (TypeError, ValueError, OverflowError):
        sides = 0, 0
    if not all(0 < side <= MOST_PIXELS for side in sides):
        raise UnreadableCheckpoint(f"The UNet's sample_size is {quoted(size)}, which is no size.")
    return sides


def most_skipped_of(encoders: Collection[Mapping[str, Any]]) -> int:
    """Return the most layers that these text encoders may skip: the output of the first layer is left.

    An encoder of one layer skips none. Of two encoders, as in SDXL, the usual encoding is that of the last
    layer but one.
    """
    layers = min(int(each["num_hidden_layers"]) for each in encoders)
    return min(MAX_CLIP_SKIP, max(0, layers - len(encoders)))


def clashes(parts: Parts) -> Iterator[str]:
    """Yield what does not fit together; raises UnreadableCheckpoint for an impossible size."""
    unet, vae = parts.components[UNET].config, parts.components[VAE].config
    native_size_of(unet, vae)
    texts = [parts.components[name].config for name in TEXT_ENCODERS if name in parts.components]
    latent = vae["latent_channels"]
    sentences = {
        f"the autoencoder shifts its latents by shift_factor={vae['shift_factor']}, which this pipeline does "
        "not": bool(vae["shift_factor"]),
        "the UNet's out_channels are not the autoencoder's latent_channels": unet["out_channels"] != latent,
        "the UNet's in_channels are neither the autoencoder's latent_channels nor twice those and a mask": (
            unet["in_channels"] not in (latent, 2 * latent + 1)
        ),
        "the UNet's cross_attention_dim is not the text encoder's hidden_size": (
            set(unet["cross_attention_dim"]) != {sum(text["hidden_size"] for text in texts)}
        ),
        "the tokenizer has more words than the text encoder": any(
            tokenizer.size > text["vocab_size"]
            for tokenizer, text in zip(parts.tokenizers, texts, strict=True)
        ),
        "the tokenizer's prompts are longer than the text encoder's": any(
            tokenizer.length > text["max_position_embeddings"]
            for tokenizer, text in zip(parts.tokenizers, texts, strict=True)
        ),
        **clashes_of_xl(parts, unet, texts),
    }
    yield from (sentence for sentence, is_so in sentences.items() if is_so)


def clashes_of_xl(parts: Parts, unet: Mapping[str, Any], texts: list[Mapping[str, Any]]) -> dict[str, bool]:
    """Return the contradictions in the conditioning on the pooled prompt and on sizes."""
    kind = unet["addition_embed_type"]
    if not is_xl(parts.pipeline):
        return {f"{parts.pipeline} has nothing for the UNet's addition_embed_type {kind}": kind is not None}
    if kind is None:
        return {f"the UNet has no addition_embed_type, which {parts.pipeline} needs": True}
    width = texts[-1]["projection_dim"] + TIME_IDS * unet["addition_time_embed_dim"]
    return {
        "the UNet's projection_class_embeddings_input_dim is not the second text encoder's projection_dim "
        f"and {TIME_IDS} times addition_time_embed_dim": unet["projection_class_embeddings_input_dim"]
        != width,
        "the two tokenizers' prompts are not of one length": (
            len({tokenizer.length for tokenizer in parts.tokenizers}) != 1
        ),
    }

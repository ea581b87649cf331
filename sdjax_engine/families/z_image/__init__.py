"""Z-Image and Z-Image-Turbo: one transformer over patches and captions, under a language model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from sdjax_engine.families.chat_texts import ChatTexts
from sdjax_engine.families.family import Conditioning, Guidance, Networks, Parts
from sdjax_engine.families.shifted_vae import ShiftedVae
from sdjax_engine.families.transformer import TransformerDenoiser, TransformerFamily
from sdjax_engine.families.z_image import names
from sdjax_engine.families.z_image.latents import latents_of
from sdjax_engine.families.z_image.text import encoded
from sdjax_engine.prompts.chat import ChatTokenizer
from sdjax_engine.request import Offer
from sdjax_engine.samplers import step

TEXT_ENCODER, TRANSFORMER, VAE = "text_encoder", "transformer", "vae"
CLASSES = {
    TEXT_ENCODER: ("Qwen3Model", "Qwen3ForCausalLM"),
    TRANSFORMER: ("ZImageTransformer2DModel",),
    VAE: ("AutoencoderKL",),
}
TOKENIZERS = {"tokenizer": ("Qwen2Tokenizer", "Qwen2TokenizerFast")}
SCHEDULE = {"ladder": "even", "mu": "linear", "strength_rounds_up": True}
TIMESTEPS = 1000
"""Timesteps of σ = 1, whatever the schedule says: the reference's pipeline divides by this number."""
TURBO_SHIFT = 3.0
"""The largest shift of the schedule of the distilled checkpoint, which nothing else tells apart."""
TURBO, BASE = (8, 0.0), (50, 5.0)
"""Steps and guidance."""


class ZImage(TransformerFamily):
    """A transformer whose sequence is a picture and its caption."""

    pipelines = ("ZImagePipeline", "ZImageImg2ImgPipeline", "ZImageInpaintPipeline")
    adaptable = (TRANSFORMER,)
    foreign_names = names
    component_classes = CLASSES
    tokenizer_classes = TOKENIZERS
    schedule = SCHEDULE

    def read_tokenizer(self, folder: Path) -> ChatTokenizer:
        """Return the language model's tokenizer; raises UnreadableCheckpoint."""
        return ChatTokenizer.load(folder)

    def clashes(self, parts: Parts) -> Iterator[str]:
        """Yield what does not fit together."""
        encoder, transformer, vae = (parts.components[name].config for name in CLASSES)
        [tokenizer] = parts.tokenizers
        sentences = {
            "the transformer's in_channels are not the autoencoder's latent_channels": (
                transformer["in_channels"] != vae["latent_channels"]
            ),
            "the transformer's cap_feat_dim is not the text encoder's hidden_size": (
                transformer["cap_feat_dim"] != encoder["hidden_size"]
            ),
            "the tokenizer has more words than the text encoder": tokenizer.size > encoder["vocab_size"],
        }
        yield from (sentence for sentence, is_so in sentences.items() if is_so)

    def defaults(
        self, pipeline: str, index: Mapping[str, Any], scheduler_config: Mapping[str, Any]
    ) -> tuple[int, float]:
        """Return the few steps without guidance of the distilled checkpoint, or the reference's defaults."""
        del pipeline, index
        return TURBO if (scheduler_config.get("shift") or 1.0) <= TURBO_SHIFT else BASE

    def networks(self, parts: Parts, offer: Offer) -> Networks:
        """Return the networks of a checkpoint; the offer changes nothing."""
        del offer
        encoder, transformer, vae = (parts.components[name] for name in CLASSES)
        [tokenizer] = parts.tokenizers
        return Networks(
            texts=ChatTexts(
                components=(TEXT_ENCODER,),
                blueprint=encoder.blueprint,
                tokenizer=tokenizer,
                known_words=parts.known_words,
                encoded=encoded,
            ),
            denoiser=TransformerDenoiser(
                component=TRANSFORMER, blueprint=transformer.blueprint, evaluate=evaluate
            ),
            autoencoder=ShiftedVae.of(VAE, vae),
            latents=latents_of(vae.config),
            # The reference adds the scale times the difference to the prompt's output, others replace it.
            guidance=Guidance(added=1.0),
        )


def evaluate(transformer: Any, sample: jax.Array, table: jax.Array, conditioning: Conditioning) -> jax.Array:
    """*Traced:* return noise less picture of every row: the network predicts the opposite, from 1 - σ."""
    times = (TIMESTEPS - step.timestep(table)) / TIMESTEPS
    m: jax.Array = -transformer(sample, times, conditioning.of_texts)
    return m

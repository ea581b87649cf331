"""FLUX.2 klein, distilled and base: one transformer over packed latents, under three layers of Qwen3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from sdjax_engine.families.chat_texts import ChatTexts, Tokens
from sdjax_engine.families.family import Conditioning, Guidance, Networks, Parts
from sdjax_engine.families.flux2_klein import names
from sdjax_engine.families.flux2_klein.latents import PACKED_LATENTS, PackedVae, latents_of
from sdjax_engine.families.precision import Precisions
from sdjax_engine.families.transformer import TransformerDenoiser, TransformerFamily
from sdjax_engine.models.config import SIDE_BY_SIDE
from sdjax_engine.prompts.chat import ChatTokenizer
from sdjax_engine.request import MAX_REFERENCES, Offer
from sdjax_engine.samplers import step

TEXT_ENCODER, TRANSFORMER, VAE = "text_encoder", "transformer", "vae"
CLASSES = {
    TEXT_ENCODER: ("Qwen3States", "Qwen3Model", "Qwen3ForCausalLM"),
    TRANSFORMER: ("Flux2Transformer2DModel",),
    VAE: ("AutoencoderKLFlux2",),
}
TOKENIZERS = {"tokenizer": ("Qwen2Tokenizer", "Qwen2TokenizerFast")}
SCHEDULE = {"ladder": "even", "mu": "empirical", "strength_rounds_up": True}
DISTILLED, BASE = (4, 1.0), (50, 4.0)
"""Steps and guidance."""


class Flux2Klein(TransformerFamily):
    """A transformer whose sequence is a picture, reference pictures, and a prompt with its padding."""

    pipelines = ("Flux2KleinPipeline", "Flux2KleinInpaintPipeline")
    adaptable = (TRANSFORMER,)
    foreign_names = names
    component_classes = CLASSES
    tokenizer_classes = TOKENIZERS
    schedule = SCHEDULE

    def read_tokenizer(self, folder: Path) -> ChatTokenizer:
        """Return the language model's tokenizer; raises UnreadableCheckpoint."""
        return ChatTokenizer.load(folder, thinks=False)

    def clashes(self, parts: Parts) -> Iterator[str]:
        """Yield what does not fit together."""
        encoder, transformer, vae = (parts.components[name].config for name in CLASSES)
        [tokenizer] = parts.tokenizers
        sentences = {
            "the autoencoder is no AutoencoderKLFlux2": "batch_norm_eps" not in vae,
            "the transformer's in_channels are not four times the autoencoder's latent_channels": (
                transformer["in_channels"] != PACKED_LATENTS * vae["latent_channels"]
            ),
            "the transformer's joint_attention_dim is not three times the text encoder's hidden_size": (
                transformer["joint_attention_dim"] != len(SIDE_BY_SIDE) * encoder["hidden_size"]
            ),
            "the tokenizer has more words than the text encoder": tokenizer.size > encoder["vocab_size"],
        }
        yield from (sentence for sentence, is_so in sentences.items() if is_so)

    def defaults(
        self, pipeline: str, index: Mapping[str, Any], scheduler_config: Mapping[str, Any]
    ) -> tuple[int, float]:
        """Return the few steps without guidance of a distilled checkpoint, or the reference's defaults."""
        del pipeline, scheduler_config
        return DISTILLED if is_distilled(index) else BASE

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
                reads_negative=False,
            ),
            denoiser=TransformerDenoiser(
                component=TRANSFORMER, blueprint=transformer.blueprint, evaluate=evaluate
            ),
            autoencoder=PackedVae(component=VAE, network=Precisions.of(vae)),
            latents=latents_of(vae.config),
            guidance=Guidance(by_negative=not is_distilled(parts.index)),
            most_references=MAX_REFERENCES,
        )


def is_distilled(index: Mapping[str, Any]) -> bool:
    """Whether a checkpoint paints in few steps without guidance, whatever the scale."""
    return bool(index.get("is_distilled", False))


def encoded(encoder: Any, tokens: Tokens) -> jax.Array:
    """*Traced:* return the encoding of one text, (1, LENGTH, 3 · width). Its padding counts too."""
    states: jax.Array = encoder(tokens.ids, tokens.lengths)
    return states


def evaluate(transformer: Any, sample: jax.Array, table: jax.Array, conditioning: Conditioning) -> jax.Array:
    """*Traced:* return noise less picture of every row."""
    prompt, references = conditioning
    m: jax.Array = transformer(sample, step.timestep(table), prompt, references)
    return m

"""Stable Diffusion 3 and 3.5, medium and large: one transformer under two of CLIP's text encoders and T5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.family import Conditioning, Guidance, Networks, Parts
from sdjax_engine.families.shifted_vae import ShiftedVae
from sdjax_engine.families.stable_diffusion_3 import names
from sdjax_engine.families.stable_diffusion_3.latents import latents_of
from sdjax_engine.families.stable_diffusion_3.text import TripleTexts
from sdjax_engine.families.transformer import TransformerDenoiser, TransformerFamily
from sdjax_engine.prompts import Tokenizer
from sdjax_engine.prompts.unigram import UnigramTokenizer
from sdjax_engine.request import MAX_CLIP_SKIP, Offer
from sdjax_engine.samplers import step

CLIP, T5 = ("text_encoder", "text_encoder_2"), "text_encoder_3"
TRANSFORMER, VAE = "transformer", "vae"
CLASSES = {
    **dict.fromkeys(CLIP, ("CLIPTextModelWithProjection",)),
    T5: ("T5EncoderModel",),
    TRANSFORMER: ("SD3Transformer2DModel",),
    VAE: ("AutoencoderKL",),
}
T5_TOKENIZER = "tokenizer_3"
TOKENIZERS = {
    **dict.fromkeys(("tokenizer", "tokenizer_2"), ("CLIPTokenizer", "CLIPTokenizerFast")),
    T5_TOKENIZER: ("T5Tokenizer", "T5TokenizerFast"),
}
SCHEDULE = {"mu": "linear", "strength_rounds_up": True}
STEPS, GUIDANCE = 28, 7.0
"""The defaults of the reference's calls."""


class StableDiffusion3(TransformerFamily):
    """A transformer of two streams, a picture's and a prompt's."""

    pipelines = (
        "StableDiffusion3Pipeline",
        "StableDiffusion3Img2ImgPipeline",
        "StableDiffusion3InpaintPipeline",
    )
    optional = frozenset({T5, T5_TOKENIZER})
    adaptable = (TRANSFORMER, *CLIP)
    foreign_names = names
    component_classes = CLASSES
    tokenizer_classes = TOKENIZERS
    schedule = SCHEDULE

    def read_tokenizer(self, folder: Path) -> Tokenizer | UnigramTokenizer:
        """Return CLIP's tokenizer or T5's; raises UnreadableCheckpoint."""
        return UnigramTokenizer.load(folder) if folder.name == T5_TOKENIZER else Tokenizer.load(folder)

    def clashes(self, parts: Parts) -> Iterator[str]:
        """Yield what does not fit together."""
        configs = {name: part.config for name, part in parts.components.items()}
        clip, transformer, t5 = [configs[name] for name in CLIP], configs[TRANSFORMER], configs.get(T5)
        if len(parts.tokenizers) != len(CLIP) + (t5 is not None):
            yield f"there is only one of {T5} and {T5_TOKENIZER}"
            return
        width = transformer["joint_attention_dim"]
        sentences = {
            "the transformer's in_channels are not the autoencoder's latent_channels": (
                transformer["in_channels"] != configs[VAE]["latent_channels"]
            ),
            "the autoencoder has no shift_factor, as a file of it alone has none": (
                not configs[VAE]["shift_factor"]
            ),
            "the transformer's pooled_projection_dim is not the projection_dim of both text encoders": (
                transformer["pooled_projection_dim"] != sum(each["projection_dim"] for each in clip)
            ),
            "the transformer's joint_attention_dim is less than the hidden_size of both text encoders": (
                width < sum(each["hidden_size"] for each in clip)
            ),
            "the transformer's joint_attention_dim is not the d_model of T5": (
                t5 is not None and width != t5["d_model"]
            ),
            "the tokenizers of the first two text encoders have prompts of other lengths": (
                len({tokenizer.length for tokenizer in parts.tokenizers[: len(CLIP)]}) != 1
            ),
            "the tokenizer's prompts are longer than the text encoder's": any(
                tokenizer.length > each["max_position_embeddings"]
                for tokenizer, each in zip(parts.tokenizers, clip, strict=False)
            ),
            "a tokenizer has more words than its text encoder": any(
                tokenizer.size > each["vocab_size"]
                for tokenizer, each in zip(
                    parts.tokenizers, [*clip, *([] if t5 is None else [t5])], strict=True
                )
            ),
        }
        yield from (sentence for sentence, is_so in sentences.items() if is_so)

    def most_skipped(self, configs: Mapping[str, Mapping[str, Any]]) -> int:
        """Return the most layers that CLIP's encoders may skip: the output of the first layer is left."""
        layers = min(int(configs[name]["num_hidden_layers"]) for name in CLIP)
        return min(MAX_CLIP_SKIP, max(0, layers - 2))

    def usual_layer(self, configs: Mapping[str, Mapping[str, Any]]) -> int:
        """Return 2: the encoding is that of CLIP's last layer but one."""
        del configs
        return 2

    def defaults(
        self, pipeline: str, index: Mapping[str, Any], scheduler_config: Mapping[str, Any]
    ) -> tuple[int, float]:
        """Return the reference's defaults."""
        del pipeline, index, scheduler_config
        return STEPS, GUIDANCE

    def networks(self, parts: Parts, offer: Offer) -> Networks:
        """Return the networks of a checkpoint; raises UnreadableCheckpoint for sizes beyond its table."""
        encoders = {name: parts.components[name] for name in (*CLIP, T5) if name in parts.components}
        transformer, vae = parts.components[TRANSFORMER], parts.components[VAE]
        latents = latents_of(vae.config)
        most = latents.multiple * int(transformer.config["pos_embed_max_size"])
        beyond = [f"{width}x{height}" for width, height in offer.sizes if max(width, height) > most]
        if beyond:
            raise UnreadableCheckpoint(
                f"{offer.model} cannot be painted in {', '.join(beyond)}: its transformer makes pictures of "
                f"{most} pixels a side at most."
            )
        first, second, *third = parts.tokenizers
        return Networks(
            texts=TripleTexts(
                components=tuple(encoders),
                blueprints=tuple(encoder.blueprint for encoder in encoders.values()),
                clip=(first, second),
                t5=third[0] if third else None,
                width=int(transformer.config["joint_attention_dim"]),
                most_skipped=self.most_skipped({name: each.config for name, each in encoders.items()}),
                known_words=parts.known_words,
            ),
            denoiser=TransformerDenoiser(
                component=TRANSFORMER, blueprint=transformer.blueprint, evaluate=evaluate
            ),
            autoencoder=ShiftedVae.of(VAE, vae),
            latents=latents,
            guidance=Guidance(),
        )


def evaluate(transformer: Any, sample: jax.Array, table: jax.Array, conditioning: Conditioning) -> jax.Array:
    """*Traced:* return noise less picture of every row."""
    m: jax.Array = transformer(sample, step.timestep(table), conditioning.of_texts)
    return m

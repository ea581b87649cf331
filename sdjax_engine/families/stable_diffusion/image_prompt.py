"""Image prompts of Stable Diffusion: keys and values of a picture, for cross-attention beside the text's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sdjax_engine.families.family import Blueprint, Conditioning, ImagePromptParameters, Loaded
from sdjax_engine.models.image_prompt_config import PLUS_QUERIES
from sdjax_engine.models.pixels import Preprocessing, normalised


class OfTexts(NamedTuple):
    """The keys and values of a picture for each text; those of the negative prompt are of no picture."""

    keys_values: dict[str, tuple[jax.Array, jax.Array]]  # by the layer's path, (seats, texts, tokens, width)


class OfPicture(NamedTuple):
    """How strongly the picture works."""

    strength: jax.Array  # (seats,) float32


@dataclass(frozen=True, kw_only=True, eq=False)
class UNetImagePrompts:
    """An IP-Adapter with its image encoder.

    A Plus reads all states before the encoder's last layer, a plain adapter the picture's embedding.
    """

    encoder: Blueprint = field(repr=False)
    projection: Blueprint = field(repr=False)
    attentions: Blueprint = field(repr=False)
    side: int
    is_plus: bool

    def encode(self, parameters: ImagePromptParameters, pixels: jax.Array, absent: jax.Array) -> jax.Array:
        """Return the tokens (1, tokens, width) of the picture.

        As in the reference, no picture is an embedding of zeros for a plain adapter. For a Plus it is a
        picture whose normalised values are zeros.
        """
        encoder = self.encoder.module(parameters.encoder)
        project = self.projection.module(parameters.projection)
        picture = normalised(pixels.astype(jnp.float32), Preprocessing())
        if self.is_plus:
            seen = encoder(jnp.where(absent[:, None, None, None], 0.0, picture)).hidden
        else:
            seen = encoder(picture).embeds
            seen = jnp.where(absent[:, None], 0, seen)
        tokens: jax.Array = project(seen)
        return tokens

    def condition(
        self, parameters: ImagePromptParameters, pictures: Sequence[jax.Array], strength: jax.Array
    ) -> Conditioning:
        """Return the keys and values of each cross-attention, of one seat."""
        attentions = self.attentions.module(parameters.attentions)
        keys_values = dict(attentions.project(jnp.concatenate(pictures)))
        return Conditioning(
            of_texts=OfTexts(jax.tree.map(lambda rows: rows[None], keys_values)),
            of_picture=OfPicture(strength),
        )

    def joined(self, conditioning: Conditioning, image: Conditioning) -> Conditioning:
        """Return the conditioning of the UNet with the keys, values and strength of a picture."""
        texts, picture = conditioning
        return Conditioning(
            of_texts=texts._replace(image=image.of_texts.keys_values),
            of_picture=picture._replace(image_strength=image.of_picture.strength),
        )


def image_prompts_of(networks: Mapping[str, Loaded]) -> UNetImagePrompts | None:
    """Return the image prompts of a checkpoint with these networks; None without any."""
    if not networks:
        return None
    encoder, projection, attentions = (networks[name] for name in ImagePromptParameters._fields)
    return UNetImagePrompts(
        encoder=encoder.blueprint,
        projection=projection.blueprint,
        attentions=attentions.blueprint,
        side=int(encoder.config["image_size"]),
        is_plus=PLUS_QUERIES in projection.config,
    )

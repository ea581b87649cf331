"""The UNet of Stable Diffusion: its keys and values of the texts once a picture, itself each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from sdjax_engine.families.family import Blueprint, Conditioning, WithLoras
from sdjax_engine.families.stable_diffusion.text import Encoding
from sdjax_engine.models.cross_attention_inputs import Projection
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.samplers import step
from sdjax_engine.samplers.tables import Column

if TYPE_CHECKING:
    from sdjax_engine.models.unet import Residuals


class OfTexts(NamedTuple):
    """What a seat keeps of its texts: the keys and values of each layer that attends to them.

    Only the first `lengths` tokens count; None where all do. `text_embeds` are the pooled encodings, None
    where the UNet is not conditioned on them. `image` are the keys and values of an image prompt, None in
    programs without.
    """

    keys_values: dict[str, tuple[jax.Array, jax.Array]]  # by the layer's path, (seats, texts, tokens, width)
    lengths: jax.Array | None  # (seats, texts) int32
    text_embeds: jax.Array | None  # (seats, texts, pooled width)
    image: dict[str, tuple[jax.Array, jax.Array]] | None = None


class OfPicture(NamedTuple):
    """The sizes that the UNet is conditioned on, and the strength of an image prompt; None without."""

    time_ids: jax.Array | None  # (seats, 6) float32
    image_strength: jax.Array | None = None  # (seats,) float32


@dataclass(frozen=True, kw_only=True, eq=False)
class UNetDenoiser:
    """The UNet of a checkpoint.

    `takes_sizes`: it is conditioned on the picture's sizes and the pooled encoding. `takes_guidance`: it is
    conditioned on the guidance scale. `takes_lengths`: texts may differ in their number of chunks.
    """

    component: str
    blueprint: Blueprint = field(repr=False)
    further_channels: int
    takes_sizes: bool
    takes_guidance: bool
    takes_lengths: bool

    def condition(
        self,
        parameters: WithLoras,
        texts: Sequence[Encoding],
        loras: LoraRows,
        size: tuple[int, int],
        references: Sequence[jax.Array],
    ) -> Conditioning:
        """Return the keys and values of the texts, the pooled encodings and the sizes, of one seat."""
        del references
        hidden = jnp.concatenate([text.hidden for text in texts])
        lengths = jnp.concatenate([text.length for text in texts]) if self.takes_lengths else None
        pooled = [text.pooled for text in texts if text.pooled is not None]
        unet = self.blueprint.adapted(*parameters, *loras)
        keys_values = dict(unet.project(hidden, lengths).keys_values)
        height, width = size
        # The sizes of a picture that was neither resized nor cropped.
        sizes = jnp.array([[height, width, 0, 0, height, width]], jnp.float32)
        return Conditioning(
            of_texts=OfTexts(
                keys_values=jax.tree.map(lambda rows: rows[None], keys_values),
                lengths=None if lengths is None else lengths[None],
                text_embeds=jnp.stack(pooled, axis=1) if pooled else None,
            ),
            of_picture=OfPicture(time_ids=sizes if self.takes_sizes else None),
        )

    def predict(
        self,
        parameters: WithLoras,
        sample: jax.Array,
        table: jax.Array,
        conditioning: Conditioning,
        loras: LoraRows,
    ) -> jax.Array:
        """Return the UNet's output of every row in float32."""
        return self.evaluated(parameters, sample, table, conditioning, loras)

    def evaluated(
        self,
        parameters: WithLoras,
        sample: jax.Array,
        table: jax.Array,
        conditioning: Conditioning,
        loras: LoraRows,
        *,
        control: Residuals | None = None,
    ) -> jax.Array:
        """Return what `predict` returns, with what a ControlNet adds."""
        further: dict[str, Any] = dict(self.sizes(conditioning))
        if self.takes_guidance:
            further["guidance"] = table[:, Column.GUIDANCE]
        if control is not None:
            further["control"] = control
        unet = self.blueprint.adapted(*parameters, *loras)
        texts, picture = conditioning
        prompt = Projection(texts.keys_values, texts.lengths, texts.image, picture.image_strength)
        m: jax.Array = unet(sample, step.timestep(table), prompt, **further).astype(jnp.float32)
        return m

    def sizes(self, conditioning: Conditioning) -> dict[str, jax.Array]:
        """Return the pooled encodings and the sizes by the network's arguments, if it takes them."""
        if not self.takes_sizes:
            return {}
        texts, picture = conditioning
        return {"text_embeds": texts.text_embeds, "time_ids": picture.time_ids}

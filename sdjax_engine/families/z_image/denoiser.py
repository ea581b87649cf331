"""The transformer of Z-Image: its captions once a picture, itself each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from sdjax_engine.families.family import Blueprint, Conditioning, WithLoras
from sdjax_engine.families.z_image.text import Encoding
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.samplers import step

TIMESTEPS = 1000
"""Timesteps of σ = 1, whatever the schedule says: the reference's pipeline divides by this number."""

if TYPE_CHECKING:
    from sdjax_engine.models.z_image import Caption


@dataclass(frozen=True, kw_only=True, eq=False)
class ZImageDenoiser:
    """The transformer of a checkpoint."""

    component: str
    blueprint: Blueprint = field(repr=False)
    further_channels: int = 0

    def condition(
        self,
        parameters: WithLoras,
        texts: Sequence[Encoding],
        loras: LoraRows,
        size: tuple[int, int],
        references: Sequence[jax.Array],
    ) -> Conditioning:
        """Return the captions of one seat. They depend on its texts alone."""
        del size, references
        states = jnp.concatenate([text.states for text in texts])
        lengths = jnp.concatenate([text.lengths for text in texts])
        captions: Caption = self.blueprint.adapted(*parameters, *loras).read(states, lengths)
        return Conditioning(of_texts=jax.tree.map(lambda leaf: leaf[None], captions), of_picture=())

    def predict(
        self,
        parameters: WithLoras,
        sample: jax.Array,
        table: jax.Array,
        conditioning: Conditioning,
        loras: LoraRows,
    ) -> jax.Array:
        """Return noise less picture of every row: the network predicts the opposite, from 1 - σ."""
        transformer = self.blueprint.adapted(*parameters, *loras)
        times = (TIMESTEPS - step.timestep(table)) / TIMESTEPS
        m: jax.Array = -transformer(sample, times, conditioning.of_texts).astype(jnp.float32)
        return m

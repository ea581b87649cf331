"""The transformer of Stable Diffusion 3: its prompts once a picture, itself each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from sdjax_engine.families.family import Blueprint, Conditioning, WithLoras
from sdjax_engine.families.stable_diffusion_3.text import Encoding
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.samplers import step

if TYPE_CHECKING:
    from sdjax_engine.models.sd3 import Prompt


@dataclass(frozen=True, kw_only=True, eq=False)
class SD3Denoiser:
    """The transformer of a checkpoint; a seat keeps the prompts of its texts."""

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
        """Return the prompts of one seat. They depend on its texts alone."""
        del size, references
        states = jnp.concatenate([text.states for text in texts])
        pooled = jnp.concatenate([text.pooled for text in texts])
        prompts: Prompt = self.blueprint.adapted(*parameters, *loras).read(states, pooled)
        return Conditioning(of_texts=jax.tree.map(lambda leaf: leaf[None], prompts), of_picture=())

    def predict(
        self,
        parameters: WithLoras,
        sample: jax.Array,
        table: jax.Array,
        conditioning: Conditioning,
        loras: LoraRows,
    ) -> jax.Array:
        """Return noise less picture of every row."""
        transformer = self.blueprint.adapted(*parameters, *loras)
        m: jax.Array = transformer(sample, step.timestep(table), conditioning.of_texts).astype(jnp.float32)
        return m

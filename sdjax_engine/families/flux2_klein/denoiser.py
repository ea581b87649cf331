"""The transformer of FLUX.2 klein: its tokens of the prompt once a picture, itself each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from sdjax_engine.families.chat_texts import Tokens
from sdjax_engine.families.family import Blueprint, Conditioning, WithLoras
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.samplers import step


def encoded(encoder: Any, tokens: Tokens) -> jax.Array:
    """*Traced:* return the encoding of one text, (1, LENGTH, 3 · width). Its padding counts too."""
    states: jax.Array = encoder(tokens.ids, tokens.lengths)
    return states


@dataclass(frozen=True, kw_only=True, eq=False)
class Flux2Denoiser:
    """The transformer of a checkpoint; a seat keeps the tokens of its texts, (1, texts, LENGTH, width)."""

    component: str
    blueprint: Blueprint = field(repr=False)
    further_channels: int = 0

    def condition(
        self,
        parameters: WithLoras,
        texts: Sequence[jax.Array],
        loras: LoraRows,
        size: tuple[int, int],
        references: Sequence[jax.Array],
    ) -> Conditioning:
        """Return the tokens of one seat's texts, and the latents of its reference pictures as they are."""
        del size
        tokens = self.blueprint.adapted(*parameters, *loras).read(jnp.concatenate(texts))
        return Conditioning(of_texts=tokens[None], of_picture=tuple(references))

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
        prompt, references = conditioning
        m: jax.Array = transformer(sample, step.timestep(table), prompt, references).astype(jnp.float32)
        return m

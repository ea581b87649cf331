"""What families have in common whose denoiser is one transformer over the encodings of texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from sdjax_engine.families.family import Blueprint, Conditioning, Encoding, WithLoras
from sdjax_engine.models.lora_bank import LoraRows

SIDE = 1024  # pixels: the default of the reference's calls, and what published checkpoints were trained at

Evaluate = Callable[[Any, jax.Array, jax.Array, Conditioning], jax.Array]
"""From the transformer's module, the sample, the table and the conditioning to noise less picture."""


class TransformerFamily:
    """A family whose pipelines all have the same networks, tokenizers and schedule.

    A family with CLIP has its own `most_skipped` and `usual_layer`.
    """

    component_classes: Mapping[str, tuple[str, ...]]
    tokenizer_classes: Mapping[str, tuple[str, ...]]
    schedule: Mapping[str, Any]
    optional = frozenset[str]()

    def classes(self, pipeline: str) -> Mapping[str, tuple[str, ...]]:
        """Return the classes of each network."""
        del pipeline
        return self.component_classes

    def tokenizers(self, pipeline: str) -> Mapping[str, tuple[str, ...]]:
        """Return the classes of each tokenizer."""
        del pipeline
        return self.tokenizer_classes

    def corrections(self, pipeline: str) -> Mapping[str, Any]:
        """Return what the pipelines decide about the schedule."""
        del pipeline
        return self.schedule

    def native_size(self, configs: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
        """Return the size of the reference's calls: no configuration has one."""
        del configs
        return SIDE, SIDE

    def most_skipped(self, configs: Mapping[str, Mapping[str, Any]]) -> int:
        """Return 0: a language model skips no layers."""
        del configs
        return 0

    def usual_layer(self, configs: Mapping[str, Mapping[str, Any]]) -> int:
        """Return 1: there is no CLIP whose layers other tools count."""
        del configs
        return 1


@dataclass(frozen=True, kw_only=True, eq=False)
class TransformerDenoiser:
    """The transformer of a checkpoint. A seat keeps what it reads of its texts, once a picture.

    The module's `read` gets the arrays of all texts' encodings, (texts, ...) each, and returns a tree of
    such; `evaluate` is called in each evaluation.
    """

    component: str
    blueprint: Blueprint = field(repr=False)
    evaluate: Evaluate = field(repr=False)
    further_channels: int = 0

    def condition(
        self,
        parameters: WithLoras,
        texts: Sequence[Encoding],
        loras: LoraRows,
        size: tuple[int, int],
        references: Sequence[jax.Array],
    ) -> Conditioning:
        """Return what is read of one seat's texts, and the latents of its reference pictures as they are."""
        del size
        joined = jax.tree.map(lambda *of_each: jnp.concatenate(of_each), *texts)
        read = self.blueprint.adapted(*parameters, *loras).read(*jax.tree.leaves(joined))
        of_texts = jax.tree.map(lambda leaf: leaf[None], read)
        return Conditioning(of_texts=of_texts, of_picture=tuple(references))

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
        return self.evaluate(transformer, sample, table, conditioning).astype(jnp.float32)

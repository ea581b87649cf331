"""Texts of Stable Diffusion: chunks of CLIP's token ids with weights, and their encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from sdjax_engine.families.family import VECTORS, Blueprint, WithLoras
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.prompts import (
    TokenizedText,
    Tokenizer,
    Triggers,
    padded_text,
    read_prompt,
    tokens_of_each,
    unknown_words,
)
from sdjax_engine.request import PromptFacts


class Tokens(NamedTuple):
    """One text for each device; only the first `chunks` count, and a `silent` text is encoded as zeros.

    `clip_skip` is how many layers before the usual one the encoding is taken.
    """

    ids: npt.NDArray[np.int32] | jax.Array  # (1, encoders, most chunks, length) int32
    weights: npt.NDArray[np.float32] | jax.Array  # (1, most chunks, length) float32
    chunks: npt.NDArray[np.int32] | jax.Array  # (1,) int32
    silent: npt.NDArray[np.bool_] | jax.Array  # (1,) bool
    clip_skip: npt.NDArray[np.int32] | jax.Array  # (1,) int32


class Encoding(NamedTuple):
    """The encoding of one text for each device; only the first `length` tokens count.

    `pooled` is None where the UNet is not conditioned on it.
    """

    hidden: jax.Array  # (1, tokens, width)
    pooled: jax.Array | None  # (1, pooled width)
    length: jax.Array  # (1,) int32


@dataclass(frozen=True, kw_only=True, eq=False)
class ClipTexts:
    """One or two of CLIP's text encoders, whose widths are joined.

    A text has at most `most_chunks` chunks. With two encoders the last layer but one is the encoding.
    A request may skip `most_skipped` layers of each encoder. `pools`: the pooled encoding is needed too.
    `zeros_for_empty`: an empty negative prompt is encoded as zeros. `triggers` are the names of embeddings in
    each encoder's ids, which count on from its vocabulary. `widths` are those of the words' vectors, by
    component.
    """

    components: tuple[str, ...]
    blueprints: tuple[Blueprint, ...] = field(repr=False)
    tokenizers: tuple[Tokenizer, ...] = field(repr=False)
    most_chunks: int
    most_skipped: int
    pools: bool
    zeros_for_empty: bool
    known_words: frozenset[str] = field(repr=False)
    triggers: tuple[Triggers, ...] = field(repr=False)
    widths: Mapping[str, int]

    @property
    def most_vectors(self) -> int:
        """The most vectors of one embedding: they stay in one chunk."""
        return min(each.room for each in self.tokenizers)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of a text's ids: (encoders, chunks, length)."""
        return len(self.tokenizers), self.most_chunks, self.tokenizers[0].length

    def read(self, prompt: str, *, negative: bool, clip_skip: int) -> tuple[TokenizedText, PromptFacts]:
        """Return a prompt in chunks of token ids, and facts of it as the first encoder takes it.

        As in the reference, layers are skipped for the prompt alone.
        """
        written = read_prompt(prompt)
        found = tokens_of_each(self.tokenizers, written, max_chunks=self.most_chunks, triggers=self.triggers)
        words = " ".join(self.triggers[0].without_names(piece.text) for piece in written.pieces)
        silent = negative and self.zeros_for_empty and not prompt.strip()
        facts = PromptFacts(
            tokens=found[0].count,
            limit=found[0].limit,
            cut=found[0].cut,
            unknown=unknown_words(words, self.known_words),
        )
        skipped = 0 if negative else clip_skip
        return padded_text(found, self.shape, silent=silent, clip_skip=skipped), facts

    def tokens(self, texts: Mapping[int, TokenizedText], count: int) -> Tokens:
        """Return the texts of `count` devices as arrays of the host."""
        tokens = Tokens(
            ids=np.zeros((count, *self.shape), np.int32),
            weights=np.ones((count, *self.shape[1:]), np.float32),
            chunks=np.zeros(count, np.int32),
            silent=np.zeros(count, np.bool_),
            clip_skip=np.zeros(count, np.int32),
        )
        for device, text in texts.items():
            tokens.ids[device] = np.frombuffer(text.ids, np.int32).reshape(self.shape)
            tokens.weights[device] = np.frombuffer(text.weights, np.float32).reshape(self.shape[1:])
            tokens.chunks[device], tokens.silent[device] = text.chunks, text.silent
            tokens.clip_skip[device] = text.clip_skip
        return tokens

    def encode(
        self, parameters: Sequence[WithLoras], tokens: Tokens, loras: LoraRows, *, counted_by_host: bool
    ) -> Encoding:
        """Encode one text, chunk by chunk.

        The pooled encoding is the last encoder's, of the first chunk. With `counted_by_host` chunks that the
        text does not have are encoded too, and replaced by zeros.
        """
        vectors = [weights.get(VECTORS) for weights, _ in parameters]
        encoders = [
            blueprint.adapted({key: weights[key] for key in weights if key != VECTORS}, bank, *loras)
            for blueprint, (weights, bank) in zip(self.blueprints, parameters, strict=True)
        ]
        _, _, most, length = tokens.ids.shape
        chunks, skip = jnp.asarray(tokens.chunks), jnp.asarray(tokens.clip_skip)[0]

        def encode_chunk(chunk: jax.Array) -> tuple[jax.Array, jax.Array | None]:
            row = jax.lax.dynamic_index_in_dim(tokens.ids[0], chunk, axis=1, keepdims=False)
            outputs = [
                encoder(row[index][None], penultimate=len(encoders) > 1, skip=skip, vectors=vectors[index])
                for index, encoder in enumerate(encoders)
            ]
            factors = jax.lax.dynamic_index_in_dim(tokens.weights[0], chunk, keepdims=True)
            hidden = [
                apply_weights(states.astype(jnp.float32), factors).astype(states.dtype)
                for states, _ in outputs
            ]
            return jnp.concatenate(hidden, axis=-1), outputs[-1][1] if self.pools else None

        def write(
            chunk: jax.Array, before: tuple[jax.Array, jax.Array | None]
        ) -> tuple[jax.Array, jax.Array | None]:
            hidden, first_pooled = before
            states, pooled = encode_chunk(chunk)
            if counted_by_host:
                states = jnp.where(chunk < chunks[0], states, 0)
            hidden = jax.lax.dynamic_update_slice_in_dim(hidden, states, chunk, 0)
            return hidden, jax.tree.map(
                lambda new, first: jnp.where(chunk == 0, new, first), pooled, first_pooled
            )

        hidden_shape, pooled_shape = jax.eval_shape(encode_chunk, chunks[0])
        empty_hidden = jnp.zeros((most, *hidden_shape.shape[1:]), hidden_shape.dtype)
        empty_pooled = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), pooled_shape)
        turns = most if counted_by_host else chunks[0]
        hidden, pooled = jax.lax.fori_loop(0, turns, write, (empty_hidden, empty_pooled))
        audible = ~tokens.silent[0]
        return Encoding(
            hidden=jnp.where(audible, hidden, 0).reshape(1, most * length, -1),
            pooled=None if pooled is None else jnp.where(audible, pooled, 0),
            length=jnp.maximum(chunks, 1) * length,
        )


def apply_weights(hidden: jax.Array, weights: jax.Array) -> jax.Array:
    """Return encodings (..., length, width) float32 multiplied by their tokens' weights (..., length).

    The arithmetic is AUTOMATIC1111's: z ← z·w, then z ← z · mean(z before) / mean(z), over all tokens of each
    chunk. A chunk whose weights are all 1 is unchanged to the bit. If the weighted mean is 0, the second step
    is left out.
    """
    weighted = hidden * weights[..., None]
    mean = jnp.mean(hidden, axis=(-2, -1), keepdims=True)
    new_mean = jnp.mean(weighted, axis=(-2, -1), keepdims=True)
    restored = weighted * jnp.where(new_mean == 0.0, 1.0, mean / new_mean)
    return jnp.where(jnp.all(weights == 1.0, axis=-1)[..., None, None], hidden, restored)

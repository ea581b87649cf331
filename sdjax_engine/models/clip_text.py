"""CLIP's text encoders, the reference's `CLIPTextModel` and `CLIPTextModelWithProjection`."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.clip_encoder import CLIPEncoder
from sdjax_engine.models.clip_text_config import (
    UNKNOWN_END,
    settle_projected_text_config,
    settle_text_config,
)
from sdjax_engine.models.config import Config
from sdjax_engine.models.layers import LayerNorm, Shared, embedding, linear


class TextEncoding(NamedTuple):
    """The encoding of a prompt, the UNet's conditioning.

    `hidden`, (n, length, width), is what the UNet attends to. `pooled` is one vector per prompt, (n, width)
    or, after a projection, (n, projection_dim).
    """

    hidden: Array
    pooled: Array


class CLIPTextTransformer(nnx.Module):
    """Encodes token ids; the body of both text encoders."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width = values["hidden_size"]
        self.embeddings = CLIPTextEmbeddings(
            width, shared, words=values["vocab_size"], positions=values["max_position_embeddings"]
        )
        self.encoder = CLIPEncoder(values, shared, causal=True)
        self.final_layer_norm = LayerNorm(width, shared, eps=values["layer_norm_eps"])
        self.end = values["eos_token_id"]

    def __call__(self, input_ids: Array, *, penultimate: bool = False) -> TextEncoding:
        """Encode `input_ids` (n, length) int32.

        `hidden` is the normed last state or, with `penultimate`, the input of the last layer, not normed.
        `pooled` is the normed last state at the end token of the prompt.
        """
        before, last = self.encoder(self.embeddings(input_ids))
        normed = self.final_layer_norm(last)
        pooled = normed[jnp.arange(len(input_ids)), end_positions(input_ids, self.end)]
        return TextEncoding(hidden=before if penultimate else normed, pooled=pooled)


class CLIPTextModel(CLIPTextTransformer):
    """The text encoder of SD 1.x and 2.x, and the first of SDXL."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        super().__init__(settle_text_config(config), Shared(dtype=dtype))


class CLIPTextModelWithProjection(nnx.Module):
    """The second text encoder of SDXL, with a linear map of its pooled encoding."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_projected_text_config(config)
        shared = Shared(dtype=dtype)
        self.text_model = CLIPTextTransformer(values, shared)
        self.text_projection = linear(values["hidden_size"], values["projection_dim"], shared, bias=False)

    def __call__(self, input_ids: Array, *, penultimate: bool = False) -> TextEncoding:
        """Encode `input_ids` (n, length) int32 as `CLIPTextTransformer` does; `pooled` is projected."""
        hidden, pooled = self.text_model(input_ids, penultimate=penultimate)
        return TextEncoding(hidden=hidden, pooled=self.text_projection(pooled))


def end_positions(input_ids: Array, end: int) -> Array:
    """Return the position of each prompt's end token, (n,): the first `end`.

    Old configurations give the wrong end id 2. For them the end token is the largest id of the prompt, as in
    the reference.
    """
    return jnp.argmax(input_ids if end == UNKNOWN_END else (input_ids == end).astype(jnp.int32), axis=-1)


class CLIPTextEmbeddings(nnx.Module):
    """The sum of the token embedding and the position embedding."""

    def __init__(self, width: int, shared: Shared, *, words: int, positions: int) -> None:
        self.token_embedding = embedding(words, width, shared)
        self.position_embedding = embedding(positions, width, shared)

    def __call__(self, input_ids: Array) -> Array:
        positions = jnp.arange(input_ids.shape[-1], dtype=jnp.int32)[None, :]
        return self.token_embedding(input_ids) + self.position_embedding(positions)

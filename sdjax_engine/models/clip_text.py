"""CLIP's text encoder, the reference's `CLIPTextModel`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.attention import KeyValues, attend
from sdjax_engine.models.config import Config, check_divisible, settle
from sdjax_engine.models.layers import Activation, LayerNorm, Shared, activation, linear

NAME = "CLIPTextModel"
DEFAULTS: Config = {
    "vocab_size": 49408,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "max_position_embeddings": 77,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
}
SUPPORTED = {
    "model_type": ("clip_text_model",),
    "architectures": (NAME,),
    "use_attention_mask": (None, False),
}


def settle_text_config(config: Config) -> dict[str, Any]:
    """Return the values the network is built from; other keys are the tokenizer's or the library's concern.

    Raises UnreadableCheckpoint for values there is no support for.
    """
    values = settle(config, model=NAME, defaults=DEFAULTS, supported=SUPPORTED, strict=False)
    activation(values["hidden_act"], model=NAME)
    check_divisible(
        NAME, widths=(values["hidden_size"],), parts=(values["num_attention_heads"],), what="heads"
    )
    return values


class CLIPTextModel(nnx.Module):
    """Token ids to the encodings the UNet attends to."""

    def __init__(self, config: Config, *, dtype: DTypeLike, rngs: nnx.Rngs) -> None:
        values = settle_text_config(config)
        shared = Shared(dtype=dtype, rngs=rngs)
        width = values["hidden_size"]
        self.embeddings = CLIPTextEmbeddings(
            width, shared, words=values["vocab_size"], positions=values["max_position_embeddings"]
        )
        self.encoder = CLIPEncoder(values, shared)
        self.final_layer_norm = LayerNorm(width, shared, eps=values["layer_norm_eps"])

    def __call__(self, input_ids: Array) -> Array:
        """Return the normed last hidden state `(n, length, width)` of `input_ids` (n, length) int32."""
        return self.final_layer_norm(self.encoder(self.embeddings(input_ids)))


class CLIPTextEmbeddings(nnx.Module):
    """The sum of a token's and its position's embedding."""

    def __init__(self, width: int, shared: Shared, *, words: int, positions: int) -> None:
        self.token_embedding = nnx.Embed(words, width, **shared.library)
        self.position_embedding = nnx.Embed(positions, width, **shared.library)

    def __call__(self, input_ids: Array) -> Array:
        positions = jnp.arange(input_ids.shape[-1], dtype=jnp.int32)[None, :]
        return self.token_embedding(input_ids) + self.position_embedding(positions)


class CLIPEncoder(nnx.Module):
    """The stack of transformer layers."""

    def __init__(self, values: Config, shared: Shared) -> None:
        self.layers = nnx.List(CLIPEncoderLayer(values, shared) for _ in range(values["num_hidden_layers"]))

    def __call__(self, x: Array) -> Array:
        for layer in self.layers:
            x = layer(x)
        return x


class CLIPEncoderLayer(nnx.Module):
    """Causal self-attention and a two-layer perceptron, each around a residual."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width, eps = values["hidden_size"], values["layer_norm_eps"]
        self.layer_norm1 = LayerNorm(width, shared, eps=eps)
        self.self_attn = CLIPAttention(width, shared, heads=values["num_attention_heads"])
        self.layer_norm2 = LayerNorm(width, shared, eps=eps)
        act = activation(values["hidden_act"], model=NAME)
        self.mlp = CLIPMLP(width, values["intermediate_size"], act, shared)

    def __call__(self, x: Array) -> Array:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class CLIPAttention(nnx.Module):
    """Self-attention in which a token sees itself and those before it."""

    def __init__(self, width: int, shared: Shared, *, heads: int) -> None:
        self.heads = heads
        self.q_proj = linear(width, width, shared)
        self.k_proj = linear(width, width, shared)
        self.v_proj = linear(width, width, shared)
        self.out_proj = linear(width, width, shared)

    def __call__(self, x: Array) -> Array:
        by_head = (*x.shape[:-1], self.heads, -1)
        queries, keys, values = (proj(x).reshape(by_head) for proj in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(attend(queries, KeyValues(keys, values), causal=True).reshape(x.shape))


class CLIPMLP(nnx.Module):
    """Two linear maps with an activation between them."""

    def __init__(self, width: int, inner: int, act: Activation, shared: Shared) -> None:
        self.fc1 = linear(width, inner, shared)
        self.fc2 = linear(inner, width, shared)
        self.act = act

    def __call__(self, x: Array) -> Array:
        return self.fc2(self.act(self.fc1(x)))

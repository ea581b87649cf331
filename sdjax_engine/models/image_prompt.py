"""The networks of an IP-Adapter: a picture as a prompt (Ye et al. 2023).

A picture becomes a few tokens, and these become keys and values of their own for each cross-attention.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.activations import gelu
from sdjax_engine.models.attention import attend
from sdjax_engine.models.config import Config
from sdjax_engine.models.cross_attention_inputs import KeysValues, KeyValues
from sdjax_engine.models.image_prompt_config import in_order
from sdjax_engine.models.layers import LayerNorm, Shared, linear, parameter


class ImageProjection(nnx.Module):
    """The map of the plain adapter, from a picture's embedding to its tokens.

    `config` has `image_embed_dim`, `cross_attention_dim` and `num_image_text_embeds`.
    """

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        shared = Shared(dtype=dtype)
        width, self.tokens = config["cross_attention_dim"], config["num_image_text_embeds"]
        self.image_embeds = linear(config["image_embed_dim"], self.tokens * width, shared)
        self.norm = LayerNorm(width, shared)

    def __call__(self, embeds: Array) -> Array:
        """Return tokens (n, tokens, width) of embeddings (n, image_embed_dim)."""
        return self.norm(self.image_embeds(embeds).reshape(len(embeds), self.tokens, -1))


class IPAdapterPlusImageProjection(nnx.Module):
    """The resampler of the Plus adapter, from the picture encoder's states to tokens.

    `config` has the reference's `embed_dims`, `output_dims`, `hidden_dims`, `depth`, `heads` and
    `num_queries`. Heads are `dim_head` wide, the perceptrons' middle is `inner` wide.
    """

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        shared, width = Shared(dtype=dtype), config["hidden_dims"]
        self.latents = parameter((1, config["num_queries"], width), shared)
        self.proj_in = linear(config["embed_dims"], width, shared)
        self.proj_out = linear(width, config["output_dims"], shared)
        self.norm_out = LayerNorm(config["output_dims"], shared)
        self.layers = nnx.List(PerceiverBlock(config, shared) for _ in range(config["depth"]))

    def __call__(self, states: Array) -> Array:
        """Return tokens (n, num_queries, output_dims) of states (n, length, embed_dims)."""
        x = self.proj_in(states)
        latents = jnp.broadcast_to(self.latents[...], (len(x), *self.latents.shape[1:]))
        for layer in self.layers:
            latents = layer(x, latents)
        return self.norm_out(self.proj_out(latents))


class PerceiverBlock(nnx.Module):
    """Latents attend to the picture and to themselves; then two linear maps, each part with a residual."""

    def __init__(self, config: Config, shared: Shared) -> None:
        width = config["hidden_dims"]
        self.ln0 = LayerNorm(width, shared)
        self.ln1 = LayerNorm(width, shared)
        self.attn = PerceiverAttention(width, config["heads"] * config["dim_head"], config["heads"], shared)
        self.ff = nnx.List([LayerNorm(width, shared), PerceiverFeedForward(width, config["inner"], shared)])

    def __call__(self, x: Array, latents: Array) -> Array:
        normed = self.ln1(latents)
        latents = latents + self.attn(normed, jnp.concatenate([self.ln0(x), normed], axis=1))
        norm, maps = self.ff
        return latents + maps(norm(latents))


class PerceiverAttention(nnx.Module):
    """Attention without biases, whose heads need not make up the width."""

    def __init__(self, width: int, inner: int, heads: int, shared: Shared) -> None:
        self.heads = heads
        self.to_q = linear(width, inner, shared, bias=False)
        self.to_k = linear(width, inner, shared, bias=False)
        self.to_v = linear(width, inner, shared, bias=False)
        self.to_out = nnx.List([linear(inner, width, shared, bias=False)])

    def __call__(self, x: Array, states: Array) -> Array:
        queries, keys, values = (
            each.reshape(*each.shape[:-1], self.heads, -1)
            for each in (self.to_q(x), self.to_k(states), self.to_v(states))
        )
        attended = attend(queries, KeyValues(keys, values))
        return self.to_out[0](attended.reshape(*x.shape[:-1], -1))


class PerceiverFeedForward(nnx.Module):
    """Two linear maps with GELU between them. The reference's dropout is None, to keep its numbering."""

    def __init__(self, width: int, inner: int, shared: Shared) -> None:
        self.net = nnx.List([Projected(width, inner, shared), None, linear(inner, width, shared, bias=False)])

    def __call__(self, x: Array) -> Array:
        return self.net[2](gelu(self.net[0](x)))


class Projected(nnx.Module):
    """A linear map under the name that the reference gives it."""

    def __init__(self, width: int, inner: int, shared: Shared) -> None:
        self.proj = linear(width, inner, shared, bias=False)

    def __call__(self, x: Array) -> Array:
        return self.proj(x)


class ImagePromptAttentions(nnx.Module):
    """The maps from a picture's tokens to the keys and values of a UNet's cross-attentions.

    `config` has `cross_attention_dim` and `widths`, each cross-attention's width by its place. Files number
    the layers 1, 3, 5, and so on, in the order of `in_order`.
    """

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        shared, context = Shared(dtype=dtype), config["cross_attention_dim"]
        self.places = tuple(in_order(config["widths"]))
        self.ip_adapter = nnx.List(
            layer
            for place in self.places
            for layer in (None, ImagePromptAttention(context, config["widths"][place], shared))
        )

    def project(self, tokens: Array) -> KeysValues:
        """Return the keys and values (n, tokens, width) of tokens (n, tokens, context width), by place."""
        return {place: layer(tokens) for place, layer in zip(self.places, self.ip_adapter[1::2], strict=True)}


class ImagePromptAttention(nnx.Module):
    """The two maps of one cross-attention."""

    def __init__(self, context: int, width: int, shared: Shared) -> None:
        self.to_k_ip = linear(context, width, shared, bias=False)
        self.to_v_ip = linear(context, width, shared, bias=False)

    def __call__(self, tokens: Array) -> tuple[Array, Array]:
        return self.to_k_ip(tokens), self.to_v_ip(tokens)

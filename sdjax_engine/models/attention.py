"""Attention and the transformers of the UNet's blocks.

The keys and values of cross-attention depend on the prompt only. A network takes either a `Context`, which
each layer projects at every step, or a `Projection`, which holds every layer's keys and values for all steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from sdjax_engine.models.activations import gelu
from sdjax_engine.models.attention_choice import AttentionShape, Backend, choose
from sdjax_engine.models.attention_kernels import CPU, KERNELS, found_backend
from sdjax_engine.models.cross_attention_inputs import Context, KeyValues, Projection
from sdjax_engine.models.layers import GroupNorm, LayerNorm, Shared, linear

TRANSFORMER_NORM_EPS = 1e-6
PromptContext = Context | Projection
"""What queries attend to: states, or the keys and values that a prompt was projected to."""


def attend(queries: Array, keys_values: KeyValues, *, causal: bool = False) -> Array:
    """Scaled dot-product attention with a float32 softmax: `(n, length, heads, width)`.

    The kernel is chosen for the shape and for the platform that the program is compiled for. That platform
    may be the CPU although the host has an accelerator. If there are lengths, and as many queries as keys,
    then both are the same tokens, and the result beyond a row's length is finite and otherwise undefined.
    """
    n, length, heads, width = queries.shape
    shape = AttentionShape(
        rows=n,
        queries=length,
        keys=keys_values.keys.shape[1],
        heads=heads,
        width=width,
        dtype=queries.dtype.name,
        causal=causal,
        lengths=keys_values.lengths is not None,
    )

    def on(backend: Backend) -> Callable[..., Array]:
        return partial(KERNELS[choose(shape, backend)], causal=causal)

    usual = found_backend()
    if usual == CPU:
        return on(CPU)(queries, keys_values)
    return jax.lax.platform_dependent(queries, keys_values, cpu=on(CPU), default=on(usual))


class Attention(nnx.Module):
    """The reference's `Attention`. The output map has a bias; the input maps have one if `bias` is set.

    `place` is the layer's path in the network, the key into a `Projection`. The network sets it.
    """

    def __init__(
        self, width: int, shared: Shared, *, heads: int, context_width: int | None = None, bias: bool = False
    ) -> None:
        context_width = width if context_width is None else context_width
        self.heads = heads
        self.place = ""
        self.to_q = linear(width, width, shared, bias=bias)
        self.to_k = linear(context_width, width, shared, bias=bias)
        self.to_v = linear(context_width, width, shared, bias=bias)
        self.to_out = nnx.List([linear(width, width, shared)])

    def project(self, states: Array) -> tuple[Array, Array]:
        """Return the keys and values, `(n, length, width)`, of `states` (n, length, context width)."""
        return self.to_k(states), self.to_v(states)

    def __call__(self, x: Array, context: PromptContext) -> Array:
        """`x` is `(n, tokens, width)`."""
        made = (
            context.keys_values[self.place]
            if isinstance(context, Projection)
            else self.project(context.states)
        )
        keys, values = map(self.split, made)
        queries = self.split(self.to_q(x))
        attended = attend(queries, KeyValues(keys, values, context.lengths))
        if isinstance(context, Projection) and context.image is not None and self.place in context.image:
            attended = attended + self.of_image(queries, context)
        return self.to_out[0](attended.reshape(x.shape))

    def of_image(self, queries: Array, context: Projection) -> Array:
        """Return the attention to the image prompt times its strength; a strength of 0 gives exact zeros."""
        keys, values = map(self.split, (context.image or {})[self.place])
        seen = attend(queries, KeyValues(keys, values))
        strength = jnp.asarray(context.image_strength)[:, None, None, None]
        return jnp.where(strength == 0, 0.0, strength * seen.astype(jnp.float32)).astype(seen.dtype)

    def split(self, x: Array) -> Array:
        return x.reshape(*x.shape[:-1], self.heads, -1)


class GEGLU(nnx.Module):
    """A linear map times the GELU of a second linear map (Shazeer 2020)."""

    def __init__(self, width: int, width_out: int, shared: Shared) -> None:
        self.proj = linear(width, 2 * width_out, shared)

    def __call__(self, x: Array) -> Array:
        x, gate = jnp.split(self.proj(x), 2, axis=-1)
        return x * gelu(gate)


class FeedForward(nnx.Module):
    """GEGLU and a linear map. The reference's dropout between them is None here, to keep its numbering."""

    def __init__(self, width: int, shared: Shared) -> None:
        self.net = nnx.List([GEGLU(width, 4 * width, shared), None, linear(4 * width, width, shared)])

    def __call__(self, x: Array) -> Array:
        return self.net[2](self.net[0](x))


@dataclass(frozen=True, kw_only=True)
class AttentionStyle:
    """The settings of one block's transformers; with `only_cross` both attentions are to the prompt."""

    heads: int
    context_width: int
    only_cross: bool = False


class BasicTransformerBlock(nnx.Module):
    """Self-attention, cross-attention to the prompt and a feed-forward part, each with a residual."""

    def __init__(self, width: int, shared: Shared, *, style: AttentionStyle) -> None:
        first_context_width = style.context_width if style.only_cross else None
        self.norm1 = LayerNorm(width, shared)
        self.attn1 = Attention(width, shared, heads=style.heads, context_width=first_context_width)
        self.norm2 = LayerNorm(width, shared)
        self.attn2 = Attention(width, shared, heads=style.heads, context_width=style.context_width)
        self.norm3 = LayerNorm(width, shared)
        self.ff = FeedForward(width, shared)
        self.only_cross = style.only_cross

    @property
    def cross_attentions(self) -> dict[str, Attention]:
        """The layers that attend to the prompt, by name."""
        second = {"attn2": self.attn2}
        return {"attn1": self.attn1, **second} if self.only_cross else second

    def __call__(self, x: Array, context: PromptContext) -> Array:
        normed = self.norm1(x)
        x = x + self.attn1(normed, context if self.only_cross else Context(normed))
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class Transformer2DModel(nnx.Module):
    """Transformer blocks over the pixels of a picture, with a residual.

    The reference's `proj_in` and `proj_out` are 1×1 convolutions or linear maps; both are linear maps here.
    """

    def __init__(
        self, width: int, shared: Shared, *, style: AttentionStyle, layers: int, groups: int
    ) -> None:
        self.norm = GroupNorm(width, groups, shared, eps=TRANSFORMER_NORM_EPS)
        self.proj_in = linear(width, width, shared)
        self.transformer_blocks = nnx.List(
            BasicTransformerBlock(width, shared, style=style) for _ in range(layers)
        )
        self.proj_out = linear(width, width, shared)

    def __call__(self, x: Array, context: PromptContext) -> Array:
        """`x` is `(n, h, w, width)`, the states of a context are `(n, length, context width)`."""
        tokens = self.proj_in(self.norm(x).reshape(x.shape[0], -1, x.shape[-1]))
        for block in self.transformer_blocks:
            tokens = block(tokens, context)
        return x + self.proj_out(tokens).reshape(x.shape)


class PictureAttention(nnx.Module):
    """The autoencoder's self-attention over pixels: a norm, one head, and a residual."""

    def __init__(self, width: int, groups: int, shared: Shared, *, eps: float) -> None:
        self.group_norm = GroupNorm(width, groups, shared, eps=eps)
        self.to_q = linear(width, width, shared)
        self.to_k = linear(width, width, shared)
        self.to_v = linear(width, width, shared)
        self.to_out = nnx.List([linear(width, width, shared)])

    def __call__(self, x: Array) -> Array:
        """`x` is `(n, h, w, width)`."""
        n, _, _, width = x.shape
        tokens = self.group_norm(x).reshape(n, -1, 1, width)
        attended = attend(self.to_q(tokens), KeyValues(self.to_k(tokens), self.to_v(tokens)))
        return x + self.to_out[0](attended).reshape(x.shape)

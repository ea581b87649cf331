"""Attention and the transformer that the UNet's blocks hold.

The keys and values of cross-attention depend on the prompt only, so that a network may be told a `Context`,
of which each layer makes its own at every step, or the `Projection` that was made of it once for all steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from sdjax_engine.models.attention_backend import CPU, found_backend
from sdjax_engine.models.attention_choice import AttentionShape, Backend, choose
from sdjax_engine.models.attention_kernels import KERNELS
from sdjax_engine.models.cross_attention_inputs import Context, KeyValues, Projection
from sdjax_engine.models.layers import GroupNorm, LayerNorm, Shared, linear

TRANSFORMER_NORM_EPS = 1e-6
Told = Context | Projection


def attend(queries: Array, keys_values: KeyValues, *, causal: bool = False) -> Array:
    """Scaled dot-product attention with a float32 softmax: `(n, length, heads, width)`.

    By the kernel that suits the shape and the platform that the program is compiled for: parameters may lie
    in the host's memory although there is an accelerator.
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
    """The reference's `Attention`: its biases are on the output, and on the inputs where `bias` says so.

    `place` is the layer's path in a network that may be told a `Projection`; the network sets it.
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
        """Return keys and values, `(n, length, width)`, of `states` (n, length, context width)."""
        return self.to_k(states), self.to_v(states)

    def __call__(self, x: Array, told: Told) -> Array:
        """`x` is `(n, tokens, width)`."""
        made = told.keys_values[self.place] if isinstance(told, Projection) else self.project(told.states)
        keys, values = map(self.split, made)
        attended = attend(self.split(self.to_q(x)), KeyValues(keys, values, told.lengths))
        return self.to_out[0](attended.reshape(x.shape))

    def split(self, x: Array) -> Array:
        return x.reshape(*x.shape[:-1], self.heads, -1)


class GEGLU(nnx.Module):
    """A linear map gated by the GELU of another (Shazeer 2020)."""

    def __init__(self, width: int, width_out: int, shared: Shared) -> None:
        self.proj = linear(width, 2 * width_out, shared)

    def __call__(self, x: Array) -> Array:
        x, gate = jnp.split(self.proj(x), 2, axis=-1)
        return x * jax.nn.gelu(gate, approximate=False)


class FeedForward(nnx.Module):
    """GEGLU and a linear map back; the reference's dropout between them is None here."""

    def __init__(self, width: int, shared: Shared) -> None:
        self.net = nnx.List([GEGLU(width, 4 * width, shared), None, linear(4 * width, width, shared)])

    def __call__(self, x: Array) -> Array:
        return self.net[2](self.net[0](x))


@dataclass(frozen=True, kw_only=True)
class AttentionStyle:
    """What the transformers of one block have in common; `only_cross` has them attend to the prompt twice."""

    heads: int
    context_width: int
    only_cross: bool = False


class BasicTransformerBlock(nnx.Module):
    """Self-attention, cross-attention to the prompt and a feed-forward part, each around a residual."""

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

    def __call__(self, x: Array, told: Told) -> Array:
        normed = self.norm1(x)
        x = x + self.attn1(normed, told if self.only_cross else Context(normed))
        x = x + self.attn2(self.norm2(x), told)
        return x + self.ff(self.norm3(x))


class Transformer2DModel(nnx.Module):
    """Transformer blocks over the pixels of a picture, around a residual.

    The reference's two forms of `proj_in` and `proj_out`, 1×1 convolution and linear, are the same map here.
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

    def __call__(self, x: Array, told: Told) -> Array:
        """`x` is `(n, h, w, width)`, a context's states `(n, length, context width)`."""
        tokens = self.proj_in(self.norm(x).reshape(x.shape[0], -1, x.shape[-1]))
        for block in self.transformer_blocks:
            tokens = block(tokens, told)
        return x + self.proj_out(tokens).reshape(x.shape)


class PictureAttention(nnx.Module):
    """The autoencoder's self-attention over pixels: one head, a norm before it and a residual around it."""

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

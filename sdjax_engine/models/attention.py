"""Attention and the transformer that the UNet's blocks hold.

The keys and values of cross-attention depend on the prompt only: `Attention.project` makes them and
`Attention.__call__` takes them, so that a caller may compute them once for many steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from sdjax_engine.models.layers import GroupNorm, LayerNorm, Shared, linear

TRANSFORMER_NORM_EPS = 1e-6
MANY_SCORES = 1 << 23  # from here on a CPU attends in parts: 32 MiB of scores
QUERIES_AT_ONCE = 512


class Context(NamedTuple):
    """What queries may attend to: states `(n, length, width)`.

    With `lengths` (n,), at least 1, only so many of each row.
    """

    states: Array
    lengths: Array | None = None

    def without_rest(self) -> Context:
        """Return it with zeros beyond the lengths, so that what stood there reaches nobody, NaN included."""
        if self.lengths is None:
            return self
        positions = jnp.arange(self.states.shape[1], dtype=self.lengths.dtype)
        inside = positions[None, :] < self.lengths[:, None]
        return self._replace(states=jnp.where(inside[:, :, None], self.states, 0))


class KeyValues(NamedTuple):
    """What queries attend to: keys and values, each `(n, length, heads, width of a head)`.

    With `lengths` (n,), at least 1, those beyond a row's have a weight of exactly zero.
    """

    keys: Array
    values: Array
    lengths: Array | None = None


def attend(queries: Array, keys_values: KeyValues, *, causal: bool = False) -> Array:
    """Scaled dot-product attention with a float32 softmax: `(n, length, heads, width)`."""
    if jax.default_backend() == "cpu":
        return attend_by_head(queries, keys_values, causal=causal)
    keys, values, lengths = keys_values
    with jax.numpy_dtype_promotion(
        "standard"
    ):  # the library's own float32 scores do not trace under "strict"
        return jax.nn.dot_product_attention(
            queries, keys, values, is_causal=causal, key_value_seq_lengths=lengths
        )


def attend_by_head(queries: Array, keys_values: KeyValues, *, causal: bool) -> Array:
    """The same, each head's matrices contiguous: XLA's products on the CPU take 0.5 to 0.8 of the time."""
    by_head = (each.swapaxes(1, 2) for each in (queries, keys_values.keys, keys_values.values))
    q, k, v = by_head  # (n, heads, length, width)
    q = q * jnp.asarray(q.shape[-1] ** -0.5, q.dtype)
    if keys_values.lengths is None and not causal and math.prod(q.shape[:3]) * k.shape[2] >= MANY_SCORES:
        return attend_in_parts(q, k, v).swapaxes(1, 2)
    scores = jnp.einsum("nhtd,nhsd->nhts", q, k, preferred_element_type=jnp.float32)
    allowed = allowed_pairs(scores.shape, keys_values.lengths, causal=causal)
    if allowed is not None:
        scores = jnp.where(allowed, scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("nhts,nhsd->nhtd", weights, v).swapaxes(1, 2)


def attend_in_parts(q: Array, k: Array, v: Array) -> Array:
    """Some queries of one head after another, so that their scores stay in a core's cache.

    `q`, scaled, and the result are `(n, heads, length, width)`. Scores in memory cost a CPU two to four times
    the time, and 4 · n · heads · length² bytes. Each query meets all its keys at once: there is no running
    maximum, and the result is rounded as it is without parts.
    """
    n, heads, length, width = q.shape
    queries = max(each for each in range(1, QUERIES_AT_ONCE + 1) if length % each == 0)
    q = q.reshape(-1, queries, width)
    k, v = (each.reshape(n * heads, -1, width) for each in (k, v))

    def attend_part(part: Array) -> Array:
        head = part // (length // queries)
        scores = jnp.einsum("td,sd->ts", q[part], k[head], preferred_element_type=jnp.float32)
        exponentials = jnp.exp(scores - scores.max(-1, keepdims=True))
        sums = exponentials.sum(-1, keepdims=True)
        attended = jnp.dot(exponentials.astype(v.dtype), v[head], preferred_element_type=jnp.float32)
        return (attended / sums).astype(v.dtype)

    parts = jax.lax.map(attend_part, jnp.arange(len(q), dtype=jnp.int32))
    return parts.reshape(n, heads, length, width)


def allowed_pairs(shape: tuple[int, ...], lengths: Array | None, *, causal: bool) -> Array | None:
    """Which keys a query may attend to, (n or 1, 1, queries or 1, keys); None: all."""
    places = jnp.arange(shape[-1], dtype=jnp.int32)
    allowed = None if lengths is None else places < lengths[:, None, None, None]
    if not causal:
        return allowed
    earlier = (places <= jnp.arange(shape[-2], dtype=jnp.int32)[:, None])[None, None]
    return earlier if allowed is None else allowed & earlier


class Attention(nnx.Module):
    """The reference's `Attention`: its biases are on the output, and on the inputs where `bias` says so."""

    def __init__(
        self, width: int, shared: Shared, *, heads: int, context_width: int | None = None, bias: bool = False
    ) -> None:
        context_width = width if context_width is None else context_width
        self.heads = heads
        self.to_q = linear(width, width, shared, bias=bias)
        self.to_k = linear(context_width, width, shared, bias=bias)
        self.to_v = linear(context_width, width, shared, bias=bias)
        self.to_out = nnx.List([linear(width, width, shared)])

    def project(self, context: Context) -> KeyValues:
        """Return the keys and values of `context`, whose states are (n, length, context width)."""
        states, lengths = context
        return KeyValues(self.split(self.to_k(states)), self.split(self.to_v(states)), lengths)

    def __call__(self, x: Array, keys_values: KeyValues) -> Array:
        """`x` is `(n, tokens, width)`."""
        attended = attend(self.split(self.to_q(x)), keys_values)
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

    def __call__(self, x: Array, context: Context) -> Array:
        normed = self.norm1(x)
        x = x + self.attn1(normed, self.attn1.project(context if self.only_cross else Context(normed)))
        x = x + self.attn2(self.norm2(x), self.attn2.project(context))
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

    def __call__(self, x: Array, context: Context) -> Array:
        """`x` is `(n, h, w, width)`, the context's states `(n, length, context width)`."""
        tokens = self.proj_in(self.norm(x).reshape(x.shape[0], -1, x.shape[-1]))
        for block in self.transformer_blocks:
            tokens = block(tokens, context)
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

"""Attention of two streams of tokens to both, a picture's and a prompt's, with weights of their own.

The reference's `Attention` with `added_kv_proj_dim`, as the transformers of SD 3.5 and FLUX.2 use it.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from flax import nnx
from jax import Array

from sdjax_engine.models.attention import attend
from sdjax_engine.models.cross_attention_inputs import KeyValues
from sdjax_engine.models.layers import RMSNorm, Shared, linear
from sdjax_engine.models.rotary import Rotation, turn_neighbours

WHOLE = 128
"""A joint sequence is a multiple of this, as the TPU's kernel needs it."""


class Modulation(nnx.Module):
    """A linear map of the time to shifts, scales and gates."""

    def __init__(self, width: int, parts: int, shared: Shared, *, bias: bool = True) -> None:
        self.linear = linear(width, parts * width, shared, bias=bias)
        self.parts = parts

    def __call__(self, time: Array) -> Sequence[Array]:
        """Return the parts, each (n, 1, width), of `time` (n, width) after its SiLU."""
        return jnp.split(self.linear(time)[:, None], self.parts, axis=-1)


class SelfAttention(nnx.Module):
    """Attention of a picture's tokens to each other, with normed queries and keys if `normed`."""

    def __init__(
        self, width: int, heads: int, shared: Shared, *, eps: float, normed: bool = True, bias: bool = True
    ) -> None:
        self.of_a_head = width // heads
        self.to_q = linear(width, width, shared, bias=bias)
        self.to_k = linear(width, width, shared, bias=bias)
        self.to_v = linear(width, width, shared, bias=bias)
        self.to_out = nnx.List([linear(width, width, shared, bias=bias)])
        self.norm_q = RMSNorm(self.of_a_head, shared, eps=eps) if normed else None
        self.norm_k = RMSNorm(self.of_a_head, shared, eps=eps) if normed else None

    def __call__(self, x: Array) -> Array:
        """Return `(n, tokens, width)` of `x` in the same shape."""
        queries, *keys_values = self.project(x)
        return self.to_out[0](attend(queries, KeyValues(*keys_values)).reshape(x.shape))

    def project(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the queries, keys and values of the picture's tokens, `(n, tokens, heads, width)`."""
        return (
            self.by_head(self.to_q(x), self.norm_q),
            self.by_head(self.to_k(x), self.norm_k),
            self.by_head(self.to_v(x), None),
        )

    def by_head(self, x: Array, norm: RMSNorm | None) -> Array:
        """Return the heads of `x`, `(n, tokens, heads, width)`, each normed."""
        heads = x.reshape(*x.shape[:-1], -1, self.of_a_head)
        return heads if norm is None else norm(heads)


class JointAttention(SelfAttention):
    """Attention of both streams to both: [picture | prompt].

    In the `last` block of a network the prompt's tokens are only read, and returned as they are.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        shared: Shared,
        *,
        eps: float,
        normed: bool = True,
        bias: bool = True,
        last: bool = False,
    ) -> None:
        super().__init__(width, heads, shared, eps=eps, normed=normed, bias=bias)
        self.add_q_proj = linear(width, width, shared, bias=bias)
        self.add_k_proj = linear(width, width, shared, bias=bias)
        self.add_v_proj = linear(width, width, shared, bias=bias)
        self.to_add_out = None if last else linear(width, width, shared, bias=bias)
        self.norm_added_q = RMSNorm(self.of_a_head, shared, eps=eps) if normed else None
        self.norm_added_k = RMSNorm(self.of_a_head, shared, eps=eps) if normed else None

    def __call__(  # type: ignore[override]
        self, x: Array, context: Array, *, lengths: Array | None, rotation: Rotation | None = None
    ) -> tuple[Array, Array]:
        """Return both results, `(n, tokens, width)`; of all tokens the first `lengths` (n,) are attended to.

        Queries and keys are turned by `rotation`, which is of all tokens.
        """
        of_prompt = (
            self.by_head(self.add_q_proj(context), self.norm_added_q),
            self.by_head(self.add_k_proj(context), self.norm_added_k),
            self.by_head(self.add_v_proj(context), None),
        )
        both = (jnp.concatenate(pair, axis=1) for pair in zip(self.project(x), of_prompt, strict=True))
        queries, keys, values = both
        if rotation is not None:
            queries, keys = (turn_neighbours(each, rotation) for each in (queries, keys))
        attended = attend(queries, KeyValues(keys, values, lengths)).reshape(len(x), -1, x.shape[-1])
        count = x.shape[1]
        added = context if self.to_add_out is None else self.to_add_out(attended[:, count:])
        return self.to_out[0](attended[:, :count]), added

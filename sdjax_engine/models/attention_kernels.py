"""The attention kernels; all take queries, keys and values `(n, length, heads, width of a head)`.

Scores and softmax are float32 in each kernel. The result of a row depends on that row only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sdjax_engine.models import attention_pallas
from sdjax_engine.models.attention_choice import ACCELERATOR_SCORES, CPU_SCORES, Kernel
from sdjax_engine.models.cross_attention_inputs import KeyValues


def by_xla(queries: Array, keys_values: KeyValues, *, causal: bool) -> Array:
    """JAX's own attention, with all scores in memory at once."""
    return by_library(queries, keys_values, causal=causal, implementation="xla")


def by_cudnn(queries: Array, keys_values: KeyValues, *, causal: bool) -> Array:
    """CuDNN's fused attention, without scores in memory; bfloat16 and float16 on Nvidia GPUs."""
    return by_library(queries, keys_values, causal=causal, implementation="cudnn")


def by_library(
    queries: Array, keys_values: KeyValues, *, causal: bool, implementation: Literal["xla", "cudnn"]
) -> Array:
    keys, values, lengths = keys_values
    with jax.numpy_dtype_promotion("standard"):  # JAX's float32 scores do not trace under "strict"
        attended: Array = jax.nn.dot_product_attention(
            queries,
            keys,
            values,
            is_causal=causal,
            key_value_seq_lengths=lengths,
            implementation=implementation,
        )
    return attended


def by_xla_in_parts(queries: Array, keys_values: KeyValues, *, causal: bool) -> Array:
    """JAX's own attention, for some queries at a time, so that the scores in memory are bounded."""
    check_not_causal(causal)
    n, _, heads, _ = queries.shape
    scores_of_a_query = n * heads * keys_values.keys.shape[1]

    def attend_part(part: Array) -> Array:  # (queries of the part, n, heads, width)
        return by_xla(part.swapaxes(0, 1), keys_values, causal=False).swapaxes(0, 1)

    size = max(ACCELERATOR_SCORES // scores_of_a_query, 1)
    return in_parts(attend_part, queries.swapaxes(0, 1), size=size).swapaxes(0, 1)


def by_flash(queries: Array, keys_values: KeyValues, *, causal: bool) -> Array:
    """JAX's flash attention for TPUs: whole blocks of queries and keys, without lengths."""
    check_not_causal(causal)
    return attention_pallas.by_flash(queries, keys_values)


def by_few_keys(queries: Array, keys_values: KeyValues, *, causal: bool) -> Array:
    """Attention of many queries to a prompt's keys on TPUs, without scores in main memory."""
    check_not_causal(causal)
    return attention_pallas.by_few_keys(queries, keys_values)


def by_head(queries: Array, keys_values: KeyValues, *, causal: bool) -> Array:
    """Attention with each head's matrices contiguous: XLA's CPU products then take 0.5 to 0.8 of the time."""
    each_by_head = (each.swapaxes(1, 2) for each in (queries, keys_values.keys, keys_values.values))
    q, k, v = each_by_head  # (n, heads, length, width)
    scores = jnp.einsum("nhtd,nhsd->nhts", q, k, preferred_element_type=jnp.float32)
    scores = scores * np.float32(q.shape[-1] ** -0.5)
    allowed = allowed_pairs(scores.shape, keys_values.lengths, causal=causal)
    if allowed is not None:
        scores = jnp.where(allowed, scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("nhts,nhsd->nhtd", weights, v).swapaxes(1, 2)


def by_head_in_parts(queries: Array, keys_values: KeyValues, *, causal: bool) -> Array:
    """Attention for one head at a time and some queries at a time, so that the scores fit in the cache.

    With scores in main memory a CPU takes two to four times as long. Each query is multiplied with all its
    keys at once, so that no running maximum is needed, unlike in flash attention.
    """
    check_not_causal(causal)
    n, length, heads, width = queries.shape
    keys, values, lengths = keys_values
    apart = (each.swapaxes(1, 2).reshape(n * heads, -1, width) for each in (queries, keys, values))
    of_each = None if lengths is None else jnp.repeat(lengths, heads)
    size = max(CPU_SCORES // keys.shape[1], 1)

    def attend_head(q: Array, k: Array, v: Array, count: Array | None) -> Array:  # (length, width) each

        def attend_part(part: Array) -> Array:
            scores = jnp.einsum("td,sd->ts", part, k, preferred_element_type=jnp.float32)
            scores = scores * np.float32(width**-0.5)
            if count is not None:
                scores = jnp.where(jnp.arange(len(k), dtype=jnp.int32) < count, scores, -jnp.inf)
            exponentials = jnp.exp(scores - scores.max(-1, keepdims=True))
            summed = jnp.dot(exponentials.astype(v.dtype), v, preferred_element_type=jnp.float32)
            return (summed / exponentials.sum(-1, keepdims=True)).astype(v.dtype)

        return in_parts(attend_part, q, size=size)

    attended = jax.lax.map(lambda one: attend_head(*one), (*apart, of_each))
    return attended.reshape(n, heads, length, width).swapaxes(1, 2)


def in_parts(function: Callable[[Array], Array], tokens: Array, *, size: int) -> Array:
    """Return `function` of `tokens`, applied to at most `size` tokens at a time.

    Tokens are the first axis and must be independent. All parts have one size: the last is padded with zeros.
    """
    count = tokens.shape[0]
    parts = -(-count // size)
    if parts == 1:
        return function(tokens)
    each = -(-count // parts)
    padded = jnp.pad(tokens, ((0, parts * each - count), *[(0, 0)] * (tokens.ndim - 1)))
    done = jax.lax.map(function, padded.reshape(parts, each, *tokens.shape[1:]))
    return done.reshape(parts * each, *done.shape[2:])[:count]


def allowed_pairs(shape: tuple[int, ...], lengths: Array | None, *, causal: bool) -> Array | None:
    """Return which keys a query may attend to, bool (n or 1, 1, queries or 1, keys), or None for all."""
    places = jnp.arange(shape[-1], dtype=jnp.int32)
    allowed = None if lengths is None else places < lengths[:, None, None, None]
    if not causal:
        return allowed
    earlier = (places <= jnp.arange(shape[-2], dtype=jnp.int32)[:, None])[None, None]
    return earlier if allowed is None else allowed & earlier


def check_not_causal(causal: bool) -> None:
    if causal:
        raise ValueError("This kernel attends to every key.")


Attend = Callable[..., Array]
KERNELS: Mapping[Kernel, Attend] = MappingProxyType(
    {
        Kernel.CUDNN: by_cudnn,
        Kernel.FLASH: by_flash,
        Kernel.FEW_KEYS: by_few_keys,
        Kernel.XLA: by_xla,
        Kernel.XLA_IN_PARTS: by_xla_in_parts,
        Kernel.BY_HEAD: by_head,
        Kernel.BY_HEAD_IN_PARTS: by_head_in_parts,
    }
)

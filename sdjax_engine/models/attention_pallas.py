"""The attention kernels for TPUs, in Pallas; both take heads narrower than 128 without padding.

Padding the heads to whole lanes before a kernel would take one pass each over queries, keys, values and
result. Without it, the compiler pads them in registers, which have the width of the lanes anyway.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sdjax_engine.models.cross_attention_inputs import KeyValues

LANES = 128
BLOCK = 512
"""Queries and keys of a block of scores, at most."""
BLOCK_BYTES = 2**20
"""Bytes of a block's queries in all heads, at most."""


def by_flash(queries: Array, keys_values: KeyValues) -> Array:
    """JAX's flash attention (Dao et al. 2022), for whole blocks of 128 queries and keys, without lengths."""
    from jax.experimental.pallas.ops.tpu import flash_attention as library  # noqa: PLC0415 - slow to import

    width = queries.shape[-1]
    spare = 0 if width <= LANES else -width % LANES  # the library takes wider heads in whole lanes only
    by_head = (
        jnp.pad(each.swapaxes(1, 2), ((0, 0), (0, 0), (0, 0), (0, spare)))
        for each in (queries, keys_values.keys, keys_values.values)
    )
    q, k, v = by_head  # (n, heads, length, width)
    block_q, block_k = (block_of(each.shape[2], BLOCK) for each in (q, k))
    blocks = library.BlockSizes(block_q=block_q, block_k_major=block_k, block_k=block_k, block_b=1)
    attended: Array = library.flash_attention(q, k, v, sm_scale=width**-0.5, block_sizes=blocks)
    return attended[..., :width].swapaxes(1, 2)


def by_few_keys(queries: Array, keys_values: KeyValues) -> Array:
    """Attention of whole blocks of 128 queries to few keys, such as a prompt's, all keys at once.

    Heads lie side by side as the linear maps leave them, so that nothing is transposed, and the scores of a
    block stay in the core. The weight of a key beyond a row's length is exactly zero.
    """
    from jax.experimental import pallas  # noqa: PLC0415 - slow to import
    from jax.experimental.pallas import tpu  # noqa: PLC0415

    n, tokens, heads, width = queries.shape
    count = keys_values.keys.shape[1]
    lengths = keys_values.lengths
    counts = (
        jnp.full((n,), count, jnp.int32) if lengths is None else jnp.maximum(lengths, 1)
    )  # lengths are 0 in empty seats
    q, k, v = (each.reshape(n, -1, heads * width) for each in (queries, keys_values.keys, keys_values.values))
    of_a_query = heads * width * q.dtype.itemsize
    block = block_of(tokens, min(BLOCK, BLOCK * BLOCK // count, BLOCK_BYTES // of_a_query))
    some_queries = pallas.BlockSpec((1, block, heads * width), lambda row, place, _: (row, place, 0))
    all_keys = pallas.BlockSpec((1, count, heads * width), lambda row, _place, _: (row, 0, 0))
    grid = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(n, tokens // block),
        in_specs=[some_queries, all_keys, all_keys],
        out_specs=some_queries,
    )
    attended: Array = pallas.pallas_call(
        partial(attend_block, width),
        grid_spec=grid,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=tpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(counts, q, k, v)
    return attended.reshape(queries.shape)


def attend_block(  # noqa: PLR0917 - Pallas gives them by place
    width: int, counts: Any, queries: Any, keys: Any, values: Any, attended: Any
) -> None:
    """Fill `attended` for a block of queries; arrays `(1, length, heads × width)`, but `counts` (n,)."""
    from jax.experimental import pallas  # noqa: PLC0415 - slow to import

    count = counts[pallas.program_id(0)]
    for start in range(0, queries.shape[2], width):
        head = slice(start, start + width)
        q, k, v = queries[0, :, head], keys[0, :, head], values[0, :, head]
        scores = width**-0.5 * jnp.einsum("td,sd->ts", q, k, preferred_element_type=jnp.float32)
        counted = jax.lax.broadcasted_iota(jnp.int32, scores.shape, 1) < count
        weights = jax.nn.softmax(jnp.where(counted, scores, -jnp.inf), axis=-1).astype(v.dtype)
        summed = jnp.dot(weights, v, preferred_element_type=jnp.float32)
        attended[0, :, head] = summed.astype(attended.dtype)


def block_of(tokens: int, most: int) -> int:
    """Return the largest multiple of `LANES` up to `most` that divides `tokens`; `LANES` at least."""
    return next(size for size in range(max(most // LANES, 1) * LANES, 0, -LANES) if tokens % size == 0)

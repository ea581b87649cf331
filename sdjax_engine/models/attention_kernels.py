"""The attention kernels, and which of them work on this process's devices.

All take queries, keys and values `(n, length, heads, width of a head)`. Scores and softmax are float32 in
each kernel. The result of a row depends on that row only.

The kernels for TPUs, in Pallas, take heads narrower than 128 without padding. Padding the heads to whole
lanes before a kernel would take one pass each over queries, keys, values and result. Without it, the compiler
pads them in registers, which have the width of the lanes anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array

from sdjax_engine.errors import first_line
from sdjax_engine.models.attention_choice import (
    ACCELERATOR_SCORES,
    CPU_SCORES,
    FUSED_KERNELS,
    PALLAS_LEAST_QUERIES,
    AttentionForm,
    Backend,
    Kernel,
)
from sdjax_engine.models.cross_attention_inputs import KeyValues

LANES = 128
BLOCK = 512
"""Queries and keys of a block of scores, at most."""
BLOCK_BYTES = 2**20
"""Bytes of a block's queries in all heads, at most."""


def by_flash(queries: Array, keys_values: KeyValues, *, causal: bool) -> Array:
    """JAX's flash attention (Dao et al. 2022), for whole blocks of 128 queries and keys.

    With lengths, queries and keys are the same tokens; those beyond a row's length attend to each other.
    """
    check_not_causal(causal)
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
    segments = None
    if keys_values.lengths is not None:
        beyond = jnp.arange(k.shape[2], dtype=jnp.int32) >= keys_values.lengths[:, None]
        segments = library.SegmentIds(*(beyond.astype(jnp.int32),) * 2)
    attended: Array = library.flash_attention(
        q, k, v, segment_ids=segments, sm_scale=width**-0.5, block_sizes=blocks
    )
    return attended[..., :width].swapaxes(1, 2)


def by_few_keys(queries: Array, keys_values: KeyValues, *, causal: bool) -> Array:
    """Attention of whole blocks of 128 queries to few keys, such as a prompt's, all keys at once.

    Heads lie side by side as the linear maps leave them, so that nothing is transposed, and the scores of a
    block stay in the core. The weight of a key beyond a row's length is exactly zero.
    """
    check_not_causal(causal)
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


CPU = Backend(platform="cpu")
WIDTHS = {"gpu": (256, 160, 128), "tpu": (512, 128)}
"""Widest heads to try, the widest first: on GPUs Hopper's, SD 1.5's, and that of GPUs before Hopper."""
NARROW = {"tpu": (40, 80, 160)}
"""Narrower heads that must work too: on TPUs SD 1.5's, which do not fill the lanes."""
TOKENS = {"gpu": 256, "tpu": PALLAS_LEAST_QUERIES}
PROMPT, LONGEST, LENGTHS = 77, 231, (231, 77)
"""Tokens in trials: of a picture, a prompt, a prompt of three chunks; how many of these count in each row."""
TOLERANCE = 2e-2


class Trial(NamedTuple):
    """The smallest attention that shows whether a kernel works for a form and a width of heads."""

    queries: Array
    keys_values: KeyValues
    causal: bool = False

    @property
    def defined(self) -> npt.NDArray[np.bool_]:
        """Which queries have a result, (n or 1, queries, 1, 1): if joint, those within their row's length."""
        keys, _, lengths = self.keys_values
        places = np.arange(self.queries.shape[1])[None, :, None, None]
        joint = lengths is not None and keys.shape[1] == self.queries.shape[1]
        return places < (np.asarray(lengths)[:, None, None, None] if joint else len(places[0]))


ProblemWith = Callable[[Kernel, Trial], str | None]
"""Takes a kernel and a trial. Returns why the kernel fails, or None if it works."""


@cache
def found_backend() -> Backend:
    """Return JAX's default platform, and the widest head that its fused kernel computes correctly.

    The first call compiles and runs tiny programs if the platform is an accelerator.
    """
    platform = jax.default_backend()
    if platform == "cpu":
        return CPU
    with ThreadPoolExecutor(1) as apart:  # a traced function may be the caller; another thread is not traced
        return apart.submit(try_kernels, platform).result()


def try_kernels(platform: str) -> Backend:
    """Return the platform with the widest head that its fused kernels take, for each form."""
    return tried(platform, kernel_problem)


def tried(platform: str, problem_with: ProblemWith) -> Backend:
    """Return the platform with the results of `problem_with`, which tries the kernel of each form."""
    fused = FUSED_KERNELS.get(platform, {})
    with ThreadPoolExecutor(max(len(fused), 1)) as pool:  # compiling takes seconds
        found = pool.map(lambda form: widest_head(platform, form, problem_with), fused)
        of_forms = dict(zip(fused, found, strict=True))
    return Backend(
        platform=platform,
        widest={form: width for form, width in of_forms.items() if isinstance(width, int)},
        refused={form: problem for form, problem in of_forms.items() if isinstance(problem, str)},
    )


def widest_head(platform: str, form: AttentionForm, problem_with: ProblemWith) -> int | str:
    """Return the widest head that a form's kernel takes, or why it takes none."""
    kernel = FUSED_KERNELS[platform][form]
    problems = []
    for width in WIDTHS[platform]:
        narrow = [each for each in NARROW.get(platform, ()) if each < width]
        trials = (trial(platform, form, each) for each in (width, *narrow))
        problem = next(filter(None, (problem_with(kernel, each) for each in trials)), None)
        if problem is None:
            return width
        problems.append(problem)
    return problems[-1]


def trial(platform: str, form: AttentionForm, width: int) -> Trial:
    """Return noise in the shapes of a form, with enough queries for the platform's fused kernel."""
    picture, prompt, long = (noise(2, length, 4, width) for length in (TOKENS[platform], PROMPT, LONGEST))
    match form:
        case AttentionForm.PICTURES:
            return Trial(picture, KeyValues(picture, picture))
        case AttentionForm.PROMPTS:
            return Trial(picture, KeyValues(prompt, prompt))
        case AttentionForm.PROMPTS_WITH_LENGTHS:
            return Trial(picture, KeyValues(long, long, jnp.asarray(LENGTHS, jnp.int32)))
        case AttentionForm.JOINT_WITH_LENGTHS:
            lengths = jnp.asarray([TOKENS[platform], TOKENS[platform] - LONGEST], jnp.int32)
            return Trial(picture, KeyValues(picture, picture, lengths))
        case AttentionForm.TEXTS:
            return Trial(prompt, KeyValues(prompt, prompt), causal=True)


def kernel_problem(kernel: Kernel, inputs: Trial) -> str | None:
    """Return one line that says why this kernel fails, or None if its result equals XLA's."""

    def compute(kernel: Kernel) -> np.ndarray:
        attend = jax.jit(KERNELS[kernel], static_argnames="causal")
        attended = attend(inputs.queries, inputs.keys_values, causal=inputs.causal)
        return np.where(inputs.defined, np.asarray(attended, np.float32), 0)

    try:
        error = float(np.abs(compute(kernel) - compute(Kernel.XLA)).max())
    except Exception as refusal:  # noqa: BLE001 - whatever a kernel dies of, there is another one
        return first_line(refusal)
    return None if error <= TOLERANCE else f"its results are off by {error:.1e}"


def noise(*shape: int) -> Array:
    """Standard noise in bfloat16 from a fixed seed."""
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape), jnp.bfloat16)

"""Every attention kernel gives the same result for every shape, each row independent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from jax.experimental.pallas import tpu as pltpu
from jaxprs import equations

from sdjax_engine.models import attention_kernels
from sdjax_engine.models.attention_backend import problem_of, try_kernels
from sdjax_engine.models.attention_choice import Kernel, Use
from sdjax_engine.models.attention_kernels import KERNELS, in_parts
from sdjax_engine.models.cross_attention_inputs import KeyValues

Array = npt.NDArray[Any]
ROWS, HEADS, WIDTH = 3, 2, 8
LENGTHS = np.array([5, 1, 21], np.int32)
IN_PARTS = [Kernel.BY_HEAD_IN_PARTS, Kernel.XLA_IN_PARTS]


@pytest.fixture(autouse=True)
def few_scores_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_kernels, "CPU_SCORES", 200)
    monkeypatch.setattr(attention_kernels, "ACCELERATOR_SCORES", 1200)


def given(seed: int, *, queries: int = 50, keys: int = 21, width: int = WIDTH) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    shapes = ((ROWS, length, HEADS, width) for length in (queries, keys, keys))
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return q, k, v


Attended = Callable[..., Array]


def attending(kernel: Kernel, *, causal: bool = False) -> Attended:
    compute = jax.jit(partial(KERNELS[kernel], causal=causal))

    def attended(given: tuple[Array, ...], lengths: Array | None = None) -> Array:
        q, k, v = map(jnp.asarray, given)
        return np.asarray(compute(q, KeyValues(k, v, None if lengths is None else jnp.asarray(lengths))))

    return attended


def in_float64(given: tuple[Array, ...], lengths: Array | None, *, causal: bool = False) -> Array:
    q, k, v = (each.astype(np.float64) for each in given)
    scores = np.einsum("nthd,nshd->nhts", q, k) / np.sqrt(q.shape[-1])
    keys = np.arange(k.shape[1])
    allowed = np.ones(scores.shape, bool)
    if lengths is not None:
        allowed &= keys < lengths[:, None, None, None]
    if causal:
        allowed &= keys <= np.arange(q.shape[1])[:, None]
    weights = np.where(allowed, np.exp(scores), 0)
    return np.einsum("nhts,nshd->nthd", weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("kernel", [Kernel.XLA, Kernel.BY_HEAD, *IN_PARTS])
def test_each_kernel_computes_attention(kernel: Kernel, lengths: Array | None) -> None:
    ours = attending(kernel)(given(0), lengths)
    np.testing.assert_allclose(ours, in_float64(given(0), lengths), atol=1e-6)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("kernel", [Kernel.XLA, Kernel.BY_HEAD])
def test_a_causal_query_attends_to_no_later_key(kernel: Kernel, lengths: Array | None) -> None:
    inputs = given(0, queries=21)
    ours = attending(kernel, causal=True)(inputs, lengths)
    np.testing.assert_allclose(ours, in_float64(inputs, lengths, causal=True), atol=1e-6)


@pytest.mark.parametrize("kernel", [Kernel.XLA, Kernel.BY_HEAD, *IN_PARTS])
def test_each_kernel_keeps_the_dtype_of_its_network(kernel: Kernel) -> None:
    q, k, v = (jax.ShapeDtypeStruct(each.shape, jnp.bfloat16) for each in given(0))
    attended = jax.eval_shape(partial(KERNELS[kernel], causal=False), q, KeyValues(k, v))
    assert (attended.dtype, attended.shape) == (jnp.bfloat16, q.shape)


@pytest.mark.parametrize("kernel", IN_PARTS)
def test_rows_have_the_same_bits_beside_any_rows_in_any_place(kernel: Kernel) -> None:
    ours, strangers = given(0), given(1)
    attended = attending(kernel)
    alone = attended(ours, LENGTHS)[0]
    for place in range(ROWS):
        mixed = [stranger.copy() for stranger in strangers]
        for own, mix in zip(ours, mixed, strict=True):
            mix[place] = own[0]
        lengths = np.roll(LENGTHS, 1)
        lengths[place] = LENGTHS[0]
        np.testing.assert_array_equal(attended(tuple(mixed), lengths)[place], alone)


@pytest.mark.parametrize("kernel", IN_PARTS)
def test_the_scores_in_memory_are_bounded_by_one_part(kernel: Kernel) -> None:
    q, k, v = map(jnp.asarray, given(0, keys=20))
    jaxpr = jax.make_jaxpr(partial(KERNELS[kernel], causal=False))(q, KeyValues(k, v))
    limit = {Kernel.BY_HEAD_IN_PARTS: 200, Kernel.XLA_IN_PARTS: 1200}[kernel]
    scores = [
        variable.aval.size
        for equation in equations(jaxpr.jaxpr)
        for variable in equation.outvars
        if variable.aval.shape[-1:] == (20,)
    ]
    assert limit / 2 < max(scores) <= limit


@pytest.mark.parametrize("size", [1, 3, 7, 8])
def test_parts_have_at_most_the_given_size_and_cover_all_tokens(size: int) -> None:
    largest = 0

    def double(part: jax.Array) -> jax.Array:
        nonlocal largest
        largest = max(largest, len(part))
        return 2 * part

    tokens = jnp.arange(14.0).reshape(7, 2)
    np.testing.assert_array_equal(in_parts(double, tokens, size=size), 2 * tokens)
    assert 1 <= largest <= size


def test_the_kernel_for_tpus_computes_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_kernels, "FLASH_BLOCK", 128)  # so that there are several, as of long ones
    inputs = tuple(each[:1] for each in given(0, queries=256, keys=256, width=40))
    with pltpu.force_tpu_interpret_mode():
        ours = attending(Kernel.FLASH)(inputs)
    np.testing.assert_allclose(ours, in_float64(inputs, None), atol=2e-6)


@pytest.mark.parametrize(("tokens", "width"), [(1024, 80), (4096, 40), (9216, 40), (16384, 512)])
def test_the_kernel_for_tpus_is_lowered_for_true_shapes(tokens: int, width: int) -> None:
    like = jax.ShapeDtypeStruct((1, tokens, 1, width), jnp.bfloat16)
    traced = jax.jit(partial(KERNELS[Kernel.FLASH], causal=False)).trace(like, KeyValues(like, like))
    assert "tpu_custom_call" in traced.lower(lowering_platforms=("tpu",)).as_text()


def test_a_kernel_that_does_not_work_here_is_detected() -> None:
    """There is no cuDNN on the CPU, where these tests run."""
    backend = try_kernels("gpu")
    assert backend.widest == {}
    assert backend.problem is not None
    assert backend.problem.startswith("cuDNN does not work here: ")


def test_a_use_that_a_kernel_refuses_leaves_the_other_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_causal_heads_over_128(queries: jax.Array, keys_values: KeyValues, *, causal: bool) -> jax.Array:
        if causal and (queries.shape[1] % 64 or queries.shape[-1] > 128):
            raise NotImplementedError("77 queries are no whole block.")
        return KERNELS[Kernel.XLA](queries, keys_values, causal=causal)

    kernels = {**KERNELS, Kernel.CUDNN: no_causal_heads_over_128}
    monkeypatch.setattr("sdjax_engine.models.attention_backend.KERNELS", kernels)

    backend = try_kernels("gpu")

    assert backend.widest == {Use.PICTURES: 256, Use.PROMPTS: 256}
    assert backend.problem == "cuDNN does not work here for texts: 77 queries are no whole block."


def test_a_kernel_with_wrong_results_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = map(jnp.asarray, given(0))
    assert problem_of(Kernel.BY_HEAD, q, KeyValues(k, v)) is None
    wrong = {**KERNELS, Kernel.BY_HEAD: lambda queries, _keys_values, **_how: queries}
    monkeypatch.setattr("sdjax_engine.models.attention_backend.KERNELS", wrong)
    assert problem_of(Kernel.BY_HEAD, q, KeyValues(k, v)) is not None

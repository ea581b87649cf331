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
from sdjax_engine.models.attention_choice import FUSED_KERNELS, AttentionForm, Kernel
from sdjax_engine.models.attention_kernels import KERNELS, Trial, in_parts, kernel_problem, tried, try_kernels
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


@pytest.mark.parametrize(
    ("kernel", "keys", "lengths"),
    [
        (Kernel.FLASH, 256, None),
        (Kernel.FLASH, 256, np.array([256, 97, 1], np.int32)),
        (Kernel.FEW_KEYS, 77, None),
        (Kernel.FEW_KEYS, 130, np.array([129, 3], np.int32)),
    ],
)
def test_each_kernel_for_tpus_computes_attention(
    kernel: Kernel, keys: int, lengths: Array | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_kernels, "BLOCK", 128)  # several blocks, as for long inputs
    rows = 1 if lengths is None else len(lengths)
    inputs = tuple(each[:rows] for each in given(0, queries=256, keys=keys, width=40))
    with pltpu.force_tpu_interpret_mode():
        ours = attending(kernel)(inputs, lengths)
    q, k, v = map(jnp.asarray, inputs)
    defined = Trial(q, KeyValues(k, v, lengths)).defined
    assert np.isfinite(ours).all()
    np.testing.assert_allclose(
        *(np.where(defined, each, 0) for each in (ours, in_float64(inputs, lengths))), atol=2e-6
    )


def test_keys_beyond_a_rows_length_and_other_rows_change_no_bit_on_tpus() -> None:
    ours, others = (given(seed, queries=128, keys=231) for seed in (0, 1))
    for own, other in zip(ours, others, strict=True):
        other[0] = own[0]
    for other in others[1:]:
        other[0, 77:] *= 1e30
    with pltpu.force_tpu_interpret_mode():
        attended = attending(Kernel.FEW_KEYS)
        first = attended(ours, np.array([77, 1, 231], np.int32))[0]
        np.testing.assert_array_equal(attended(others, np.array([77, 231, 5], np.int32))[0], first)


@pytest.mark.parametrize(
    ("kernel", "queries", "keys", "width"),
    [
        (Kernel.FLASH, 1024, 1024, 80),
        (Kernel.FLASH, 4096, 4096, 40),
        (Kernel.FLASH, 9216, 9216, 40),
        (Kernel.FLASH, 16384, 16384, 512),
        (Kernel.FLASH, 4608, 4608, 128),
        (Kernel.FEW_KEYS, 4096, 77, 40),
        (Kernel.FEW_KEYS, 1024, 231, 160),
        (Kernel.FEW_KEYS, 16384, 616, 512),
    ],
)
def test_the_kernels_for_tpus_are_lowered_for_true_shapes(
    kernel: Kernel, queries: int, keys: int, width: int
) -> None:
    q, k = (jax.ShapeDtypeStruct((1, length, 1, width), jnp.bfloat16) for length in (queries, keys))
    lengths = jax.ShapeDtypeStruct((1,), jnp.int32) if keys in {231, 4608} else None
    traced = jax.jit(partial(KERNELS[kernel], causal=False)).trace(q, KeyValues(k, k, lengths))
    assert "tpu_custom_call" in traced.lower(lowering_platforms=("tpu",)).as_text()


def test_a_kernel_that_does_not_work_here_is_detected() -> None:
    """There is no cuDNN on the CPU, where these tests run."""
    backend = try_kernels("gpu")
    assert backend.widest == {}
    assert backend.refused.keys() == set(AttentionForm)


def is_of_form(form: AttentionForm, given: Trial) -> bool:
    keys, _, lengths = given.keys_values
    return (given.causal, lengths is not None, keys.shape[1] == given.queries.shape[1]) == {
        AttentionForm.PICTURES: (False, False, True),
        AttentionForm.PROMPTS: (False, False, False),
        AttentionForm.PROMPTS_WITH_LENGTHS: (False, True, False),
        AttentionForm.JOINT_WITH_LENGTHS: (False, True, True),
        AttentionForm.TEXTS: (True, False, True),
    }[form]


@pytest.mark.parametrize(
    ("platform", "form"),
    [(platform, form) for platform in ("gpu", "tpu") for form in FUSED_KERNELS[platform]],
)
def test_a_form_that_a_kernel_refuses_leaves_the_other_forms(platform: str, form: AttentionForm) -> None:
    def problem_with(_: Kernel, given: Trial) -> str | None:
        return "no engine" if is_of_form(form, given) else None

    backend = tried(platform, problem_with)
    assert backend.refused == {form: "no engine"}
    others = FUSED_KERNELS[platform].keys() - {form}
    assert backend.widest == dict.fromkeys(others, {"gpu": 256, "tpu": 512}[platform])


def test_each_form_has_its_own_widest_head() -> None:
    def problem_with(_: Kernel, given: Trial) -> str | None:
        return "too wide" if given.queries.shape[-1] > (128 if given.causal else 160) else None

    backend = tried("gpu", problem_with)
    assert backend.widest == dict.fromkeys(AttentionForm, 160) | {AttentionForm.TEXTS: 128}
    assert backend.refused == {}


def test_a_kernel_for_tpus_that_takes_no_narrow_head_is_left_out() -> None:
    def problem_with(_: Kernel, given: Trial) -> str | None:
        return "in part" if given.queries.shape[-1] % 128 else None

    assert tried("tpu", problem_with).refused == dict.fromkeys(FUSED_KERNELS["tpu"], "in part")


def test_a_kernel_with_wrong_results_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = map(jnp.asarray, given(0))
    trial = Trial(q, KeyValues(k, v))
    assert kernel_problem(Kernel.BY_HEAD, trial) is None
    wrong = {**KERNELS, Kernel.BY_HEAD: lambda queries, _keys_values, **_how: queries}
    monkeypatch.setattr("sdjax_engine.models.attention_kernels.KERNELS", wrong)
    assert kernel_problem(Kernel.BY_HEAD, trial) is not None

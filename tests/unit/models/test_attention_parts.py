"""Attention whose scores a CPU computes in parts is the same attention."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from sdjax_engine.models import attention
from sdjax_engine.models.attention import KeyValues, attend_by_head


def inputs_of(length: int, keys: int, *, seed: int = 0, dtype: Any = np.float32) -> list[npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return [3 * rng.standard_normal((2, each, 2, 8)).astype(dtype) for each in (length, keys, keys)]


def attended(q: Any, k: Any, v: Any) -> npt.NDArray[np.float32]:
    return np.asarray(jax.jit(lambda q, k, v: attend_by_head(q, KeyValues(k, v), causal=False))(q, k, v))


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "MANY_SCORES", 1)


@pytest.mark.parametrize(("length", "keys"), [(1536, 64), (130, 77), (1061, 16)])
def test_parts_of_any_length_make_the_whole(in_parts: None, length: int, keys: int) -> None:
    q, k, v = inputs_of(length, keys)

    scores = np.einsum("nthd,nshd->nhts", q, k, dtype=np.float64) / np.sqrt(8)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("nhts,nshd->nthd", weights / weights.sum(-1, keepdims=True), v)

    np.testing.assert_allclose(attended(q, k, v), expected, atol=2e-6 * np.abs(expected).max())


def test_a_row_in_parts_has_the_same_bits_in_any_company(in_parts: None) -> None:
    ours, strangers = inputs_of(1024, 1024), inputs_of(1024, 1024, seed=1)
    mixed = [np.stack([other[0], own[1]]) for own, other in zip(ours, strangers, strict=True)]

    np.testing.assert_array_equal(attended(*mixed)[1], attended(*ours)[1])


def test_a_part_keeps_the_dtype_of_its_network(in_parts: None) -> None:
    assert attended(*inputs_of(64, 64, dtype=jnp.bfloat16)).dtype == jnp.bfloat16

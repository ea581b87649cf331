"""The arithmetic of weights, against a transcription of its formula in numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from sdjax_engine.prompts.weighting import apply_weights

Array = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def hidden() -> Array:
    return np.random.default_rng(0).normal(0.1, 1.0, (3, 77, 48)).astype(np.float32)


def written_out(hidden: Array, weights: Array) -> Array:
    """The formula chunk by chunk, token by token, in float64."""
    chunks = []
    for chunk, weights_of_chunk in zip(hidden.astype(np.float64), weights, strict=True):
        weighted = np.array([weight * token for token, weight in zip(chunk, weights_of_chunk, strict=True)])
        chunks.append(weighted * (chunk.mean() / weighted.mean()))
    return np.array(chunks, np.float32)


def test_weights_multiply_and_each_chunk_keeps_its_mean(hidden: Array) -> None:
    weights = np.random.default_rng(1).choice([0.5, 1.0, 1.3], (3, 77)).astype(np.float32)
    weights[2, weights[2] == 1.0] = 0.9

    applied = np.asarray(apply_weights(jnp.asarray(hidden), jnp.asarray(weights)))

    assert np.abs(applied - written_out(hidden, weights)).max() < 1e-5 * np.abs(hidden).max()
    assert applied.mean(axis=(1, 2)) == pytest.approx(hidden.mean(axis=(1, 2)), rel=1e-3)


def test_a_chunk_without_emphasis_is_left_to_the_bit_beside_one_that_has_some(hidden: Array) -> None:
    weights = np.ones((3, 77), np.float32)
    weights[1, 4] = 1.5

    applied = np.asarray(jax.jit(apply_weights)(hidden, weights))

    assert (applied[[0, 2]] == hidden[[0, 2]]).all()
    assert (applied[1] != hidden[1]).any()


def test_a_chunk_without_emphasis_is_left_whatever_its_mean_is(hidden: Array) -> None:
    """The mean of the largest numbers is infinite, and infinity divided by itself is no number."""
    hidden, weights = hidden.copy(), np.ones((3, 77), np.float32)
    hidden[0] = np.finfo(np.float32).max
    weights[1] = 1.5

    applied = np.asarray(apply_weights(jnp.asarray(hidden), jnp.asarray(weights)))

    assert (applied[0] == hidden[0]).all()


def test_leading_axes_are_rows_of_their_own(hidden: Array) -> None:
    weights = np.full((3, 77), 1.2, np.float32)
    weights[:, 40:] = 0.8

    stacked = apply_weights(jnp.asarray(hidden)[None], jnp.asarray(weights)[None])

    assert stacked[0] == pytest.approx(np.asarray(apply_weights(jnp.asarray(hidden), jnp.asarray(weights))))


def test_a_mean_of_zero_is_not_restored() -> None:
    hidden = jnp.tile(jnp.array([1.0, -1.0], jnp.float32), (1, 77, 24))

    applied = apply_weights(hidden, jnp.full((1, 77), 1.5, jnp.float32))

    assert (np.asarray(applied) == 1.5 * np.asarray(hidden)).all()


def test_no_weight_gives_nan(hidden: Array) -> None:
    for weight in (0.0, -1.0, 10.0, -10.0):
        applied = apply_weights(jnp.asarray(hidden), jnp.full((3, 77), weight, jnp.float32))

        assert bool(jnp.isfinite(applied).all())

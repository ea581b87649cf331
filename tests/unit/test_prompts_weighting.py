"""The arithmetic of weights, against a transcription of its formula in numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from sdjax_engine.families.stable_diffusion.text import apply_weights

Array = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def hidden() -> Array:
    return np.random.default_rng(0).normal(0.1, 1.0, (3, 77, 48)).astype(np.float32)


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


def test_no_weight_gives_nan(hidden: Array) -> None:
    for weight in (0.0, -1.0, 10.0, -10.0):
        applied = apply_weights(jnp.asarray(hidden), jnp.full((3, 77), weight, jnp.float32))

        assert bool(jnp.isfinite(applied).all())

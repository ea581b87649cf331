"""Noise depends on the seed only, not on settings of the process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import application

from sdjax_engine.denoising.noise import fresh_noise, initial_noise, varied_noise

SHAPE = (6, 4, 4)
SETTINGS = {
    "jax_default_prng_impl": "rbg",
    "jax_threefry_partitionable": False,
    "jax_random_seed_offset": 7,
}
SEED = np.uint32(2**32 - 5)


def first(seed: jax.Array) -> jax.Array:
    return initial_noise(seed, SHAPE)


def further(seed: jax.Array) -> jax.Array:
    return jax.vmap(lambda one: fresh_noise(one, jnp.int32(3), SHAPE))(seed[None])[0]


@pytest.mark.parametrize("draw", [first, further])
@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_the_process_change_no_noise(
    setting: str, draw: Callable[[jax.Array], jax.Array]
) -> None:
    expected = jax.jit(draw)(SEED)
    with application(**{setting: SETTINGS[setting]}):
        drawn = jax.jit(partial(draw))(SEED)  # a new function, so that it is traced again
    np.testing.assert_array_equal(drawn, expected)


def test_noise_of_a_seed_is_that_of_its_key_where_nothing_is_set() -> None:
    height, width, channels = SHAPE
    with application(
        jax_default_prng_impl="threefry2x32", jax_threefry_partitionable=True, jax_random_seed_offset=0
    ):
        reference = jax.random.normal(jax.random.PRNGKey(SEED), (1, channels, height, width), jnp.float32)
    np.testing.assert_array_equal(first(jnp.asarray(SEED)), reference[0].transpose(1, 2, 0))


def varied(seed: int, *variations: tuple[int, float]) -> jax.Array:
    seeds, strengths = zip(*variations, strict=True)
    own = initial_noise(jnp.uint32(seed), (32, 32, 4))
    return jax.jit(varied_noise)(own, jnp.array(seeds, jnp.uint32), jnp.array(strengths, jnp.float32))


def test_a_variation_leads_from_the_noise_of_one_seed_to_that_of_another() -> None:
    own, other = (np.asarray(initial_noise(jnp.uint32(seed), (32, 32, 4))) for seed in (3, 4))
    assert np.array_equal(varied(3, (4, 0.0)), own)
    np.testing.assert_allclose(varied(3, (4, 1.0)), other, atol=1e-5)
    near, halfway = np.asarray(varied(3, (4, 0.15))), np.asarray(varied(3, (4, 0.5)))
    assert 0 < np.abs(near - own).mean() < np.abs(halfway - own).mean() < np.abs(other - own).mean()


def test_varied_noise_is_standard_noise_however_often_it_is_varied() -> None:
    noise = np.asarray(varied(3, (4, 0.15), (5, 0.5), (6, 0.9), (7, 0.15)))
    assert abs(noise.mean()) < 0.05
    assert abs(noise.std() - 1) < 0.05

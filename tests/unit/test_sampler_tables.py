"""Invariants of a sampler's table, and of the update that runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from schedules import FLOW, ON_NOISE, SD, config_for

from sdjax_engine.denoising import estimates as of_previews
from sdjax_engine.denoising.state import StartPicture
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import Sampler
from sdjax_engine.samplers import plan
from sdjax_engine.samplers.step import advance, empty_history, network_input, timestep
from sdjax_engine.samplers.tables import (
    HISTORY,
    Column,
    Table,
)

SHAPE = (3, 4, 2)


def noise(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32))


def states(table: Table, *, network: Any, z0: jax.Array) -> Iterator[tuple[jax.Array, jax.Array]]:
    """Yield the latents and the kept output of one seat after each evaluation."""
    x = z0[None] * table.init_noise_sigma
    r, history = jnp.zeros_like(x), empty_history(x)
    for index, numbers in enumerate(table.rows):
        row = jnp.asarray(numbers)[None]
        m = network(network_input(x, row), timestep(row))
        x, r, history = advance(x, r, history, m, noise(index, *x.shape), row)
        yield x, history


def estimates(table: Table, *, network: Any, z0: jax.Array) -> Iterator[jax.Array]:
    """Yield the preview's estimate of one seat after each evaluation."""
    every = states(table, network=network, z0=z0)
    for weights, (x, history) in zip(table.estimates, every, strict=True):
        yield of_previews.estimate(x, history, no_start(x), jnp.asarray(weights)[None])[0]


def no_start(x: jax.Array) -> StartPicture:
    return StartPicture(latents=jnp.zeros_like(x), mask=jnp.ones((*x.shape[:3], 1)), channels=x[..., :0])


V_PREDICTION, UNIPC_CLASS = {"prediction_type": "v_prediction"}, {"_class_name": "UniPCMultistepScheduler"}


@pytest.mark.parametrize(
    ("sampler", "config", "tolerance"),
    [
        *((sampler, SD, 2e-2) for sampler in ON_NOISE if sampler is not Sampler.TCD),
        *((Sampler.FLOW_EULER, {**FLOW, "stochastic_sampling": drawn}, 1e-4) for drawn in (False, True)),
        # These methods keep another output than the picture: the estimate is made of what they keep.
        *(
            (Sampler.UNIPC, {**SD, **UNIPC_CLASS, **kept}, 5e-2)
            for kept in ({"predict_x0": False}, V_PREDICTION)
        ),
        *((Sampler.PNDM, {**SD, **kept}, 5e-2) for kept in ({}, V_PREDICTION)),
    ],
)
def test_the_estimate_after_each_evaluation_is_the_predicted_picture(
    sampler: Sampler, config: dict[str, Any], tolerance: float
) -> None:
    picture = noise(1, *SHAPE)
    alpha_bar = np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2)

    def network(x: jax.Array, t: jax.Array) -> jax.Array:
        if sampler is Sampler.FLOW_EULER:
            return (x - picture) / (float(t[0]) / 1000)
        a = float(np.interp(float(t[0]), np.arange(1000), alpha_bar))
        eps = (x - a**0.5 * picture) / (1 - a) ** 0.5
        return a**0.5 * eps - (1 - a) ** 0.5 * picture if "prediction_type" in config else eps

    for estimate in estimates(plan(sampler, 12, config), network=network, z0=noise(2, *SHAPE)):
        np.testing.assert_allclose(estimate, picture, atol=tolerance)


@pytest.mark.parametrize("sampler", Sampler)
def test_a_seat_s_result_has_the_same_bits_in_any_seat_and_any_company(sampler: Sampler) -> None:
    tables = [plan(name, 4, config_for(name)).padded(7) for name in (sampler, *Sampler)]
    rows = jnp.asarray(np.stack(tables)[:, 1])
    seats = len(tables)
    x, m, z, r = (jnp.broadcast_to(noise(seed, 1, *SHAPE), (seats, *SHAPE)) for seed in range(4))
    history = jnp.broadcast_to(noise(5, 1, HISTORY, *SHAPE), (seats, HISTORY, *SHAPE))
    step = jax.jit(advance)
    together = step(x, r, history, m, z, rows)
    turned = step(x, r, history, m, z, jnp.roll(rows, 3, axis=0))
    for one, other in zip(together, turned, strict=True):
        np.testing.assert_array_equal(one[0], other[3])


def test_no_value_of_an_earlier_image_reaches_the_next_in_its_seat() -> None:
    """A method does not read history that it has not written, even if it is NaN."""
    for sampler in Sampler:
        table = plan(sampler, 7, config_for(sampler))
        x = noise(1, 1, *SHAPE)
        r, history = jnp.full_like(x, np.nan), jnp.full_like(empty_history(x), np.nan)
        for numbers in table.rows:
            x, r, history = advance(x, r, history, x, x, jnp.asarray(numbers)[None])
            assert jnp.isfinite(x).all(), sampler


def test_a_finished_seat_is_idle_while_others_go_on() -> None:
    table = plan(Sampler.EULER, 3, SD)
    rows = table.padded(5)
    np.testing.assert_array_equal(rows[:3], table.rows)
    x, r, m = noise(1, 1, *SHAPE), noise(2, 1, *SHAPE), jnp.full((1, *SHAPE), jnp.nan)
    x_next, r_next, _ = advance(x, r, empty_history(x), m, m, jnp.asarray(rows[3:4]))
    np.testing.assert_array_equal(x_next, x)
    np.testing.assert_array_equal(r_next, r)


def test_a_table_longer_than_the_lane_s_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="21 rows does not fit in 20"):
        plan(Sampler.PNDM, 20, SD).padded(20)


def test_the_network_s_output_may_be_bfloat16_and_the_arithmetic_stays_float32() -> None:
    x = noise(1, 1, *SHAPE)
    row = jnp.asarray(plan(Sampler.EULER, 3, SD).rows[:1])
    with jax.numpy_dtype_promotion("strict"):
        results = advance(x, x, empty_history(x), x.astype(jnp.bfloat16), x, row)
    assert {result.dtype for result in results} == {jnp.dtype(jnp.float32)}


@pytest.mark.parametrize("steps", [0, -1, 1001])
def test_more_steps_than_timesteps_raise_invalid_request(steps: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(Sampler.DDIM, steps, SD)
    assert caught.value.details == {"value": steps, "limit": 1000}


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_a_strength_out_of_range_raises_invalid_request(strength: float) -> None:
    with pytest.raises(InvalidRequest, match="between 0 and 1"):
        plan(Sampler.DDIM, 20, SD, strength=strength)


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((0.0, 1.0), [0, 1, 2, 3, 4]),
        ((0.2, 0.8), [1, 2, 3]),
        ((0.21, 0.79), [2]),
        ((0.0, 0.1), []),
    ],
)
def test_control_has_its_strength_in_whole_evaluations_of_its_interval(
    interval: tuple[float, float], expected: list[int]
) -> None:
    table = plan(Sampler.DDIM, 5, SD)
    assert not table.rows[:, Column.CONTROL].any()
    controlled = table.controlled(0.7, interval)
    assert np.flatnonzero(controlled.rows[:, Column.CONTROL]).tolist() == expected
    assert set(controlled.rows[expected, Column.CONTROL].tolist()) <= {np.float32(0.7)}
    assert not controlled.padded(9)[5:, Column.CONTROL].any()

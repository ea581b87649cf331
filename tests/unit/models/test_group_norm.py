"""Group norms in 16 bits read their input once for both sums: how near the result is to float64's."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from flax import nnx

from sdjax_engine.models.layers import GroupNorm, Shared

GROUPS, WIDTH, EPS = 4, 24, 1e-5
STEP_OF_BFLOAT16 = 2.0**-8


def by_float64(x: npt.NDArray[np.float64], shift: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64]:
    """The definition: each group's values less their mean, over their standard deviation."""
    x = x if shift is None else x + shift[:, None, None, :]
    grouped = x.reshape(len(x), -1, GROUPS, WIDTH // GROUPS)
    mean, variance = (of(grouped, axis=(1, 3), keepdims=True) for of in (np.mean, np.var))
    return np.asarray(((grouped - mean) / np.sqrt(variance + EPS)).reshape(x.shape))


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("mean", [0.0, 30.0, -100.0])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_result_is_that_of_float64_rounded_once(dtype: str, mean: float, shifted: bool) -> None:
    """Of a mean of 100 standard deviations too: what bfloat16 left of the values is all that counts."""
    rng = np.random.default_rng(0)
    norm = GroupNorm(WIDTH, GROUPS, Shared(dtype=jnp.dtype(dtype)), eps=EPS)
    norm.scale, norm.bias = (nnx.Param(jnp.full(WIDTH, value, norm.dtype)) for value in (1, 0))
    x = jnp.asarray(mean + rng.standard_normal((2, 9, 7, WIDTH)), norm.dtype)
    shift = jnp.asarray(3 * rng.standard_normal((2, WIDTH)), norm.dtype) if shifted else None

    result = np.asarray(norm(x, shift), np.float64)

    expected = by_float64(np.asarray(x, np.float64), None if shift is None else np.asarray(shift, np.float64))
    rounding = STEP_OF_BFLOAT16 if dtype == "bfloat16" else 1e-4
    assert np.abs(result - expected).max() <= rounding * max(np.abs(expected).max(), 1)

"""Group norms in 16 bits read their input once for both sums: how near the result is to float64's."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from flax import nnx

from sdjax_engine.models import layers
from sdjax_engine.models.attention_choice import Backend
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
    """Also for a mean of 100 standard deviations; the rounding of the input to bfloat16 is not counted."""
    rng = np.random.default_rng(0)
    norm = GroupNorm(WIDTH, GROUPS, Shared(dtype=jnp.dtype(dtype)), eps=EPS)
    norm.scale, norm.bias = (nnx.Param(jnp.full(WIDTH, value, norm.dtype)) for value in (1, 0))
    x = jnp.asarray(mean + rng.standard_normal((2, 9, 7, WIDTH)), norm.dtype)
    shift = jnp.asarray(3 * rng.standard_normal((2, WIDTH)), norm.dtype) if shifted else None

    result = np.asarray(norm(x, shift), np.float64)

    expected = by_float64(np.asarray(x, np.float64), None if shift is None else np.asarray(shift, np.float64))
    rounding = STEP_OF_BFLOAT16 if dtype == "bfloat16" else 1e-4
    assert np.abs(result - expected).max() <= rounding * max(np.abs(expected).max(), 1)


@pytest.mark.parametrize("shifted", [False, True])
def test_a_gpu_sums_parts_of_the_pixels_to_the_same_result(
    shifted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 32 × 24 pixels are two parts: four parts would have fewer than 256 pixels each."""
    rng = np.random.default_rng(0)
    norm = GroupNorm(WIDTH, GROUPS, Shared(dtype=jnp.dtype("bfloat16")), eps=EPS)
    norm.scale, norm.bias = (nnx.Param(jnp.full(WIDTH, value, norm.dtype)) for value in (1, 0))
    x = jnp.asarray(5 + rng.standard_normal((2, 32, 24, WIDTH)), norm.dtype)
    shift = jnp.asarray(3 * rng.standard_normal((2, WIDTH)), norm.dtype) if shifted else None
    at_once = np.asarray(norm(x, shift), np.float64)
    monkeypatch.setattr(layers, "found_backend", lambda: Backend(platform="gpu"))

    result = np.asarray(norm(x, shift), np.float64)

    assert layers.sums_of_parts(x)[0].shape == (2, 2, 1, WIDTH)
    expected = by_float64(np.asarray(x, np.float64), None if shift is None else np.asarray(shift, np.float64))
    for each in (result, at_once):
        assert np.abs(each - expected).max() <= STEP_OF_BFLOAT16 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("pixels", "parts"), [(64, 1), (511, 1), (512, 2), (1024, 4), (4096, 16), (9216, 32), (1024**2, 256)]
)
def test_parts_are_large_and_of_one_size(pixels: int, parts: int) -> None:
    assert layers.part_count(pixels) == parts

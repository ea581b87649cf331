"""The GELU of 16 bits is the exact one, rounded once, but for an error of 5e-7."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from sdjax_engine.models.activations import gelu

STEPS = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-22}


@pytest.mark.parametrize("dtype", STEPS)
def test_gelu_is_exact_up_to_the_rounding_of_its_result(dtype: str) -> None:
    """For large negative inputs the result is near zero, and float32's erf leaves an error of 5e-7."""
    x = jnp.linspace(-8, 8, 4001).astype(dtype)

    result = np.asarray(gelu(x), np.float64)

    given = np.asarray(x, np.float64)
    expected = given * 0.5 * np.array([math.erfc(-value / math.sqrt(2)) for value in given])
    assert gelu(x).dtype == jnp.dtype(dtype)
    assert (np.abs(result - expected) <= STEPS[dtype] * np.abs(expected) + 1e-6).all()

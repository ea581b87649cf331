"""The activation functions that checkpoints name."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from sdjax_engine.errors import UnreadableCheckpoint

Activation = Callable[[Array], Array]


def gelu(x: Array) -> Array:
    """Return x·Φ(x), with the normal distribution Φ (Hendrycks and Gimpel 2016).

    For 16 bits erf is computed in float32, as torch does it. JAX's own GELU computes erfc, whose two
    polynomials are three times the work: a GPU is then limited by arithmetic and no longer by its memory.
    """
    if jnp.dtype(x.dtype).itemsize >= jnp.dtype(jnp.float32).itemsize:
        return jax.nn.gelu(x, approximate=False)
    wide = x.astype(jnp.float32)
    return (0.5 * wide * (1 + jax.lax.erf(math.sqrt(0.5) * wide))).astype(x.dtype)


ACTIVATIONS: dict[str, Activation] = {
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
    "mish": jax.nn.mish,
    "relu": jax.nn.relu,
    "gelu": gelu,
    "quick_gelu": lambda x: x * jax.nn.sigmoid(jnp.asarray(1.702, x.dtype) * x),
}


def activation(name: str, *, model: str) -> Activation:
    """Return the activation function of this name; raises UnreadableCheckpoint for unknown names."""
    if name.lower() not in ACTIVATIONS:
        raise UnreadableCheckpoint(f"{model} with the activation function {name!r} is not supported.")
    return ACTIVATIONS[name.lower()]

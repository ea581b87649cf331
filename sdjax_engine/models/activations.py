"""The activation functions that checkpoints name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from sdjax_engine.errors import UnreadableCheckpoint

Activation = Callable[[Array], Array]

ACTIVATIONS: dict[str, Activation] = {
    "silu": jax.nn.silu,
    "swish": jax.nn.silu,
    "mish": jax.nn.mish,
    "relu": jax.nn.relu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "quick_gelu": lambda x: x * jax.nn.sigmoid(jnp.asarray(1.702, x.dtype) * x),
}


def activation(name: str, *, model: str) -> Activation:
    """Return the activation function of this name; raises UnreadableCheckpoint for unknown names."""
    if name.lower() not in ACTIVATIONS:
        raise UnreadableCheckpoint(f"{model} with the activation function {name!r} is not supported.")
    return ACTIVATIONS[name.lower()]

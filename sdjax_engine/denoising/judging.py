"""The functions that JAX traces for a picture classifier: what it is shown, and what it says."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sdjax_engine.models.vit_pixels import ViTPreprocessing, vit_pixels
from sdjax_engine.weights.blueprint import Blueprint, Parameters


def shown(preprocessing: ViTPreprocessing | None, pixels: jax.Array) -> jax.Array:
    """Return what a classifier is shown of uint8 pixels (1, h, w, 3); (1, 0) without a classifier."""
    return jnp.zeros((1, 0)) if preprocessing is None else vit_pixels(pixels, preprocessing)


def classify(blueprint: Blueprint, parameters: Parameters, seen: jax.Array) -> jax.Array:
    """Return the probability of each label, float32 (1, labels), of `seen` (1, h, w, 3)."""
    return jax.nn.softmax(blueprint.module(parameters)(seen), axis=-1)

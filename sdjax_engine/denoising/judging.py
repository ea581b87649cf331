"""The functions that JAX traces to judge pictures: the safety checker, and a picture classifier."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sdjax_engine.models.clip_pixels import Preprocessing, clip_pixels
from sdjax_engine.models.vit_pixels import ViTPreprocessing, vit_pixels
from sdjax_engine.weights.blueprint import Blueprint, Parameters


def safety_scores(
    checker: Blueprint | None,
    preprocessing: Preprocessing | None,
    parameters: Parameters | None,
    pixels: jax.Array,
) -> jax.Array:
    """Return the safety checker's scores (n, concepts) of uint8 pixels (n, h, w, 3); (n, 0) without one."""
    if checker is None or preprocessing is None or parameters is None:
        return jnp.zeros((len(pixels), 0))
    inputs = clip_pixels(pixels.astype(jnp.float32) / 255, preprocessing)
    return jnp.concatenate(checker.module(parameters)(inputs), axis=-1)


def classifier_input(preprocessing: ViTPreprocessing | None, pixels: jax.Array) -> jax.Array:
    """Return the classifier's input for uint8 pixels (n, h, w, 3); (n, 0) without a classifier."""
    return jnp.zeros((len(pixels), 0)) if preprocessing is None else vit_pixels(pixels, preprocessing)


def classify(blueprint: Blueprint, parameters: Parameters, inputs: jax.Array) -> jax.Array:
    """Return the probability of each label, float32 (1, labels), of `inputs` (1, h, w, 3)."""
    return jax.nn.softmax(blueprint.module(parameters)(inputs), axis=-1)

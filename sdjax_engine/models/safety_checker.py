"""A checkpoint's safety checker, the reference's `StableDiffusionSafetyChecker`."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.clip_encoder import CLIPEncoder
from sdjax_engine.models.config import Config
from sdjax_engine.models.layers import LayerNorm, Shared, conv, embedding, linear, parameter
from sdjax_engine.models.safety_checker_config import (
    CONCEPTS,
    SPECIAL_CARE,
    is_found,
    settle_safety_checker_config,
)

ADJUSTMENT = 0.01
SMALLEST_LENGTH = 1e-12


class Scores(NamedTuple):
    """Float32 cosine similarities minus their thresholds: `concepts` (n, 17), `special_care` (n, 3)."""

    concepts: Array
    special_care: Array


class StableDiffusionSafetyChecker(nnx.Module):
    """Scores the similarity of pictures to the concepts of the checkpoint."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_safety_checker_config(config)
        shared = Shared(dtype=dtype)
        width, projected = values["vision_config"]["hidden_size"], values["projection_dim"]
        self.vision_model = CLIPVisionModel(values["vision_config"], shared)
        self.visual_projection = linear(width, projected, shared, bias=False)
        self.concept_embeds = parameter((CONCEPTS, projected), shared)
        self.special_care_embeds = parameter((SPECIAL_CARE, projected), shared)
        self.concept_embeds_weights = parameter((CONCEPTS,), shared)
        self.special_care_embeds_weights = parameter((SPECIAL_CARE,), shared)

    def __call__(self, pixel_values: Array) -> Scores:
        """Score `pixel_values` (n, image_size, image_size, 3), normalised as `clip_pixels` returns them."""
        embeds = self.visual_projection(self.vision_model(pixel_values))
        special = cosines(embeds, self.special_care_embeds) - in_float32(self.special_care_embeds_weights)
        concepts = cosines(embeds, self.concept_embeds) - in_float32(self.concept_embeds_weights)
        return adjusted(Scores(concepts, special))


def adjusted(scores: Scores) -> Scores:
    """Return the scores, raised for all concepts after the first special concept that was found.

    The reference scores the special concepts in their order, and then all others. The reference rounds every
    score to three digits. The scores here are not rounded; the decisions round them.
    """
    special, adjustment = [], jnp.zeros(scores.special_care.shape[:1], jnp.float32)
    for index in range(scores.special_care.shape[1]):
        score = scores.special_care[:, index] + adjustment
        special.append(score)
        adjustment = jnp.where(is_found(score), ADJUSTMENT, adjustment)
    return Scores(concepts=scores.concepts + adjustment[:, None], special_care=jnp.stack(special, axis=-1))


def flagged(scores: Scores) -> Array:
    """Return bool (n,): whether the reference makes the picture black."""
    return is_found(scores.concepts).any(axis=-1)


def cosines(embeds: Array, concepts: nnx.Param[Array]) -> Array:
    """Return the float32 cosine similarity of `embeds` (n, width) and each concept, (n, concepts)."""
    return unit_length(embeds.astype(jnp.float32)) @ unit_length(in_float32(concepts)).T


def in_float32(parameter: nnx.Param[Array]) -> Array:
    return parameter[...].astype(jnp.float32)


def unit_length(x: Array) -> Array:
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), SMALLEST_LENGTH)


class CLIPVisionModel(nnx.Module):
    """CLIP's picture encoder: the normed last state of the class token."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width, eps = values["hidden_size"], values["layer_norm_eps"]
        self.embeddings = CLIPVisionEmbeddings(values, shared)
        self.pre_layrnorm = LayerNorm(width, shared, eps=eps)
        self.encoder = CLIPEncoder(values, shared, causal=False)
        self.post_layernorm = LayerNorm(width, shared, eps=eps)
        self.dtype = shared.dtype

    def __call__(self, pixel_values: Array) -> Array:
        """Return `(n, width)` of `pixel_values` (n, image_size, image_size, 3)."""
        tokens = self.pre_layrnorm(self.embeddings(pixel_values.astype(self.dtype)))
        _, encoded = self.encoder(tokens)
        return self.post_layernorm(encoded[:, 0])


class CLIPVisionEmbeddings(nnx.Module):
    """The embeddings of a class token and of the picture's patches, plus their position embeddings."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width, patch = values["hidden_size"], values["patch_size"]
        positions = (values["image_size"] // patch) ** 2 + 1
        self.class_embedding = parameter((width,), shared)
        self.patch_embedding = conv(3, width, shared, kernel=patch, stride=patch, padding=0, bias=False)
        self.position_embedding = embedding(positions, width, shared)

    def __call__(self, pixel_values: Array) -> Array:
        patches = self.patch_embedding(pixel_values)
        n, _, _, width = patches.shape
        first = jnp.broadcast_to(self.class_embedding[...], (n, 1, width))
        tokens = jnp.concatenate([first, patches.reshape(n, -1, width)], axis=1)
        return tokens + self.position_embedding(jnp.arange(tokens.shape[1], dtype=jnp.int32)[None, :])

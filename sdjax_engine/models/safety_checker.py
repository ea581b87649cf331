"""The checkpoint's own judge of pictures, the reference's `StableDiffusionSafetyChecker`."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.clip_encoder import CLIPEncoder
from sdjax_engine.models.config import Config, check_divisible, refuse, settle
from sdjax_engine.models.layers import LayerNorm, Shared, activation, conv, linear

NAME = "StableDiffusionSafetyChecker"
CONCEPTS, SPECIAL_CARE = 17, 3
ADJUSTMENT = 0.01
DIGITS = 3  # the reference decides on rounded scores
SMALLEST_LENGTH = 1e-12
DEFAULTS: Config = {"projection_dim": 512}
VISION_DEFAULTS: Config = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 32,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
}


def settle_safety_checker_config(config: Config) -> dict[str, Any]:
    """Return the values the network is built from: `projection_dim` and, settled as well, `vision_config`.

    Old files repeat the latter as `vision_config_dict`, which wins. Raises UnreadableCheckpoint for
    values there is no support for.
    """
    supported = {"architectures": (NAME,), "model_type": ("clip",)}
    values = settle(config, model=NAME, defaults=DEFAULTS, supported=supported, strict=False)
    vision = config.get("vision_config_dict") or config.get("vision_config") or {}
    return values | {"vision_config": settle_vision_config(vision)}


def settle_vision_config(config: Config) -> dict[str, Any]:
    supported = {"model_type": ("clip_vision_model",), "num_channels": (3,)}
    values = settle(config, model=NAME, defaults=VISION_DEFAULTS, supported=supported, strict=False)
    sizes = ("image_size", "patch_size")
    refuse(NAME, [f"{key}={values[key]!r}" for key in sizes if type(values[key]) is not int])
    activation(values["hidden_act"], model=NAME)
    check_divisible(
        NAME, widths=(values["hidden_size"],), parts=(values["num_attention_heads"],), what="heads"
    )
    return values


class Scores(NamedTuple):
    """Float32 cosine similarities less their thresholds: `concepts` (n, 17), `special_care` (n, 3)."""

    concepts: Array
    special_care: Array


class StableDiffusionSafetyChecker(nnx.Module):
    """Pictures to how near they are to each of the concepts that the checkpoint was given."""

    def __init__(self, config: Config, *, dtype: DTypeLike, rngs: nnx.Rngs) -> None:
        values = settle_safety_checker_config(config)
        shared = Shared(dtype=dtype, rngs=rngs)
        width, projected = values["vision_config"]["hidden_size"], values["projection_dim"]
        self.vision_model = CLIPVisionModel(values["vision_config"], shared)
        self.visual_projection = linear(width, projected, shared, bias=False)
        self.concept_embeds = nnx.Param(jnp.ones((CONCEPTS, projected), dtype))
        self.special_care_embeds = nnx.Param(jnp.ones((SPECIAL_CARE, projected), dtype))
        self.concept_embeds_weights = nnx.Param(jnp.ones(CONCEPTS, dtype))
        self.special_care_embeds_weights = nnx.Param(jnp.ones(SPECIAL_CARE, dtype))

    def __call__(self, pixel_values: Array) -> Scores:
        """Judge `pixel_values` (n, image_size, image_size, 3), normalised as `clip_pixels` returns them."""
        embeds = self.visual_projection(self.vision_model(pixel_values))
        special = cosines(embeds, self.special_care_embeds) - in_float32(self.special_care_embeds_weights)
        concepts = cosines(embeds, self.concept_embeds) - in_float32(self.concept_embeds_weights)
        return adjusted(Scores(concepts, special))


def adjusted(scores: Scores) -> Scores:
    """Return the scores a little stricter from the first concept on that calls for special care.

    The reference goes through the special concepts in their order, and then through all others. It rounds
    every score to three digits; the scores here are not rounded, only what is decided by them.
    """
    special, adjustment = [], jnp.zeros(scores.special_care.shape[:1], jnp.float32)
    for index in range(scores.special_care.shape[1]):
        score = scores.special_care[:, index] + adjustment
        special.append(score)
        adjustment = jnp.where(is_found(score), ADJUSTMENT, adjustment)
    return Scores(concepts=scores.concepts + adjustment[:, None], special_care=jnp.stack(special, axis=-1))


def is_found(scores: Array) -> Array:
    """Whether each score says that its concept is in the picture, decided as the reference decides."""
    return jnp.round(scores, DIGITS) > 0


def flagged(scores: Scores) -> Array:
    """Return bool (n,): whether the reference would black out the picture."""
    return is_found(scores.concepts).any(axis=-1)


def cosines(embeds: Array, concepts: nnx.Param[Array]) -> Array:
    """Return the float32 cosine similarity of `embeds` (n, width) and each concept, (n, concepts)."""
    return unit_length(embeds.astype(jnp.float32)) @ unit_length(in_float32(concepts)).T


def in_float32(parameter: nnx.Param[Array]) -> Array:
    return parameter[...].astype(jnp.float32)


def unit_length(x: Array) -> Array:
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), SMALLEST_LENGTH)


class CLIPVisionModel(nnx.Module):
    """CLIP's picture encoder: the state of its class token at the end, normed."""

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
    """A picture's patches behind a class token, and where each of them stands."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width, patch = values["hidden_size"], values["patch_size"]
        positions = (values["image_size"] // patch) ** 2 + 1
        self.class_embedding = nnx.Param(jnp.zeros(width, shared.dtype))
        self.patch_embedding = conv(3, width, shared, kernel=patch, stride=patch, padding=0, bias=False)
        self.position_embedding = nnx.Embed(positions, width, **shared.library)

    def __call__(self, pixel_values: Array) -> Array:
        patches = self.patch_embedding(pixel_values)
        n, _, _, width = patches.shape
        first = jnp.broadcast_to(self.class_embedding[...], (n, 1, width))
        tokens = jnp.concatenate([first, patches.reshape(n, -1, width)], axis=1)
        return tokens + self.position_embedding(jnp.arange(tokens.shape[1], dtype=jnp.int32)[None, :])

"""CLIP's networks: the text encoders, and the safety checker over the picture encoder.

They are the reference's `CLIPTextModel`, `CLIPTextModelWithProjection` and `StableDiffusionSafetyChecker`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.activations import Activation, activation
from sdjax_engine.models.attention import attend
from sdjax_engine.models.config import (
    CONCEPTS,
    SPECIAL_CARE,
    UNKNOWN_END,
    Config,
    is_found,
    settle_image_encoder_config,
    settle_projected_text_config,
    settle_safety_checker_config,
    settle_text_config,
)
from sdjax_engine.models.cross_attention_inputs import KeyValues
from sdjax_engine.models.layers import LayerNorm, Shared, conv, embedding, linear, parameter


class CLIPEncoder(nnx.Module):
    """The stack of transformer layers."""

    def __init__(self, values: Config, shared: Shared, *, causal: bool) -> None:
        self.layers = nnx.List(
            CLIPEncoderLayer(values, shared, causal=causal) for _ in range(values["num_hidden_layers"])
        )

    def __call__(self, x: Array, *, skip: Array | None = None) -> tuple[Array, Array]:
        """Return the output of an earlier layer and that of the last, each in the shape of `x`.

        The earlier layer is `skip` () int32 layers before the last; without `skip` it is the one before.
        """
        earlier = x
        for number, layer in enumerate(self.layers, 1):
            before, x = x, layer(x)
            earlier = before if skip is None else jnp.where(number == len(self.layers) - skip, x, earlier)
        return earlier, x


class CLIPEncoderLayer(nnx.Module):
    """Self-attention and a two-layer perceptron, each with a residual."""

    def __init__(self, values: Config, shared: Shared, *, causal: bool) -> None:
        width, eps = values["hidden_size"], values["layer_norm_eps"]
        self.layer_norm1 = LayerNorm(width, shared, eps=eps)
        self.self_attn = CLIPAttention(width, shared, heads=values["num_attention_heads"], causal=causal)
        self.layer_norm2 = LayerNorm(width, shared, eps=eps)
        act = activation(values["hidden_act"], model="CLIP")
        self.mlp = CLIPMLP(width, values["intermediate_size"], act, shared)

    def __call__(self, x: Array) -> Array:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class CLIPAttention(nnx.Module):
    """Self-attention; if causal, a token attends to itself and to earlier tokens."""

    def __init__(self, width: int, shared: Shared, *, heads: int, causal: bool) -> None:
        self.heads = heads
        self.causal = causal
        self.q_proj = linear(width, width, shared)
        self.k_proj = linear(width, width, shared)
        self.v_proj = linear(width, width, shared)
        self.out_proj = linear(width, width, shared)

    def __call__(self, x: Array) -> Array:
        by_head = (*x.shape[:-1], self.heads, -1)
        queries, keys, values = (proj(x).reshape(by_head) for proj in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(attend(queries, KeyValues(keys, values), causal=self.causal).reshape(x.shape))


class CLIPMLP(nnx.Module):
    """Two linear maps with an activation between them."""

    def __init__(self, width: int, inner: int, act: Activation, shared: Shared) -> None:
        self.fc1 = linear(width, inner, shared)
        self.fc2 = linear(inner, width, shared)
        self.act = act

    def __call__(self, x: Array) -> Array:
        return self.fc2(self.act(self.fc1(x)))


class TextEncoding(NamedTuple):
    """The encoding of a prompt, the UNet's conditioning.

    `hidden`, (n, length, width), is what the UNet attends to. `pooled` is one vector per prompt, (n, width)
    or, after a projection, (n, projection_dim).
    """

    hidden: Array
    pooled: Array


class CLIPTextTransformer(nnx.Module):
    """Encodes token ids; the body of both text encoders."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width = values["hidden_size"]
        self.embeddings = CLIPTextEmbeddings(
            width, shared, words=values["vocab_size"], positions=values["max_position_embeddings"]
        )
        self.encoder = CLIPEncoder(values, shared, causal=True)
        self.final_layer_norm = LayerNorm(width, shared, eps=values["layer_norm_eps"])
        self.end = values["eos_token_id"]
        self.words = values["vocab_size"]

    def __call__(
        self,
        input_ids: Array,
        *,
        penultimate: bool = False,
        skip: Array | None = None,
        vectors: Array | None = None,
    ) -> TextEncoding:
        """Encode `input_ids` (n, length) int32; those beyond the vocabulary are rows of `vectors` (n, width).

        `hidden` is the normed last state or, with `penultimate`, the input of the last layer, not normed.
        With `skip` () int32 it is the state so many layers before that. `pooled` is the normed last state at
        the end token of the prompt, whatever is skipped.
        """
        skipped = skip + 1 if penultimate and skip is not None else skip
        earlier, last = self.encoder(self.embeddings(input_ids, vectors), skip=skipped)
        normed = self.final_layer_norm(last)
        words = input_ids if vectors is None else jnp.where(input_ids < self.words, input_ids, 0)
        pooled = normed[jnp.arange(len(input_ids)), end_positions(words, self.end)]
        if penultimate:
            return TextEncoding(hidden=earlier, pooled=pooled)
        return TextEncoding(hidden=normed if skip is None else self.final_layer_norm(earlier), pooled=pooled)


class CLIPTextModel(CLIPTextTransformer):
    """The text encoder of SD 1.x and 2.x, and the first of SDXL."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        super().__init__(settle_text_config(config), Shared(dtype=dtype))


class CLIPTextModelWithProjection(nnx.Module):
    """The second text encoder of SDXL, with a linear map of its pooled encoding."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_projected_text_config(config)
        shared = Shared(dtype=dtype)
        self.text_model = CLIPTextTransformer(values, shared)
        self.text_projection = linear(values["hidden_size"], values["projection_dim"], shared, bias=False)

    def __call__(
        self,
        input_ids: Array,
        *,
        penultimate: bool = False,
        skip: Array | None = None,
        vectors: Array | None = None,
    ) -> TextEncoding:
        """Encode `input_ids` (n, length) int32 as `CLIPTextTransformer` does; `pooled` is projected."""
        hidden, pooled = self.text_model(input_ids, penultimate=penultimate, skip=skip, vectors=vectors)
        return TextEncoding(hidden=hidden, pooled=self.text_projection(pooled))


def end_positions(input_ids: Array, end: int) -> Array:
    """Return the position of each prompt's end token, (n,): the first `end`.

    Old configurations give the wrong end id 2. For them the end token is the largest id of the prompt, as in
    the reference.
    """
    return jnp.argmax(input_ids if end == UNKNOWN_END else (input_ids == end).astype(jnp.int32), axis=-1)


class CLIPTextEmbeddings(nnx.Module):
    """The sum of the token embedding and the position embedding."""

    def __init__(self, width: int, shared: Shared, *, words: int, positions: int) -> None:
        self.token_embedding = embedding(words, width, shared)
        self.position_embedding = embedding(positions, width, shared)
        self.words = words

    def __call__(self, input_ids: Array, vectors: Array | None = None) -> Array:
        positions = jnp.arange(input_ids.shape[-1], dtype=jnp.int32)[None, :]
        if vectors is None:
            tokens = self.token_embedding(input_ids)
        else:
            of_words = self.token_embedding(jnp.minimum(input_ids, self.words - 1))
            others = vectors[jnp.maximum(input_ids - self.words, 0)].astype(of_words.dtype)
            tokens = jnp.where((input_ids < self.words)[..., None], of_words, others)
        return tokens + self.position_embedding(positions)


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
        return self.encode(pixel_values)[1]

    def encode(self, pixel_values: Array) -> tuple[Array, Array]:
        """Return the input of the last layer (n, tokens, width), and the normed last state (n, width)."""
        tokens = self.pre_layrnorm(self.embeddings(pixel_values.astype(self.dtype)))
        before, encoded = self.encoder(tokens)
        return before, self.post_layernorm(encoded[:, 0])


class ImageEncoding(NamedTuple):
    """The encoding of a picture: all tokens before the last layer (n, tokens, width), and `embeds`."""

    hidden: Array
    embeds: Array


class CLIPVisionModelWithProjection(nnx.Module):
    """The picture encoder of image prompts."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_image_encoder_config(config)
        shared = Shared(dtype=dtype)
        self.vision_model = CLIPVisionModel(values, shared)
        self.visual_projection = linear(values["hidden_size"], values["projection_dim"], shared, bias=False)

    def __call__(self, pixel_values: Array) -> ImageEncoding:
        """Encode `pixel_values` (n, image_size, image_size, 3), normalised as `clip_pixels` returns them."""
        hidden, pooled = self.vision_model.encode(pixel_values)
        return ImageEncoding(hidden, self.visual_projection(pooled))


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

"""A picture classifier, the reference's `ViTForImageClassification` (Dosovitskiy et al. 2021)."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.activations import activation
from sdjax_engine.models.attention import attend
from sdjax_engine.models.config import CLASSIFIER, LABELS, Config, settle_vit_config
from sdjax_engine.models.cross_attention_inputs import KeyValues
from sdjax_engine.models.layers import LayerNorm, Shared, conv, linear, parameter


class ViTForImageClassification(nnx.Module):
    """Maps a picture to one number (a logit) for each label."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_vit_config(config)
        shared = Shared(dtype=dtype)
        self.vit = ViTModel(values, shared)
        self.classifier = linear(values["hidden_size"], len(values[LABELS]), shared)

    def __call__(self, pixel_values: Array) -> Array:
        """Return float32 logits (n, labels) of `pixel_values` (n, image_size, image_size, 3), normalised."""
        return self.classifier(self.vit(pixel_values)).astype(jnp.float32)


class ViTModel(nnx.Module):
    """The encoder: the state of its class token at the end, normed."""

    def __init__(self, values: Config, shared: Shared) -> None:
        self.embeddings = ViTEmbeddings(values, shared)
        self.encoder = ViTEncoder(values, shared)
        self.layernorm = LayerNorm(values["hidden_size"], shared, eps=values["layer_norm_eps"])
        self.dtype = shared.dtype

    def __call__(self, pixel_values: Array) -> Array:
        """Return `(n, width)`."""
        encoded = self.encoder(self.embeddings(pixel_values.astype(self.dtype)))
        return self.layernorm(encoded[:, 0])


class ViTEmbeddings(nnx.Module):
    """The embeddings of a class token and of the picture's patches, plus their position embeddings."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width, patch = values["hidden_size"], values["patch_size"]
        positions = (values["image_size"] // patch) ** 2 + 1
        self.cls_token = parameter((1, 1, width), shared)
        self.position_embeddings = parameter((1, positions, width), shared)
        self.patch_embeddings = ViTPatchEmbeddings(width, patch, shared)

    def __call__(self, pixel_values: Array) -> Array:
        patches = self.patch_embeddings(pixel_values)
        n, _, width = patches.shape
        first = jnp.broadcast_to(self.cls_token[...], (n, 1, width))
        tokens = jnp.concatenate([first, patches], axis=1)
        return tokens + self.position_embeddings[...]


class ViTPatchEmbeddings(nnx.Module):
    """A linear map of each patch."""

    def __init__(self, width: int, patch: int, shared: Shared) -> None:
        self.projection = conv(3, width, shared, kernel=patch, stride=patch, padding=0)

    def __call__(self, pixel_values: Array) -> Array:
        """Return `(n, patches, width)`."""
        patches = self.projection(pixel_values)
        return patches.reshape(patches.shape[0], -1, patches.shape[-1])


class ViTEncoder(nnx.Module):
    """The stack of transformer layers."""

    def __init__(self, values: Config, shared: Shared) -> None:
        self.layer = nnx.List(ViTLayer(values, shared) for _ in range(values["num_hidden_layers"]))

    def __call__(self, x: Array) -> Array:
        for layer in self.layer:
            x = layer(x)
        return x


class ViTLayer(nnx.Module):
    """Self-attention and a two-layer perceptron, each with a residual."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width, inner, eps = values["hidden_size"], values["intermediate_size"], values["layer_norm_eps"]
        self.layernorm_before = LayerNorm(width, shared, eps=eps)
        self.attention = ViTAttention(values, shared)
        self.layernorm_after = LayerNorm(width, shared, eps=eps)
        self.intermediate = Dense(width, inner, shared)
        self.output = Dense(inner, width, shared)
        self.act = activation(values["hidden_act"], model=CLASSIFIER)

    def __call__(self, x: Array) -> Array:
        x = x + self.attention(self.layernorm_before(x))
        return x + self.output(self.act(self.intermediate(self.layernorm_after(x))))


class ViTAttention(nnx.Module):
    """Self-attention and a linear map of its result."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width = values["hidden_size"]
        self.attention = ViTSelfAttention(values, shared)
        self.output = Dense(width, width, shared)

    def __call__(self, x: Array) -> Array:
        return self.output(self.attention(x))


class ViTSelfAttention(nnx.Module):
    """Every token attends to every token."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width, bias = values["hidden_size"], values["qkv_bias"]
        self.heads = values["num_attention_heads"]
        self.query = linear(width, width, shared, bias=bias)
        self.key = linear(width, width, shared, bias=bias)
        self.value = linear(width, width, shared, bias=bias)

    def __call__(self, x: Array) -> Array:
        by_head = (*x.shape[:-1], self.heads, -1)
        queries, keys, values = (each(x).reshape(by_head) for each in (self.query, self.key, self.value))
        return attend(queries, KeyValues(keys, values)).reshape(x.shape)


class Dense(nnx.Module):
    """A linear map, under the name that the reference's files give it."""

    def __init__(self, width_in: int, width_out: int, shared: Shared) -> None:
        self.dense = linear(width_in, width_out, shared)

    def __call__(self, x: Array) -> Array:
        return self.dense(x)

"""The encoder of T5 (Raffel et al. 2020), a text encoder of SD 3.5: the reference's `T5EncoderModel`."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.config import Config
from sdjax_engine.models.layers import RMSNorm, Shared, embedding, linear
from sdjax_engine.models.sd3_config import settle_t5_config


class T5EncoderModel(nnx.Module):
    """Encodes token ids; every token attends to all tokens, padding included."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_t5_config(config)
        shared = Shared(dtype=dtype)
        self.shared = embedding(values["vocab_size"], values["d_model"], shared)
        self.encoder = T5Stack(values, shared)

    def __call__(self, input_ids: Array) -> Array:
        """Return the normed states (n, length, d_model) of `input_ids` (n, length) int32."""
        return self.encoder(self.shared(input_ids))


class T5Stack(nnx.Module):
    """The layers, which all add the first layer's biases of distances to their scores."""

    def __init__(self, values: Config, shared: Shared) -> None:
        self.block = nnx.List(
            T5Block(values, shared, has_biases=number == 0) for number in range(values["num_layers"])
        )
        self.final_layer_norm = RMSNorm(values["d_model"], shared, eps=values["layer_norm_epsilon"])

    def __call__(self, x: Array) -> Array:
        biases = self.block[0].layer[0].SelfAttention.biases(x.shape[1])
        for block in self.block:
            x = block(x, biases)
        return self.final_layer_norm(x)


class T5Block(nnx.Module):
    """Self-attention and a gated perceptron, numbered as in the reference."""

    def __init__(self, values: Config, shared: Shared, *, has_biases: bool) -> None:
        self.layer = nnx.List(
            [T5LayerSelfAttention(values, shared, has_biases=has_biases), T5LayerFF(values, shared)]
        )

    def __call__(self, x: Array, biases: Array) -> Array:
        return self.layer[1](self.layer[0](x, biases))


class T5LayerSelfAttention(nnx.Module):
    """A norm and self-attention, with a residual."""

    def __init__(self, values: Config, shared: Shared, *, has_biases: bool) -> None:
        self.SelfAttention = T5Attention(values, shared, has_biases=has_biases)
        self.layer_norm = RMSNorm(values["d_model"], shared, eps=values["layer_norm_epsilon"])

    def __call__(self, x: Array, biases: Array) -> Array:
        return x + self.SelfAttention(self.layer_norm(x), biases)


class T5Attention(nnx.Module):
    """Self-attention whose scores are not scaled, and have a bias for each head and distance."""

    def __init__(self, values: Config, shared: Shared, *, has_biases: bool) -> None:
        width, heads = values["d_model"], values["num_heads"]
        inner = heads * values["d_kv"]
        self.q = linear(width, inner, shared, bias=False)
        self.k = linear(width, inner, shared, bias=False)
        self.v = linear(width, inner, shared, bias=False)
        self.o = linear(inner, width, shared, bias=False)
        self.buckets = values["relative_attention_num_buckets"]
        self.farthest = values["relative_attention_max_distance"]
        self.relative_attention_bias = embedding(self.buckets, heads, shared) if has_biases else None
        self.heads = heads

    def biases(self, length: int) -> Array:
        """Return the biases (heads, queries, keys) float32 of texts of this length, in the first layer."""
        if self.relative_attention_bias is None:
            raise ValueError("Only the first layer has biases.")
        of_pairs = self.relative_attention_bias(buckets_of_distances(length, self.buckets, self.farthest))
        return of_pairs.astype(jnp.float32).transpose(2, 0, 1)

    def __call__(self, x: Array, biases: Array) -> Array:
        """`x` is `(n, length, d_model)`; its few tokens' scores are all in memory at once."""
        by_head = (*x.shape[:-1], self.heads, -1)
        queries, keys, values = (each(x).reshape(by_head) for each in (self.q, self.k, self.v))
        scores = jnp.einsum("nthd,nshd->nhts", queries, keys, preferred_element_type=jnp.float32)
        weights = jax.nn.softmax(scores + biases, axis=-1).astype(values.dtype)
        return self.o(jnp.einsum("nhts,nshd->nthd", weights, values).reshape(*x.shape[:-1], -1))


class T5LayerFF(nnx.Module):
    """A norm and a gated perceptron, with a residual."""

    def __init__(self, values: Config, shared: Shared) -> None:
        self.DenseReluDense = T5DenseGatedActDense(values["d_model"], values["d_ff"], shared)
        self.layer_norm = RMSNorm(values["d_model"], shared, eps=values["layer_norm_epsilon"])

    def __call__(self, x: Array) -> Array:
        return x + self.DenseReluDense(self.layer_norm(x))


class T5DenseGatedActDense(nnx.Module):
    """A linear map times the GELU of a second, and a third that makes the result narrow again."""

    def __init__(self, width: int, inner: int, shared: Shared) -> None:
        self.wi_0 = linear(width, inner, shared, bias=False)
        self.wi_1 = linear(width, inner, shared, bias=False)
        self.wo = linear(inner, width, shared, bias=False)

    def __call__(self, x: Array) -> Array:
        return self.wo(jax.nn.gelu(self.wi_0(x), approximate=True) * self.wi_1(x))


def buckets_of_distances(length: int, buckets: int, farthest: int) -> npt.NDArray[np.int32]:
    """Return the bucket of the distance from each token to each other, (length, length).

    Half of the buckets are for later tokens. Half of each half has one distance a bucket; the others grow
    with the logarithm of the distance up to `farthest`, and the last has all beyond it.
    """
    places = np.arange(length)
    distances = places[None, :] - places[:, None]
    of_side = buckets // 2
    exact = of_side // 2
    far = np.maximum(np.abs(distances), 1).astype(np.float32) / exact
    grown = exact + (np.log(far) / math.log(farthest / exact) * (of_side - exact)).astype(np.int64)
    near = np.where(np.abs(distances) < exact, np.abs(distances), np.minimum(grown, of_side - 1))
    found: npt.NDArray[np.int32] = (near + of_side * (distances > 0)).astype(np.int32)
    return found

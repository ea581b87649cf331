"""The denoising network of FLUX.2, the reference's `Flux2Transformer2DModel`.

Latents are packed: one token has four of the autoencoder's. All tokens are one sequence: [picture |
references | prompt]. References are other pictures that the painted one may show. The order is free because
positions are rotations.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.attention import attend
from sdjax_engine.models.config import Config
from sdjax_engine.models.cross_attention_inputs import KeyValues
from sdjax_engine.models.flux2_config import settle_flux2_config
from sdjax_engine.models.joint_attention import WHOLE, JointAttention, Modulation
from sdjax_engine.models.layers import (
    RMSNorm,
    Shared,
    TimestepEmbedding,
    linear,
    normalised,
    timestep_sinusoids,
)
from sdjax_engine.models.rotary import Rotation, frequencies, rotation_of_neighbours, turn_neighbours

PARTS, PARTS_OF_SINGLE, PARTS_OF_LAST = 6, 3, 2
"""Shifts, scales and gates of a double block's stream, of a single block, and of the last norm."""
BETWEEN_REFERENCES = 10
"""The step of the first coordinate from the picture to the first reference, and from each to the next."""


class Flux2Transformer2DModel(nnx.Module):
    """Predicts noise less picture from packed latents, the noise level, and a prompt."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_flux2_config(config)
        shared = Shared(dtype=dtype)
        width = values["num_attention_heads"] * values["attention_head_dim"]
        self.time_guidance_embed = TimestepGuidance(values["timestep_guidance_channels"], width, shared)
        self.double_stream_modulation_img = Modulation(width, PARTS, shared, bias=False)
        self.double_stream_modulation_txt = Modulation(width, PARTS, shared, bias=False)
        self.single_stream_modulation = Modulation(width, PARTS_OF_SINGLE, shared, bias=False)
        self.x_embedder = linear(values["in_channels"], width, shared, bias=False)
        self.context_embedder = linear(values["joint_attention_dim"], width, shared, bias=False)
        self.transformer_blocks = nnx.List(
            Flux2TransformerBlock(width, values, shared) for _ in range(values["num_layers"])
        )
        self.single_transformer_blocks = nnx.List(
            Flux2SingleTransformerBlock(width, values, shared) for _ in range(values["num_single_layers"])
        )
        self.norm_out = Modulation(width, PARTS_OF_LAST, shared, bias=False)
        self.proj_out = linear(width, values["in_channels"], shared, bias=False)
        self.eps = values["eps"]
        self.axes = values["axes_dims_rope"]
        self.theta = values["rope_theta"]
        self.dtype = dtype

    def read(self, states: Array) -> Array:
        """Return the tokens (n, length, width) of a prompt's `states` (n, length, joint_attention_dim)."""
        return self.context_embedder(states.astype(self.dtype))

    def __call__(
        self, sample: Array, timesteps: Array, prompt: Array, references: Sequence[Array] = ()
    ) -> Array:
        """Return the prediction `(n, h, w, in_channels)` in the network's dtype.

        `sample` is `(n, h, w, in_channels)`, `timesteps` (n,) are 1000·σ, `prompt` is from `read`. Each of
        `references` is `(n, height, width, in_channels)`, without noise.
        """
        time = jax.nn.silu(self.time_guidance_embed(timesteps))
        n, rows, columns, channels = sample.shape
        pictures = [sample, *references]
        tokens = jnp.concatenate([each.reshape(n, -1, channels) for each in pictures], axis=1)
        x, count = self.x_embedder(tokens.astype(self.dtype)), rows * columns
        counted = x.shape[1] + prompt.shape[1]
        rest = -counted % WHOLE
        lengths = jnp.full((n,), counted, jnp.int32) if rest else None
        context = jnp.pad(prompt, ((0, 0), (0, rest), (0, 0)))
        rotation = self.rotation([(each.shape[1], each.shape[2]) for each in pictures], context.shape[1])
        of_picture, of_prompt, of_both = (
            modulation(time)
            for modulation in (
                self.double_stream_modulation_img,
                self.double_stream_modulation_txt,
                self.single_stream_modulation,
            )
        )
        for double in self.transformer_blocks:
            x, context = double(x, context, of_picture, of_prompt, lengths, rotation)
        joint = jnp.concatenate([x, context], axis=1)
        for single in self.single_transformer_blocks:
            joint = single(joint, of_both, lengths, rotation)
        scale, shift = self.norm_out(time)
        hidden = normalised(joint[:, :count], self.eps) * (1 + scale) + shift
        return self.proj_out(hidden).reshape(sample.shape)

    def rotation(self, sizes: Sequence[tuple[int, int]], length: int) -> Rotation:
        """Return the rotation of the tokens of pictures of these heights and widths, and of a prompt.

        The coordinates are a picture's number, row and column, and the place in the prompt.
        """
        places = [coordinates(BETWEEN_REFERENCES * number, *size) for number, size in enumerate(sizes)]
        of_prompt = np.zeros((length, len(self.axes)), np.float32)
        of_prompt[:, -1] = np.arange(length)
        all_places = np.concatenate([*places, of_prompt])
        angles = [
            all_places[:, axis, None] * frequencies(width, self.theta) for axis, width in enumerate(self.axes)
        ]
        return rotation_of_neighbours(jnp.asarray(np.concatenate(angles, axis=1)[None]))


def coordinates(number: int, rows: int, columns: int) -> npt.NDArray[np.float32]:
    """Return the four coordinates of a picture's tokens, (rows × columns, 4)."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    first, last = np.full_like(row, number), np.zeros_like(row)
    return np.stack([first, row, column, last], axis=1).astype(np.float32)


class TimestepGuidance(nnx.Module):
    """The embedding of the noise level; without one of a guidance scale."""

    def __init__(self, sinusoids: int, width: int, shared: Shared) -> None:
        self.timestep_embedder = TimestepEmbedding(sinusoids, width, jax.nn.silu, shared, bias=False)
        self.sinusoids = sinusoids
        self.dtype = shared.dtype

    def __call__(self, timesteps: Array) -> Array:
        """Return `(n, width)` of `timesteps` (n,)."""
        sinusoids = timestep_sinusoids(timesteps, self.sinusoids, flip_sin_to_cos=True, freq_shift=0)
        return self.timestep_embedder(sinusoids.astype(self.dtype))


class FeedForward(nnx.Module):
    """A linear map to gates and values, whose product is made narrow again."""

    def __init__(self, width: int, ratio: float, shared: Shared) -> None:
        inner = int(width * ratio)
        self.linear_in = linear(width, 2 * inner, shared, bias=False)
        self.linear_out = linear(inner, width, shared, bias=False)

    def __call__(self, x: Array) -> Array:
        return self.linear_out(gated(self.linear_in(x)))


def gated(x: Array) -> Array:
    """Return the second half of the last axis times the SiLU of the first."""
    gates, values = jnp.split(x, 2, axis=-1)
    return jax.nn.silu(gates) * values


class Flux2TransformerBlock(nnx.Module):
    """Attention of both streams to both, and a perceptron for each; all blocks share their modulation."""

    def __init__(self, width: int, values: Config, shared: Shared) -> None:
        heads, self.eps = values["num_attention_heads"], values["eps"]
        self.attn = JointAttention(width, heads, shared, eps=self.eps, bias=False)
        self.ff = FeedForward(width, values["mlp_ratio"], shared)
        self.ff_context = FeedForward(width, values["mlp_ratio"], shared)

    def __call__(  # noqa: PLR0917 - both streams, then what all blocks share
        self,
        x: Array,
        context: Array,
        of_picture: Sequence[Array],
        of_prompt: Sequence[Array],
        lengths: Array | None,
        rotation: Rotation,
    ) -> tuple[Array, Array]:
        """Return both streams, (n, tokens, width) each."""
        streams = (x, of_picture), (context, of_prompt)
        hidden = (normalised(each, self.eps) * (1 + parts[1]) + parts[0] for each, parts in streams)
        attended, of_context = self.attn(*hidden, lengths=lengths, rotation=rotation)
        return (
            self.after(self.ff, x, attended, of_picture),
            self.after(self.ff_context, context, of_context, of_prompt),
        )

    def after(self, feed_forward: FeedForward, x: Array, attended: Array, parts: Sequence[Array]) -> Array:
        """Return a stream after its part of the attention and its perceptron."""
        _, _, gate, shift, scale, gate_mlp = parts
        x = x + gate * attended
        return x + gate_mlp * feed_forward(normalised(x, self.eps) * (1 + scale) + shift)


class Flux2SingleTransformerBlock(nnx.Module):
    """Attention and a perceptron side by side, of all tokens."""

    def __init__(self, width: int, values: Config, shared: Shared) -> None:
        self.attn = ParallelAttention(width, values, shared)
        self.eps = values["eps"]

    def __call__(self, x: Array, parts: Sequence[Array], lengths: Array | None, rotation: Rotation) -> Array:
        shift, scale, gate = parts
        return x + gate * self.attn(normalised(x, self.eps) * (1 + scale) + shift, lengths, rotation)


class ParallelAttention(nnx.Module):
    """One linear map to queries, keys, values and the perceptron, and one from both results."""

    def __init__(self, width: int, values: Config, shared: Shared) -> None:
        self.of_a_head = values["attention_head_dim"]
        inner = int(width * values["mlp_ratio"])
        self.to_qkv_mlp_proj = linear(width, 3 * width + 2 * inner, shared, bias=False)
        self.to_out = linear(width + inner, width, shared, bias=False)
        self.norm_q = RMSNorm(self.of_a_head, shared, eps=values["eps"])
        self.norm_k = RMSNorm(self.of_a_head, shared, eps=values["eps"])

    def __call__(self, x: Array, lengths: Array | None, rotation: Rotation) -> Array:
        """`x` is `(n, tokens, width)`."""
        width = x.shape[-1]
        made = self.to_qkv_mlp_proj(x)
        projected = jnp.split(made[..., : 3 * width], 3, axis=-1)
        queries, keys, values = (each.reshape(*each.shape[:-1], -1, self.of_a_head) for each in projected)
        queries = turn_neighbours(self.norm_q(queries), rotation)
        keys = turn_neighbours(self.norm_k(keys), rotation)
        attended = attend(queries, KeyValues(keys, values, lengths)).reshape(x.shape)
        return self.to_out(jnp.concatenate([attended, gated(made[..., 3 * width :])], axis=-1))

"""Z-Image's denoising network, the reference's `ZImageTransformer2DModel` (arXiv 2511.22699).

A picture's patches and its caption are one sequence: [picture | padding | caption | padding | rest]. Padding
fills the picture and the caption to multiples of 32 with tokens that are attended to, as in the reference.
The rest, up to the static length, is not attended to. The order of tokens is free because positions
are rotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.attention import attend
from sdjax_engine.models.config import PATCH, Config, settle_z_image_config
from sdjax_engine.models.cross_attention_inputs import KeyValues
from sdjax_engine.models.layers import RMSNorm, Shared, linear, normalised, parameter, timestep_sinusoids
from sdjax_engine.models.patches import patches_of, picture_of
from sdjax_engine.models.rotary import Rotation, frequencies, rotation_of_neighbours, turn_neighbours

PADDING = 32
WHOLE = 128
"""The joint sequence is a multiple of this, as the TPU's kernel needs it."""
TIME_SINUSOIDS, TIME_INNER, MOST_TIME_WIDTH = 256, 1024, 256
HEAD_EPS = 1e-5
FINAL_EPS = 1e-6
FORM = f"{PATCH}-1"
"""The reference's name for patches of 2×2 latents of one frame."""


class Caption(NamedTuple):
    """A caption as the network attends to it: `tokens` (n, length, dim), and how many count, (n,) int32."""

    tokens: Array
    lengths: Array


class ZImageTransformer2DModel(nnx.Module):
    """Predicts picture less noise from latents, the share of the picture in them, and a caption."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_z_image_config(config)
        shared = Shared(dtype=dtype)
        width, of_a_patch = values["dim"], PATCH * PATCH * values["in_channels"]
        self.all_x_embedder = nnx.Dict({FORM: linear(of_a_patch, width, shared)})
        self.all_final_layer = nnx.Dict({FORM: FinalLayer(width, of_a_patch, shared)})
        self.t_embedder = TimestepEmbedder(time_width(width), shared)
        self.cap_embedder = nnx.List(
            [
                RMSNorm(values["cap_feat_dim"], shared, eps=values["norm_eps"]),
                linear(values["cap_feat_dim"], width, shared),
            ]
        )
        self.x_pad_token = parameter((1, width), shared)
        self.cap_pad_token = parameter((1, width), shared)
        refiners = range(values["n_refiner_layers"])
        self.noise_refiner = nnx.List(ZImageTransformerBlock(values, shared) for _ in refiners)
        self.context_refiner = nnx.List(
            ZImageTransformerBlock(values, shared, modulation=False) for _ in refiners
        )
        self.layers = nnx.List(ZImageTransformerBlock(values, shared) for _ in range(values["n_layers"]))
        self.axes = values["axes_dims"]
        self.theta = values["rope_theta"]
        self.t_scale = values["t_scale"]
        self.dtype = dtype

    def read(self, states: Array, lengths: Array) -> Caption:
        """Return the caption of a text encoder's `states` (n, length, cap_feat_dim); `lengths` of them count.

        A caption depends on its text only. States beyond the lengths (n,) have no influence.
        """
        norm, embed = self.cap_embedder
        places = jnp.arange(states.shape[1], dtype=jnp.int32)
        counted = (places < lengths[:, None])[:, :, None]
        x = jnp.where(counted, embed(norm(states)), self.cap_pad_token[...])
        padded = -(-lengths // PADDING) * PADDING
        rotation = self.rotation_of_caption(states.shape[1])
        for block in self.context_refiner:
            x = block(x, rotation, lengths=padded)
        return Caption(tokens=x, lengths=padded)

    def __call__(self, sample: Array, times: Array, caption: Caption) -> Array:
        """Return the prediction `(n, h, w, in_channels)` in the network's dtype.

        `sample` is `(n, h, w, in_channels)`; height and width are even. `times` (n,) are 1 − σ: 0 for noise
        alone, 1 for the picture.
        """
        _, height, width, _ = sample.shape
        grid = height // PATCH, width // PATCH
        x = self.all_x_embedder[FORM](patches_of(sample.astype(self.dtype), PATCH))
        x = padded_with(self.x_pad_token[...], x, -x.shape[1] % PADDING)
        time = self.t_embedder(times * self.t_scale)
        of_picture = self.rotation_of_picture(grid, caption.lengths, x.shape[1])
        for block in self.noise_refiner:
            x = block(x, of_picture, time=time)
        joint, rotation, lengths = self.joined(x, of_picture, caption)
        for block in self.layers:
            joint = block(joint, rotation, lengths=lengths, time=time)
        patches = self.all_final_layer[FORM](joint[:, : grid[0] * grid[1]], time)
        return picture_of(patches, grid, PATCH)

    def joined(self, x: Array, of_picture: Rotation, caption: Caption) -> tuple[Array, Rotation, Array]:
        """Return the picture's tokens and the caption's as one sequence, its rotation and its lengths."""
        most = caption.tokens.shape[1]
        rest = -(x.shape[1] + most) % WHOLE
        tokens = jnp.pad(caption.tokens, ((0, 0), (0, rest), (0, 0)))
        of_caption = self.rotation_of_caption(most + rest)
        both = (
            jnp.concatenate([picture, jnp.broadcast_to(text, (len(picture), *text.shape[1:]))], axis=1)
            for picture, text in zip(of_picture, of_caption, strict=True)
        )
        return jnp.concatenate([x, tokens], axis=1), Rotation(*both), x.shape[1] + caption.lengths

    def rotation_of_caption(self, length: int) -> Rotation:
        """Return the rotation of a caption's tokens, `(1, length, …)`: they lie at (1, 0, 0), (2, 0, 0), …"""
        first = 1 + jnp.arange(length, dtype=jnp.float32)
        return rotation_of_neighbours(self.angles(first[None], *(jnp.zeros((1, length)),) * 2))

    def rotation_of_picture(self, grid: tuple[int, int], lengths: Array, count: int) -> Rotation:
        """Return the rotation of a picture's `count` tokens, `(n, count, width of a head)`.

        Patches lie behind the caption, at (its length + 1, row, column), and padding at (0, 0, 0).
        """
        rows, columns = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
        behind = (lengths + 1).astype(jnp.float32)[:, None] * jnp.ones((1, rows.size))
        angles = self.angles(behind, *(jnp.asarray(each, jnp.float32)[None] for each in (rows, columns)))
        return rotation_of_neighbours(jnp.pad(angles, ((0, 0), (0, count - rows.size), (0, 0))))

    def angles(self, *positions: Array) -> Array:
        """Return the angles of tokens at positions (n or 1, length) along each axis, (n, length, angles)."""
        of_axes = [
            place[:, :, None] * frequencies(width, self.theta)
            for place, width in zip(positions, self.axes, strict=True)
        ]
        rows = max(len(each) for each in of_axes)
        return jnp.concatenate([jnp.broadcast_to(each, (rows, *each.shape[1:])) for each in of_axes], axis=-1)


def time_width(width: int) -> int:
    """Return the width of the embedding of times, in a network of this width."""
    return min(width, MOST_TIME_WIDTH)


def padded_with(token: Array, x: Array, count: int) -> Array:
    """Return `x` (n, length, width) with `count` copies of `token` (1, width) behind it."""
    copies = jnp.broadcast_to(token[None], (len(x), count, x.shape[-1]))
    return jnp.concatenate([x, copies], axis=1)


class TimestepEmbedder(nnx.Module):
    """Sinusoids and two linear maps with a SiLU between them, which the reference's numbering counts."""

    def __init__(self, width: int, shared: Shared) -> None:
        first, second = linear(TIME_SINUSOIDS, TIME_INNER, shared), linear(TIME_INNER, width, shared)
        self.mlp = nnx.List([first, None, second])
        self.dtype = shared.dtype

    def __call__(self, times: Array) -> Array:
        """Return `(n, width)` of `times` (n,)."""
        sinusoids = timestep_sinusoids(times, TIME_SINUSOIDS, flip_sin_to_cos=True, freq_shift=0)
        return self.mlp[2](jax.nn.silu(self.mlp[0](sinusoids.astype(self.dtype))))


class ZImageTransformerBlock(nnx.Module):
    """Self-attention and a gated perceptron between norms, each with a residual.

    With `modulation` the time scales the input of both and the gates of both.
    """

    def __init__(self, values: Config, shared: Shared, *, modulation: bool = True) -> None:
        width, eps = values["dim"], values["norm_eps"]
        self.attention = ZImageAttention(width, values["n_heads"], shared)
        self.feed_forward = FeedForward(width, int(width / 3 * 8), shared)
        self.attention_norm1 = RMSNorm(width, shared, eps=eps)
        self.attention_norm2 = RMSNorm(width, shared, eps=eps)
        self.ffn_norm1 = RMSNorm(width, shared, eps=eps)
        self.ffn_norm2 = RMSNorm(width, shared, eps=eps)
        self.adaLN_modulation = (
            nnx.List([linear(time_width(width), 4 * width, shared)]) if modulation else None
        )

    def __call__(
        self, x: Array, rotation: Rotation, *, lengths: Array | None = None, time: Array | None = None
    ) -> Array:
        """`x` is `(n, length, width)`, `time` `(n, width of the time)`, which a modulated block needs."""
        scale_msa, gate_msa, scale_mlp, gate_mlp = self.modulations(time)
        attended = self.attention(self.attention_norm1(x) * scale_msa, rotation, lengths)
        x = x + gate_msa * self.attention_norm2(attended)
        return x + gate_mlp * self.ffn_norm2(self.feed_forward(self.ffn_norm1(x) * scale_mlp))

    def modulations(self, time: Array | None) -> Sequence[Array | int]:
        """Return the scale and the gate of the attention, and of the perceptron, each (n, 1, width) or 1."""
        if self.adaLN_modulation is None or time is None:
            return 1, 1, 1, 1
        made = self.adaLN_modulation[0](time)[:, None]
        scale_msa, gate_msa, scale_mlp, gate_mlp = jnp.split(made, 4, axis=-1)
        return 1 + scale_msa, jnp.tanh(gate_msa), 1 + scale_mlp, jnp.tanh(gate_mlp)


class ZImageAttention(nnx.Module):
    """Self-attention with normed queries and keys."""

    def __init__(self, width: int, heads: int, shared: Shared) -> None:
        self.heads = heads
        self.to_q = linear(width, width, shared, bias=False)
        self.to_k = linear(width, width, shared, bias=False)
        self.to_v = linear(width, width, shared, bias=False)
        self.to_out = nnx.List([linear(width, width, shared, bias=False)])
        self.norm_q = RMSNorm(width // heads, shared, eps=HEAD_EPS)
        self.norm_k = RMSNorm(width // heads, shared, eps=HEAD_EPS)

    def __call__(self, x: Array, rotation: Rotation, lengths: Array | None) -> Array:
        by_head = (*x.shape[:-1], self.heads, -1)
        queries, keys, values = (each(x).reshape(by_head) for each in (self.to_q, self.to_k, self.to_v))
        queries = turn_neighbours(self.norm_q(queries), rotation)
        keys = turn_neighbours(self.norm_k(keys), rotation)
        return self.to_out[0](attend(queries, KeyValues(keys, values, lengths)).reshape(x.shape))


class FeedForward(nnx.Module):
    """A linear map times the SiLU of a second, and a third that makes the result narrow again."""

    def __init__(self, width: int, inner: int, shared: Shared) -> None:
        self.w1 = linear(width, inner, shared, bias=False)
        self.w2 = linear(inner, width, shared, bias=False)
        self.w3 = linear(width, inner, shared, bias=False)

    def __call__(self, x: Array) -> Array:
        return self.w2(jax.nn.silu(self.w1(x)) * self.w3(x))


class FinalLayer(nnx.Module):
    """A norm without parameters, scaled by the time, and a linear map to patches."""

    def __init__(self, width: int, width_out: int, shared: Shared) -> None:
        self.linear = linear(width, width_out, shared)
        self.adaLN_modulation = nnx.List([None, linear(time_width(width), width, shared)])
        self.dtype = shared.dtype

    def __call__(self, x: Array, time: Array) -> Array:
        """Return `(n, length, width_out)` of `x` (n, length, width) and `time` (n, width of the time)."""
        scale = 1 + self.adaLN_modulation[1](jax.nn.silu(time))[:, None]
        return self.linear(normalised(x, FINAL_EPS) * scale)

"""The denoising network of SD 3 and SD 3.5, the reference's `SD3Transformer2DModel` (arXiv 2403.03206).

A picture's patches and a prompt's tokens are two streams with weights of their own, which attend to both
streams: [picture | prompt]. The order is free because the positions are in the picture's tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.config import Config
from sdjax_engine.models.joint_attention import WHOLE, JointAttention, Modulation, SelfAttention
from sdjax_engine.models.layers import (
    Shared,
    TimestepEmbedding,
    conv,
    linear,
    normalised,
    parameter,
    timestep_sinusoids,
)
from sdjax_engine.models.patches import picture_of
from sdjax_engine.models.sd3_config import PATCH, settle_sd3_config

SINUSOIDS = 256
EPS = 1e-6
PARTS, PARTS_WITH_DUAL, PARTS_OF_LAST = 6, 9, 2
"""Shifts, scales and gates of a block's stream."""


class Prompt(NamedTuple):
    """A prompt as the network attends to it: `tokens` (n, length, width), and `pooled` (n, width)."""

    tokens: Array
    pooled: Array


class SD3Transformer2DModel(nnx.Module):
    """Predicts noise less picture from latents, the noise level, and a prompt."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_sd3_config(config)
        shared = Shared(dtype=dtype)
        width = values["num_attention_heads"] * values["attention_head_dim"]
        self.pos_embed = PatchEmbed(values["in_channels"], width, values["pos_embed_max_size"], shared)
        self.time_text_embed = CombinedTimestepTextProjEmbeddings(
            values["pooled_projection_dim"], width, shared
        )
        self.context_embedder = linear(values["joint_attention_dim"], width, shared)
        count = values["num_layers"]
        self.transformer_blocks = nnx.List(
            JointTransformerBlock(
                width,
                values,
                shared,
                dual=number in values["dual_attention_layers"],
                last=number == count - 1,
            )
            for number in range(count)
        )
        self.norm_out = Modulation(width, PARTS_OF_LAST, shared)
        self.proj_out = linear(width, PATCH * PATCH * values["out_channels"], shared)
        self.dtype = dtype

    def read(self, states: Array, pooled: Array) -> Prompt:
        """Return the prompt of encoders' `states` (n, length, joint_attention_dim) and `pooled` vectors."""
        return Prompt(
            tokens=self.context_embedder(states.astype(self.dtype)),
            pooled=self.time_text_embed.text_embedder(pooled.astype(self.dtype)),
        )

    def __call__(self, sample: Array, timesteps: Array, prompt: Prompt) -> Array:
        """Return the prediction `(n, h, w, out_channels)` in the network's dtype.

        `sample` is `(n, h, w, in_channels)`; height and width are even. `timesteps` (n,) are 1000·σ.
        """
        time = jax.nn.silu(self.time_text_embed.of_time(timesteps) + prompt.pooled)
        x = self.pos_embed(sample.astype(self.dtype))
        n, rows, columns, width = x.shape
        x, context = x.reshape(n, -1, width), prompt.tokens
        counted = x.shape[1] + context.shape[1]
        rest = -counted % WHOLE
        lengths = jnp.full((n,), counted, jnp.int32) if rest else None
        context = jnp.pad(context, ((0, 0), (0, rest), (0, 0)))
        for block in self.transformer_blocks:
            x, context = block(x, context, time, lengths)
        scale, shift = self.norm_out(time)
        return picture_of(self.proj_out(normalised(x, EPS) * (1 + scale) + shift), (rows, columns), PATCH)


class PatchEmbed(nnx.Module):
    """A linear map of patches, plus the middle of a table of positions."""

    def __init__(self, channels: int, width: int, side: int, shared: Shared) -> None:
        self.proj = conv(channels, width, shared, kernel=PATCH, stride=PATCH, padding=0)
        self.pos_embed = parameter((1, side * side, width), shared)
        self.side = side

    def __call__(self, sample: Array) -> Array:
        """Return `(n, h / 2, w / 2, width)` of `sample` (n, h, w, channels); ValueError for one too large."""
        x = self.proj(sample)
        _, rows, columns, width = x.shape
        if max(rows, columns) > self.side:
            raise ValueError(f"A picture has {self.side} patches a side at most, not {max(rows, columns)}.")
        top, left = (self.side - rows) // 2, (self.side - columns) // 2
        table = self.pos_embed[...].reshape(1, self.side, self.side, width)
        return x + table[:, top : top + rows, left : left + columns]


class CombinedTimestepTextProjEmbeddings(nnx.Module):
    """The embeddings of the noise level and of the pooled prompt, which are added."""

    def __init__(self, pooled_width: int, width: int, shared: Shared) -> None:
        self.timestep_embedder = TimestepEmbedding(SINUSOIDS, width, jax.nn.silu, shared)
        self.text_embedder = TimestepEmbedding(pooled_width, width, jax.nn.silu, shared)
        self.dtype = shared.dtype

    def of_time(self, timesteps: Array) -> Array:
        """Return the embedding (n, width) of `timesteps` (n,)."""
        sinusoids = timestep_sinusoids(timesteps, SINUSOIDS, flip_sin_to_cos=True, freq_shift=0)
        return self.timestep_embedder(sinusoids.astype(self.dtype))


class JointTransformerBlock(nnx.Module):
    """Attention of both streams to both, and a perceptron for each; every part is gated by the time.

    A `dual` block has a second attention, of the picture to itself. In the `last` block the prompt is only
    read.
    """

    def __init__(self, width: int, values: Config, shared: Shared, *, dual: bool, last: bool) -> None:
        heads, normed = values["num_attention_heads"], values["qk_norm"] is not None
        self.norm1 = Modulation(width, PARTS_WITH_DUAL if dual else PARTS, shared)
        self.norm1_context = Modulation(width, PARTS_OF_LAST if last else PARTS, shared)
        self.attn = JointAttention(width, heads, shared, eps=EPS, normed=normed, last=last)
        self.attn2 = SelfAttention(width, heads, shared, eps=EPS, normed=normed) if dual else None
        self.ff = FeedForward(width, shared)
        self.ff_context = None if last else FeedForward(width, shared)

    def __call__(self, x: Array, context: Array, time: Array, lengths: Array | None) -> tuple[Array, Array]:
        """Return both streams, (n, tokens, width) each; `time` (n, width) is after its SiLU."""
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp, *dual = self.norm1(time)
        of_context = self.norm1_context(time)
        # The last block's are scale and shift, all others begin with shift and scale.
        first, second = of_context[:2]
        shift_context, scale_context = (second, first) if self.ff_context is None else (first, second)
        normed = normalised(x, EPS)
        attended, of_prompt = self.attn(
            normed * (1 + scale) + shift,
            normalised(context, EPS) * (1 + scale_context) + shift_context,
            lengths=lengths,
        )
        x = x + gate * attended
        if self.attn2 is not None:
            shift_2, scale_2, gate_2 = dual
            x = x + gate_2 * self.attn2(normed * (1 + scale_2) + shift_2)
        x = x + gate_mlp * self.ff(normalised(x, EPS) * (1 + scale_mlp) + shift_mlp)
        if self.ff_context is None:
            return x, context
        _, _, gate, shift_mlp, scale_mlp, gate_mlp = of_context
        context = context + gate * of_prompt
        hidden = normalised(context, EPS) * (1 + scale_mlp) + shift_mlp
        return x, context + gate_mlp * self.ff_context(hidden)


class FeedForward(nnx.Module):
    """Two linear maps with a GELU between them, numbered as in the reference."""

    def __init__(self, width: int, shared: Shared) -> None:
        self.net = nnx.List([GELU(width, 4 * width, shared), None, linear(4 * width, width, shared)])

    def __call__(self, x: Array) -> Array:
        return self.net[2](self.net[0](x))


class GELU(nnx.Module):
    """A linear map and the GELU by its tanh formula."""

    def __init__(self, width: int, width_out: int, shared: Shared) -> None:
        self.proj = linear(width, width_out, shared)

    def __call__(self, x: Array) -> Array:
        return jax.nn.gelu(self.proj(x), approximate=True)

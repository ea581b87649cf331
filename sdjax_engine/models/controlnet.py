"""The networks that hold a painting to a picture, the reference's `ControlNetModel` and its union.

A ControlNet is the half of a UNet that goes down, with a map for each skip connection. Whatever depends on
the control picture alone is computed once a picture (`embed`), and the rest at each evaluation.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.activations import ACTIVATIONS, activation
from sdjax_engine.models.config import Config
from sdjax_engine.models.controlnet_config import (
    NAME,
    settle_controlnet_config,
    settle_controlnet_union_config,
)
from sdjax_engine.models.cross_attention_inputs import Projection
from sdjax_engine.models.layers import LayerNorm, Shared, TimestepEmbedding, conv, linear, parameter
from sdjax_engine.models.unet import DownwardNetwork, Residuals, style_of


class ControlCondition(NamedTuple):
    """What a network derives from a control picture, for all evaluations.

    `features` (n, h, w, width) are added to the first convolution's result. `time` (n, time_width) is added
    to the embedding of the timestep; None for a network of one type of control pictures.
    """

    features: Array
    time: Array | None = None


class ControlNetModel(DownwardNetwork):
    """Predicts what a control picture changes in a UNet: the residuals of its skips and its mid block."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        self.build(settle_controlnet_config(config), dtype)

    def build(self, values: Config, dtype: DTypeLike) -> None:
        """Build all layers from settled values."""
        style = style_of(values, dtype)
        super().__init__(values, style)
        width = values["block_out_channels"][0]
        self.controlnet_cond_embedding = ControlNetConditioningEmbedding(
            width, style, widths=values["conditioning_embedding_out_channels"]
        )
        self.controlnet_down_blocks = nnx.List(linear(each, each, style) for each in skip_widths(values))
        last = values["block_out_channels"][-1]
        self.controlnet_mid_block = linear(last, last, style)
        self.reverses_colours = values["controlnet_conditioning_channel_order"] == "bgr"
        self.name_cross_attentions()

    def embed(self, picture: Array) -> ControlCondition:
        """Return the condition of control pictures (n, height, width, 3), colours from 0 to 1."""
        picture = picture[..., ::-1] if self.reverses_colours else picture
        return ControlCondition(self.controlnet_cond_embedding(picture.astype(self.dtype)))

    def __call__(
        self,
        sample: Array,
        timesteps: Array,
        context: Array | Projection,
        condition: ControlCondition,
        *,
        context_lengths: Array | None = None,
        text_embeds: Array | None = None,
        time_ids: Array | None = None,
    ) -> Residuals:
        """Return the residuals, in the network's dtype, before any strength.

        The arguments are those of the UNet; `sample` (n, h, w, in_channels) has the latents alone, also for a
        UNet of inpainting. `condition` is what `embed` returned. Each row depends on its own row only.
        """
        attended = context if isinstance(context, Projection) else self.read(context, context_lengths)
        time = self.embed_time(timesteps, None)
        if condition.time is not None:
            time = time + condition.time
        time = self.act(self.add_to_time(time, text_embeds, time_ids))
        x = self.conv_in(sample.astype(self.dtype)) + condition.features
        middle, skips = self.descend(x, time, attended)
        maps = zip(self.controlnet_down_blocks, skips, strict=True)
        return Residuals(tuple(of(skip) for of, skip in maps), self.controlnet_mid_block(middle))


def skip_widths(values: Config) -> list[int]:
    """Return the width of each skip connection, in the order in which the way down makes them."""
    widths, layers = values["block_out_channels"], values["layers_per_block"]
    made = [widths[0]]
    for block, width in enumerate(widths):
        made += [width] * (layers[block] + (block < len(widths) - 1))
    return made


class ControlNetConditioningEmbedding(nnx.Module):
    """Convolutions from a picture's pixels to the size and width of the UNet's first features."""

    def __init__(self, width: int, shared: Shared, *, widths: tuple[int, ...]) -> None:
        self.conv_in = conv(3, widths[0], shared)
        self.blocks = nnx.List()
        for narrow, wide in pairwise(widths):
            self.blocks.append(conv(narrow, narrow, shared))
            self.blocks.append(conv(narrow, wide, shared, stride=2, padding=1))
        self.conv_out = conv(widths[-1], width, shared)

    def __call__(self, picture: Array) -> Array:
        """Return `(n, h, w, width)` of a picture (n, height, width, 3)."""
        x = jax.nn.silu(self.conv_in(picture))
        for block in self.blocks:
            x = jax.nn.silu(block(x))
        return self.conv_out(x)


class ControlNetUnionModel(ControlNetModel):
    """A ControlNet for several types of control pictures, of which each picture has one."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_controlnet_union_config(config)
        self.build(values, dtype)
        shared, types = Shared(dtype=dtype), values["num_control_type"]
        width, ids = values["num_trans_channel"], values["addition_time_embed_dim"]
        self.task_embedding = parameter((types, width), shared)
        # The misspelt name is that of the files.
        self.transformer_layes = nnx.List(
            ResidualAttentionBlock(width, shared) for _ in range(values["num_trans_layer"])
        )
        self.spatial_ch_projs = linear(width, width, shared)
        self.control_add_embedding = TimestepEmbedding(
            types * ids, 4 * values["block_out_channels"][0], activation("silu", model=NAME), shared
        )
        self.types = types
        self.type_sinusoids = ids

    def embed(self, picture: Array, types: Array | None = None) -> ControlCondition:
        """Return the condition of control pictures (n, height, width, 3) of `types` (n,) int32.

        Raises ValueError without types.
        """
        if types is None:
            raise ValueError("types are what a ControlNet of several types needs.")
        features = super().embed(picture).features
        token = features.mean((1, 2)) + self.task_embedding[...][types]
        for layer in self.transformer_layes:
            token = layer(token)
        chosen = (types[:, None] == jnp.arange(self.types, dtype=types.dtype)).astype(jnp.float32)
        told = self.sinusoids(chosen.reshape(-1), self.type_sinusoids).reshape(len(types), -1)
        shift = self.spatial_ch_projs(token)[:, None, None, :]
        return ControlCondition(features + shift, self.control_add_embedding(told))


class ResidualAttentionBlock(nnx.Module):
    """A transformer layer of one token.

    The reference's attention takes the rows of the batch for its tokens. For one picture, and for a guided
    pair, whose rows are equal, the attention is its value alone.
    """

    def __init__(self, width: int, shared: Shared) -> None:
        self.attn = ValueOfAttention(width, shared)
        self.ln_1 = LayerNorm(width, shared)
        self.mlp = ResidualAttentionMlp(width, shared)
        self.ln_2 = LayerNorm(width, shared)

    def __call__(self, x: Array) -> Array:
        """`x` is `(n, width)`."""
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class ValueOfAttention(nnx.Module):
    """Attention to a single key, whose weight is 1: the value, and the map of the output."""

    def __init__(self, width: int, shared: Shared) -> None:
        self.in_proj_weight = parameter((3 * width, width), shared)
        self.in_proj_bias = parameter((3 * width,), shared)
        self.out_proj = linear(width, width, shared)

    def __call__(self, x: Array) -> Array:
        _, _, weight = jnp.split(self.in_proj_weight[...], 3)
        _, _, bias = jnp.split(self.in_proj_bias[...], 3)
        return self.out_proj(x @ weight.T + bias)


class ResidualAttentionMlp(nnx.Module):
    """Two linear maps with CLIP's GELU between them."""

    def __init__(self, width: int, shared: Shared) -> None:
        self.c_fc = linear(width, 4 * width, shared)
        self.c_proj = linear(4 * width, width, shared)

    def __call__(self, x: Array) -> Array:
        return self.c_proj(ACTIVATIONS["quick_gelu"](self.c_fc(x)))

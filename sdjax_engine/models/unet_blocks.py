"""The blocks of the UNet and of the autoencoder."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from flax import nnx
from jax import Array

from sdjax_engine.models.activations import Activation
from sdjax_engine.models.attention import AttentionStyle, PromptContext, Transformer2DModel
from sdjax_engine.models.layers import (
    Downsample2D,
    GroupNorm,
    Shared,
    Upsample2D,
    conv,
    linear,
)


@dataclass(frozen=True, kw_only=True)
class ResnetStyle(Shared):
    """The settings of one network's residual blocks; `time_width` is None for a network without timesteps."""

    groups: int
    eps: float
    act: Activation
    time_width: int | None


class ResnetBlock2D(nnx.Module):
    """Two convolutions with a residual; the time embedding is added between them."""

    def __init__(self, width_in: int, width: int, style: ResnetStyle) -> None:
        self.norm1 = GroupNorm(width_in, style.groups, style, eps=style.eps)
        self.conv1 = conv(width_in, width, style)
        self.time_emb_proj = None if style.time_width is None else linear(style.time_width, width, style)
        self.norm2 = GroupNorm(width, style.groups, style, eps=style.eps)
        self.conv2 = conv(width, width, style)
        self.conv_shortcut = None if width_in == width else linear(width_in, width, style)
        self.act = style.act

    def __call__(self, x: Array, time: Array | None = None) -> Array:
        """`x` is `(n, h, w, width_in)`, `time` `(n, time_width)` after its activation."""
        h = self.conv1(self.act(self.norm1(x)))
        shift = None if self.time_emb_proj is None or time is None else self.time_emb_proj(time)
        h = self.conv2(self.act(self.norm2(h, shift)))
        return h + (x if self.conv_shortcut is None else self.conv_shortcut(x))


@dataclass(frozen=True, kw_only=True)
class BlockAttention(AttentionStyle):
    """The settings of one block's transformers; `layers` is the number of transformer blocks of each."""

    layers: tuple[int, ...]


def transformers(width: int, style: ResnetStyle, attention: BlockAttention) -> nnx.List:
    """Return the transformers of a block of this width."""
    return nnx.List(
        Transformer2DModel(width, style, style=attention, layers=layers, groups=style.groups)
        for layers in attention.layers
    )


class DownBlock2D(nnx.Module):
    """Residual blocks, each followed by a transformer if the block has attention, then a downsampling."""

    def __init__(
        self,
        width_in: int,
        width: int,
        style: ResnetStyle,
        *,
        layers: int,
        attention: BlockAttention | None = None,
        downsample: bool,
        padding: int,
    ) -> None:
        widths = (width_in, *(width,) * (layers - 1))
        self.resnets = nnx.List(ResnetBlock2D(each, width, style) for each in widths)
        self.attentions = transformers(width, style, attention) if attention else None
        self.downsamplers = nnx.List([Downsample2D(width, style, padding=padding)]) if downsample else None

    def __call__(
        self, x: Array, time: Array | None = None, context: PromptContext | None = None
    ) -> tuple[Array, list[Array]]:
        """Return the result, and every intermediate result for the skip connections."""
        skips = []
        for index, resnet in enumerate(self.resnets):
            x = resnet(x, time)
            if self.attentions is not None:
                x = self.attentions[index](x, context)
            skips.append(x)
        if self.downsamplers is not None:
            x = self.downsamplers[0](x)
            skips.append(x)
        return x, skips


class MiddleBlock(nnx.Module):
    """A residual block, a transformer and another residual block; without attention the first alone."""

    def __init__(self, width: int, style: ResnetStyle, *, attention: BlockAttention | None) -> None:
        count = 1 if attention is None else 2
        self.resnets = nnx.List(ResnetBlock2D(width, width, style) for _ in range(count))
        self.attentions = transformers(width, style, attention) if attention else None

    def __call__(self, x: Array, time: Array, context: PromptContext) -> Array:
        x = self.resnets[0](x, time)
        if self.attentions is None:
            return x
        return self.resnets[1](self.attentions[0](x, context), time)


class UpBlock2D(nnx.Module):
    """Residual blocks that take the skip connections, with transformers, then an upsampling."""

    def __init__(
        self,
        widths_in: tuple[int, ...],
        width: int,
        style: ResnetStyle,
        *,
        attention: BlockAttention | None,
        upsample: bool,
    ) -> None:
        self.resnets = nnx.List(ResnetBlock2D(each, width, style) for each in widths_in)
        self.attentions = transformers(width, style, attention) if attention else None
        self.upsamplers = nnx.List([Upsample2D(width, style)]) if upsample else None

    def __call__(
        self, x: Array, skips: list[Array], time: Array, context: PromptContext, size: tuple[int, int] | None
    ) -> Array:
        """`skips` are in the order of their use; `size` is (height, width) of an upsampled result."""
        for index, (resnet, skip) in enumerate(zip(self.resnets, skips, strict=True)):
            x = resnet(jnp.concatenate([x, skip], axis=-1), time)
            if self.attentions is not None:
                x = self.attentions[index](x, context)
        return x if self.upsamplers is None else self.upsamplers[0](x, size)

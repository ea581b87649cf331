"""The denoising network, the reference's `UNet2DConditionModel`, built from its config.json."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.activations import activation
from sdjax_engine.models.attention import Attention, BasicTransformerBlock, PromptContext
from sdjax_engine.models.config import Config
from sdjax_engine.models.cross_attention_inputs import Context, Projection
from sdjax_engine.models.layers import (
    GroupNorm,
    Shared,
    TimestepEmbedding,
    conv,
    guidance_sinusoids,
    timestep_sinusoids,
)
from sdjax_engine.models.unet_blocks import (
    BlockAttention,
    DownBlock2D,
    MiddleBlock,
    ResnetStyle,
    UpBlock2D,
)
from sdjax_engine.models.unet_config import NAME, down_layers, mid_layers, settle_unet_config, up_layers


class Residuals(NamedTuple):
    """What a ControlNet adds to a UNet: to each of its skip connections, and to its mid block's result."""

    skips: tuple[Array, ...]
    middle: Array

    def scaled(self, strength: Array) -> Residuals:
        """Return the residuals times each row's `strength` (n,) float32; 0 gives exact zeros."""
        factor = strength[:, None, None, None]

        def of(x: Array) -> Array:
            return jnp.where(factor == 0, 0.0, factor * x.astype(jnp.float32)).astype(x.dtype)

        return Residuals(tuple(map(of, self.skips)), of(self.middle))


def style_of(values: Config, dtype: DTypeLike) -> ResnetStyle:
    """The settings of all residual blocks of a UNet or a ControlNet."""
    return ResnetStyle(
        dtype=dtype,
        groups=values["norm_num_groups"],
        eps=values["norm_eps"],
        act=activation(values["act_fn"], model=NAME),
        time_width=values["time_embedding_dim"] or 4 * values["block_out_channels"][0],
    )


class DownwardNetwork(nnx.Module):
    """The part that a UNet and a ControlNet share: from the latents down to the mid block."""

    def __init__(self, values: Config, style: ResnetStyle) -> None:
        widths, act, time_width = values["block_out_channels"], style.act, style.time_width or 0
        self.conv_in = conv(values["in_channels"], widths[0], style, kernel=values["conv_in_kernel"])
        self.time_embedding = TimestepEmbedding(
            widths[0], time_width, act, style, guidance_width=values["time_cond_proj_dim"]
        )
        self.add_embedding = addition_embedding(values, time_width, style)
        self.down_blocks = nnx.List(down_blocks(values, style))
        self.mid_block = mid_block(values, style)
        self.act = act
        self.dtype = style.dtype
        self.time_sinusoids = widths[0]
        self.guidance_sinusoids = values["time_cond_proj_dim"]
        self.id_sinusoids = values["addition_time_embed_dim"]
        self.flip_sin_to_cos = values["flip_sin_to_cos"]
        self.freq_shift = values["freq_shift"]
        self.center_input_sample = values["center_input_sample"]

    def descend(self, x: Array, time: Array, context: PromptContext) -> tuple[Array, list[Array]]:
        """Return the mid block's result, and every intermediate result for the skip connections.

        `x` (n, h, w, width) is what `conv_in` returned, `time` `(n, time_width)` after its activation.
        """
        skips = [x]
        for down in self.down_blocks:
            x, more = down(x, time, context)
            skips += more
        if self.mid_block is not None:
            x = self.mid_block(x, time, context)
        return x, skips

    def name_cross_attentions(self) -> None:
        """Tell each cross-attention layer its place, for a `Projection`."""
        for place, attention in cross_attentions(self).items():
            attention.place = place

    def project(self, context: Array, context_lengths: Array | None = None) -> Projection:
        """Return the keys and values of every cross-attention layer, by its place.

        Keys and values beyond the lengths are made of zeros.
        """
        states = self.read(context, context_lengths).states
        made = {place: layer.project(states) for place, layer in cross_attentions(self).items()}
        return Projection(made, context_lengths)

    def read(self, context: Array, context_lengths: Array | None) -> Context:
        """Return the prompt's encoding in the network's dtype, with zeros beyond the lengths."""
        return Context(context.astype(self.dtype), context_lengths).without_rest()

    def embed_time(self, timesteps: Array, guidance: Array | None) -> Array:
        """Return the embedding `(n, time_width)` of the timesteps and, if given, of the guidance."""
        if (guidance is None) != (self.guidance_sinusoids is None):
            raise ValueError("guidance is what a network with a time_cond_proj_dim needs.")
        sinusoids = self.sinusoids(timesteps, self.time_sinusoids)
        if guidance is None:
            return self.time_embedding(sinusoids)
        embedded = guidance_sinusoids(guidance, self.guidance_sinusoids)
        return self.time_embedding(sinusoids, embedded.astype(self.dtype))

    def add_to_time(self, time: Array, text_embeds: Array | None, time_ids: Array | None) -> Array:
        """Return `time`, plus the embedding of `text_embeds` and `time_ids` if the network takes them."""
        present = [each is not None for each in (text_embeds, time_ids, self.add_embedding)]
        if any(present) and not all(present):
            raise ValueError("text_embeds and time_ids are what a network with an addition_embed_type needs.")
        if self.add_embedding is None or text_embeds is None or time_ids is None:
            return time
        sizes = self.sinusoids(time_ids.reshape(-1), self.id_sinusoids).reshape(len(time_ids), -1)
        return time + self.add_embedding(jnp.concatenate([text_embeds.astype(self.dtype), sizes], axis=-1))

    def sinusoids(self, values: Array, width: int) -> Array:
        """Return `(n, width)` in the network's dtype of `values` (n,)."""
        sinusoids = timestep_sinusoids(
            values, width, flip_sin_to_cos=self.flip_sin_to_cos, freq_shift=self.freq_shift
        )
        return sinusoids.astype(self.dtype)


class UNet2DConditionModel(DownwardNetwork):
    """Predicts the noise of latents from their timestep and the prompt's encoding."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_unet_config(config)
        style = style_of(values, dtype)
        super().__init__(values, style)
        width = values["block_out_channels"][0]
        self.up_blocks = nnx.List(up_blocks(values, style))
        self.conv_norm_out = GroupNorm(width, style.groups, style, eps=style.eps)
        self.conv_out = conv(width, values["out_channels"], style, kernel=values["conv_out_kernel"])
        self.name_cross_attentions()

    def __call__(
        self,
        sample: Array,
        timesteps: Array,
        context: Array | Projection,
        *,
        context_lengths: Array | None = None,
        text_embeds: Array | None = None,
        time_ids: Array | None = None,
        guidance: Array | None = None,
        control: Residuals | None = None,
    ) -> Array:
        """Return the prediction `(n, h, w, out_channels)` in the network's dtype.

        `sample` is `(n, h, w, in_channels)`, `timesteps` `(n,)` and may be fractional, and `context`
        `(n, length, cross_attention_dim)`, the prompt's encoding. With `context_lengths` (n,) int32, at
        least 1, states beyond a row's length have no influence. `context` may also be the result of
        `project`, without `context_lengths`. Networks with an `addition_embed_type` need the pooled
        encoding `text_embeds` (n, pooled width) and the sizes `time_ids` (n, count). Networks with a
        `time_cond_proj_dim` need the scale of the `guidance` (n,) that they were distilled with. The
        residuals `control` are added after the way down. Each result depends on its own row only. Raises
        ValueError for an argument that the network does not take, and for missing `text_embeds`, `time_ids`
        or `guidance` that it needs.
        """
        attended = context if isinstance(context, Projection) else self.read(context, context_lengths)
        time = self.act(self.add_to_time(self.embed_time(timesteps, guidance), text_embeds, time_ids))
        x = sample.astype(self.dtype)
        x = self.conv_in(2 * x - 1 if self.center_input_sample else x)
        x, skips = self.descend(x, time, attended)
        if control is not None:
            x = x + control.middle
            skips = [skip + more for skip, more in zip(skips, control.skips, strict=True)]
        for up in self.up_blocks:
            used = [skips.pop() for _ in up.resnets]
            x = up(x, used, time, attended, skips[-1].shape[1:3] if skips else None)
        return self.conv_out(self.act(self.conv_norm_out(x)))


def cross_attentions(network: nnx.Module) -> dict[str, Attention]:
    """Return the cross-attention layers by their dotted path."""
    return {
        ".".join(map(str, (*path, name))): attention
        for path, block in nnx.iter_modules(network)
        if isinstance(block, BasicTransformerBlock)
        for name, attention in block.cross_attentions.items()
    }


def addition_embedding(values: Config, time_width: int, shared: Shared) -> TimestepEmbedding | None:
    """The embedding of SDXL's pooled encoding and sizes; its activation is SiLU in every checkpoint."""
    if values["addition_embed_type"] is None:
        return None
    width_in = values["projection_class_embeddings_input_dim"]
    return TimestepEmbedding(width_in, time_width, activation("silu", model=NAME), shared)


def attention_of(
    values: Config, block: int, layers: tuple[int, ...], *, only_cross: bool = False
) -> BlockAttention | None:
    """The settings of this block's transformers, or None if it has none."""
    if not layers:
        return None
    return BlockAttention(
        heads=values["num_attention_heads"][block],
        context_width=values["cross_attention_dim"][block],
        layers=layers,
        only_cross=only_cross,
    )


def down_blocks(values: Config, style: ResnetStyle) -> list[DownBlock2D]:
    """The down blocks, from the full size to the smallest."""
    widths = values["block_out_channels"]
    return [
        DownBlock2D(
            widths[max(block - 1, 0)],
            width,
            style,
            layers=values["layers_per_block"][block],
            attention=attention_of(
                values, block, down_layers(values, block), only_cross=values["only_cross_attention"][block]
            ),
            downsample=block < len(widths) - 1,
            padding=values["downsample_padding"],
        )
        for block, width in enumerate(widths)
    ]


def mid_block(values: Config, style: ResnetStyle) -> MiddleBlock | None:
    """The block of the smallest size; in the reference it always has self-attention."""
    if values["mid_block_type"] is None:
        return None
    attention = attention_of(values, -1, mid_layers(values))
    return MiddleBlock(values["block_out_channels"][-1], style, attention=attention)


def up_blocks(values: Config, style: ResnetStyle) -> list[UpBlock2D]:
    """The up blocks, from the smallest size to the full one; each mirrors a down block."""
    widths = values["block_out_channels"]
    built = []
    for block in reversed(range(len(widths))):
        width, below = widths[block], widths[min(block + 1, len(widths) - 1)]
        layers = values["layers_per_block"][block] + 1
        skips = (*(width,) * (layers - 1), widths[max(block - 1, 0)])
        hidden = (below, *(width,) * (layers - 1))
        built.append(
            UpBlock2D(
                tuple(a + b for a, b in zip(hidden, skips, strict=True)),
                width,
                style,
                attention=attention_of(
                    values, block, up_layers(values, block), only_cross=values["only_cross_attention"][block]
                ),
                upsample=block > 0,
            )
        )
    return built

"""The denoising network, the reference's `UNet2DConditionModel`, built from its config.json."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.config import Config, check_divisible, check_lengths, per_block, refuse, settle
from sdjax_engine.models.layers import GroupNorm, TimestepEmbedding, activation, conv, timestep_sinusoids
from sdjax_engine.models.unet_blocks import (
    AttentionStyle,
    DownBlock2D,
    ResnetStyle,
    UNetMidBlock2DCrossAttn,
    UpBlock2D,
)

NAME = "UNet2DConditionModel"
DEFAULTS: Config = {
    "act_fn": "silu",
    "attention_head_dim": 8,
    "block_out_channels": (320, 640, 1280, 1280),
    "center_input_sample": False,
    "conv_in_kernel": 3,
    "conv_out_kernel": 3,
    "cross_attention_dim": 1280,
    "down_block_types": (*("CrossAttnDownBlock2D",) * 3, "DownBlock2D"),
    "downsample_padding": 1,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "in_channels": 4,
    "layers_per_block": 2,
    "norm_eps": 1e-5,
    "norm_num_groups": 32,
    "num_attention_heads": None,
    "out_channels": 4,
    "sample_size": None,
    "time_embedding_dim": None,
    "transformer_layers_per_block": 1,
    "up_block_types": ("UpBlock2D", *("CrossAttnUpBlock2D",) * 3),
}
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "attention_type": ("default",),
    "conv_in_kernel": (1, 3, 5, 7),
    "conv_out_kernel": (1, 3, 5, 7),
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "downsample_padding": (0, 1),
    "mid_block_scale_factor": (1,),
    "mid_block_type": ("UNetMidBlock2DCrossAttn",),
    "resnet_out_scale_factor": (None, 1),
    "resnet_time_scale_shift": ("default",),
    "time_embedding_type": ("positional",),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
}
UNUSED = frozenset(
    {
        "addition_embed_type_num_heads",  # only read with an addition_embed_type, which is refused
        "dropout",  # a matter of training
        "upcast_attention",  # scores and softmax are float32 anyway
        "use_linear_projection",  # the same map on channels-last arrays
    }
)


def settle_unet_config(config: Config) -> dict[str, Any]:
    """Return the values the network is built from, with one value for each block where blocks may differ.

    Where `num_attention_heads` is not given, `attention_head_dim` is the number of heads, by an old
    mistake of naming in the reference. Raises UnreadableCheckpoint for what is not supported.
    """
    values = settle(config, model=NAME, defaults=DEFAULTS, supported=SUPPORTED, unused=UNUSED)
    count = len(values["block_out_channels"])
    values["num_attention_heads"] = values["num_attention_heads"] or values["attention_head_dim"]
    lists = ("num_attention_heads", "cross_attention_dim", "layers_per_block", "transformer_layers_per_block")
    check_lengths(
        NAME,
        count=count,
        lists={key: values[key] for key in (*lists, "down_block_types", "up_block_types")},
    )
    values |= {key: per_block(values[key], count) for key in lists}
    refuse(NAME, [f"{key}={values[key]!r}" for key in lists if {type(each) for each in values[key]} != {int}])
    check_divisible(
        NAME, widths=values["block_out_channels"], parts=values["num_attention_heads"], what="heads"
    )
    return values


class UNet2DConditionModel(nnx.Module):
    """A noisy latent picture, its timestep and the prompt's encoding to the prediction of the noise."""

    def __init__(self, config: Config, *, dtype: DTypeLike, rngs: nnx.Rngs) -> None:
        values = settle_unet_config(config)
        widths = values["block_out_channels"]
        act = activation(values["act_fn"], model=NAME)
        time_width = values["time_embedding_dim"] or 4 * widths[0]
        style = ResnetStyle(
            dtype=dtype,
            rngs=rngs,
            groups=values["norm_num_groups"],
            eps=values["norm_eps"],
            act=act,
            time_width=time_width,
        )
        self.conv_in = conv(values["in_channels"], widths[0], style, kernel=values["conv_in_kernel"])
        self.time_embedding = TimestepEmbedding(widths[0], time_width, act, style)
        self.down_blocks = nnx.List(down_blocks(values, style))
        self.mid_block = UNetMidBlock2DCrossAttn(widths[-1], style, attention=attention_of(values, -1))
        self.up_blocks = nnx.List(up_blocks(values, style))
        self.conv_norm_out = GroupNorm(widths[0], style.groups, style, eps=style.eps)
        self.conv_out = conv(widths[0], values["out_channels"], style, kernel=values["conv_out_kernel"])
        self.act = act
        self.dtype = dtype
        self.sinusoids = (widths[0], values["flip_sin_to_cos"], values["freq_shift"])
        self.center_input_sample = values["center_input_sample"]

    def __call__(self, sample: Array, timesteps: Array, encoder_hidden_states: Array) -> Array:
        """Return the prediction `(n, h, w, out_channels)` in the network's dtype.

        `sample` is `(n, h, w, in_channels)`, `timesteps` `(n,)` and may be fractional, and
        `encoder_hidden_states` `(n, length, cross_attention_dim)`. Rows never meet: each result depends on
        its own row only.
        """
        context = encoder_hidden_states.astype(self.dtype)
        time = self.embed_time(timesteps)
        x = sample.astype(self.dtype)
        x = self.conv_in(2 * x - 1 if self.center_input_sample else x)
        skips = [x]
        for down in self.down_blocks:
            x, more = down(x, time, context)
            skips += more
        x = self.mid_block(x, time, context)
        for up in self.up_blocks:
            used = [skips.pop() for _ in up.resnets]
            x = up(x, used, time, context, skips[-1].shape[1:3] if skips else None)
        return self.conv_out(self.act(self.conv_norm_out(x)))

    def embed_time(self, timesteps: Array) -> Array:
        """Return what the residual blocks add, `(n, time_width)`, their activation already applied."""
        width, flip_sin_to_cos, freq_shift = self.sinusoids
        sinusoids = timestep_sinusoids(
            timesteps, width, flip_sin_to_cos=flip_sin_to_cos, freq_shift=freq_shift
        )
        return self.act(self.time_embedding(sinusoids.astype(self.dtype)))


def attention_of(values: Config, block: int) -> AttentionStyle:
    return AttentionStyle(
        heads=values["num_attention_heads"][block],
        context_width=values["cross_attention_dim"][block],
        layers=values["transformer_layers_per_block"][block],
    )


def down_blocks(values: Config, style: ResnetStyle) -> list[DownBlock2D]:
    """The blocks from the full picture down to the smallest."""
    widths = values["block_out_channels"]
    last = len(widths) - 1
    return [
        DownBlock2D(
            widths[max(block - 1, 0)],
            widths[block],
            style,
            layers=values["layers_per_block"][block],
            attention=attention_of(values, block) if kind.startswith("CrossAttn") else None,
            downsample=block < last,
            padding=values["downsample_padding"],
        )
        for block, kind in enumerate(values["down_block_types"])
    ]


def up_blocks(values: Config, style: ResnetStyle) -> list[UpBlock2D]:
    """The blocks from the smallest picture up; `up_block_types` is in that order, every other list is not."""
    widths = values["block_out_channels"]
    built = []
    for block, kind in zip(reversed(range(len(widths))), values["up_block_types"], strict=True):
        width, below = widths[block], widths[min(block + 1, len(widths) - 1)]
        layers = values["layers_per_block"][block] + 1
        skips = (*(width,) * (layers - 1), widths[max(block - 1, 0)])
        hidden = (below, *(width,) * (layers - 1))
        built.append(
            UpBlock2D(
                tuple(a + b for a, b in zip(hidden, skips, strict=True)),
                width,
                style,
                attention=attention_of(values, block) if kind.startswith("CrossAttn") else None,
                upsample=block > 0,
            )
        )
    return built

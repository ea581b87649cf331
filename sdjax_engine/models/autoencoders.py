"""The autoencoders between pictures and latents: `AutoencoderKL`, and a tiny one's decoder for previews."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.activations import Activation, activation
from sdjax_engine.models.attention import PictureAttention
from sdjax_engine.models.config import (
    AUTOENCODER,
    BLOCKS,
    TINY_AUTOENCODER,
    WIDTHS,
    Config,
    settle_autoencoder_tiny_config,
    settle_vae_config,
)
from sdjax_engine.models.layers import GroupNorm, Shared, Upsample2D, conv, doubled, linear
from sdjax_engine.models.unet_blocks import DownBlock2D, ResnetBlock2D, ResnetStyle

NORM_EPS = 1e-6
LOGVAR_RANGE = (-30.0, 20.0)


class AutoencoderKL(nnx.Module):
    """Decodes latents and encodes pictures; pictures are in [-1, 1], latents are before `scaling_factor`.

    If the configuration has `latents_mean` and `latents_std`, latents are normalised with them, as in the
    reference's SDXL pipelines.
    """

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        self.build(settle_vae_config(config), dtype)

    def build(self, values: Config, dtype: DTypeLike) -> None:
        """Make the layers of a settled configuration."""
        style = ResnetStyle(
            dtype=dtype,
            groups=values["norm_num_groups"],
            eps=NORM_EPS,
            act=activation(values["act_fn"], model=AUTOENCODER),
            time_width=None,
        )
        latent = values["latent_channels"]
        self.encoder = VaeEncoder(values, style)
        of_decoder = values.get("decoder_block_out_channels") or values["block_out_channels"]
        self.decoder = VaeDecoder({**values, "block_out_channels": of_decoder}, style)
        self.quant_conv = linear(2 * latent, 2 * latent, style) if values["use_quant_conv"] else None
        self.post_quant_conv = linear(latent, latent, style) if values["use_post_quant_conv"] else None
        self.dtype = dtype
        self.latents_mean = values["latents_mean"]
        self.latents_std = values["latents_std"]

    def decode(self, latents: Array) -> Array:
        """Return pictures `(n, f·h, f·w, 3)` of `latents` (n, h, w, latent_channels); f = 2^(blocks - 1)."""
        if self.latents_mean is not None:
            latents = latents.astype(jnp.float32) * per_channel(self.latents_std) + per_channel(
                self.latents_mean
            )
        x = latents.astype(self.dtype)
        return self.decoder(x if self.post_quant_conv is None else self.post_quant_conv(x))

    def encode(self, pixels: Array) -> tuple[Array, Array]:
        """Return the mean and the clipped log variance of the latents of `pixels` (n, h, w, 3)."""
        moments = self.encoder(pixels.astype(self.dtype))
        moments = moments if self.quant_conv is None else self.quant_conv(moments)
        mean, logvar = jnp.split(moments, 2, axis=-1)
        logvar = jnp.clip(logvar, *LOGVAR_RANGE)
        if self.latents_mean is None:
            return mean, logvar
        mean = (mean.astype(jnp.float32) - per_channel(self.latents_mean)) / per_channel(self.latents_std)
        return mean, logvar.astype(jnp.float32) - 2 * jnp.log(per_channel(self.latents_std))


def per_channel(values: tuple[float, ...]) -> Array:
    return jnp.asarray(values, jnp.float32).reshape(1, 1, 1, -1)


class VaeEncoder(nnx.Module):
    """Encodes pictures to the moments of their latents."""

    def __init__(self, values: Config, style: ResnetStyle) -> None:
        widths = values["block_out_channels"]
        self.conv_in = conv(values["in_channels"], widths[0], style)
        self.down_blocks = nnx.List(
            DownBlock2D(
                widths[max(block - 1, 0)],
                width,
                style,
                layers=values["layers_per_block"],
                downsample=block < len(widths) - 1,
                padding=0,
            )
            for block, width in enumerate(widths)
        )
        self.mid_block = MidBlock2D(widths[-1], style, attention=values["mid_block_add_attention"])
        self.conv_norm_out = GroupNorm(widths[-1], style.groups, style, eps=style.eps)
        self.conv_out = conv(widths[-1], 2 * values["latent_channels"], style)
        self.act = style.act

    def __call__(self, x: Array) -> Array:
        x = self.conv_in(x)
        for block in self.down_blocks:
            x, _ = block(x)
        return self.conv_out(self.act(self.conv_norm_out(self.mid_block(x))))


class VaeDecoder(nnx.Module):
    """Decodes latents to pictures."""

    def __init__(self, values: Config, style: ResnetStyle) -> None:
        widths = tuple(reversed(values["block_out_channels"]))
        self.conv_in = conv(values["latent_channels"], widths[0], style)
        self.mid_block = MidBlock2D(widths[0], style, attention=values["mid_block_add_attention"])
        self.up_blocks = nnx.List(
            UpDecoderBlock2D(
                widths[max(block - 1, 0)],
                width,
                style,
                layers=values["layers_per_block"] + 1,
                upsample=block < len(widths) - 1,
            )
            for block, width in enumerate(widths)
        )
        self.conv_norm_out = GroupNorm(widths[-1], style.groups, style, eps=style.eps)
        self.conv_out = conv(widths[-1], values["out_channels"], style)
        self.act = style.act

    def __call__(self, x: Array) -> Array:
        x = self.mid_block(self.conv_in(x))
        for block in self.up_blocks:
            x = block(x)
        return self.conv_out(self.act(self.conv_norm_out(x)))


class MidBlock2D(nnx.Module):
    """Two residual blocks, with optional self-attention between them."""

    def __init__(self, width: int, style: ResnetStyle, *, attention: bool) -> None:
        self.resnets = nnx.List(ResnetBlock2D(width, width, style) for _ in range(2))
        self.attentions = (
            nnx.List([PictureAttention(width, style.groups, style, eps=style.eps)]) if attention else None
        )

    def __call__(self, x: Array) -> Array:
        x = self.resnets[0](x)
        if self.attentions is not None:
            x = self.attentions[0](x)
        return self.resnets[1](x)


class UpDecoderBlock2D(nnx.Module):
    """Residual blocks, then an upsampling."""

    def __init__(self, width_in: int, width: int, style: ResnetStyle, *, layers: int, upsample: bool) -> None:
        widths = (width_in, *(width,) * (layers - 1))
        self.resnets = nnx.List(ResnetBlock2D(each, width, style) for each in widths)
        self.upsamplers = nnx.List([Upsample2D(width, style)]) if upsample else None

    def __call__(self, x: Array) -> Array:
        for resnet in self.resnets:
            x = resnet(x)
        return x if self.upsamplers is None else self.upsamplers[0](x)


LIMIT = 3.0  # tanh keeps the latents below this


class AutoencoderTiny(nnx.Module):
    """Decodes latents to pictures in [-1, 1]; the latents are the UNet's divided by `scaling_factor`.

    The encoder is left out: previews only decode.
    """

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_autoencoder_tiny_config(config)
        self.decoder = DecoderTiny(values, Shared(dtype=dtype))
        self.dtype = dtype

    def decode(self, latents: Array) -> Array:
        """Return pictures `(n, f·h, f·w, 3)` of `latents` (n, h, w, latent_channels); f: see `factor_of`."""
        limited = jnp.tanh(latents.astype(jnp.float32) / LIMIT) * LIMIT
        return self.decoder(limited.astype(self.dtype)) * 2 - 1


class DecoderTiny(nnx.Module):
    """Convolutions, residual blocks and upsamplings in one list, with the reference's numbering."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width, counts = values[WIDTHS][0], values[BLOCKS]
        act = activation(values["act_fn"], model=TINY_AUTOENCODER)
        layers = [conv(values["latent_channels"], width, shared), FunctionLayer(act)]
        for count in counts[:-1]:
            layers += [BlockTiny(width, act, shared) for _ in range(count)]
            layers += [FunctionLayer(doubled), conv(width, width, shared, bias=False)]
        layers += [BlockTiny(width, act, shared) for _ in range(counts[-1])]
        self.layers = nnx.List([*layers, conv(width, values["out_channels"], shared)])

    def __call__(self, x: Array) -> Array:
        for layer in self.layers:
            x = layer(x)
        return x


class BlockTiny(nnx.Module):
    """Three convolutions with a residual, the reference's `AutoencoderTinyBlock`."""

    def __init__(self, width: int, act: Activation, shared: Shared) -> None:
        first, second, third = (conv(width, width, shared) for _ in range(3))
        self.conv = nnx.List([first, FunctionLayer(act), second, FunctionLayer(act), third])

    def __call__(self, x: Array) -> Array:
        y = x
        for layer in self.conv:
            y = layer(y)
        return jax.nn.relu(x + y)


class FunctionLayer(nnx.Module):
    """A layer without parameters, which takes a place in the numbering of the layers."""

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self.function = function

    def __call__(self, x: Array) -> Array:
        return self.function(x)

"""The decoder of a tiny autoencoder (TAESD), the reference's `AutoencoderTiny`, for previews."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.activations import Activation, activation
from sdjax_engine.models.autoencoder_tiny_config import BLOCKS, NAME, WIDTHS, settle_autoencoder_tiny_config
from sdjax_engine.models.config import Config
from sdjax_engine.models.layers import Shared, conv, doubled

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
        act = activation(values["act_fn"], model=NAME)
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

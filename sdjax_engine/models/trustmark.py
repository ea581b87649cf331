"""TrustMark's networks, the reference's `Unet1` and `SecretDecoder` (Bui et al. 2023): a watermark of bits.

Attributes have the names of the published checkpoints. Pictures are channels-last, in [-1, 1].
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.activations import Activation
from sdjax_engine.models.config import Config
from sdjax_engine.models.layers import Padding, Shared, along_last, conv, doubled, linear, parameter

PIXELS = 256  # a side of the encoder's pictures
TILES = 16  # a side of the picture that the bits become
EXPANSION = 4  # of a residual block's last convolution
NORM_EPS = 1e-5
BELOW_RIGHT = ((0, 1), (0, 1))


class TrustMarkEncoder(nnx.Module):
    """Makes the residual that carries bits through a picture: a U-Net.

    `config`: `bits`, the `width` of the first convolution, its doublings (`down`), and `middle` blocks of as
    many pairs of convolutions.
    """

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        shared, width, down = Shared(dtype=dtype), config["width"], config["down"]
        self.secret2image = SecretPicture(config["bits"], shared)
        self.pre = Activated(6, width, jax.nn.silu, shared)
        self.enc = nnx.List(
            [Activated(width << i, width << i + 1, jax.nn.relu, shared, stride=2) for i in range(down)]
        )
        deepest = width << down
        self.middle = nnx.List([Pairs(config["middle"], deepest, shared) for _ in range(config["middle"])])
        self.dec = nnx.List(
            [Up(width << i, 0 if i else 6, shared) for i in reversed(range(down))]  # the last sees the inputs
        )
        self.post = nnx.List(
            [
                Activated(width, width, jax.nn.silu, shared),
                Activated(width, width // 2, jax.nn.silu, shared, kernel=1),
                Activated(width // 2, 3, jnp.tanh, shared, kernel=1),
            ]
        )

    def __call__(self, pictures: Array, bits: Array) -> Array:
        """Return the residual (n, 256, 256, 3) of `pictures`, of that shape, for `bits` (n, bits) of 0 and 1.

        Its mean over the pixels of each channel is 0, so colours do not shift.
        """
        inputs = jnp.concatenate([pictures, self.secret2image(bits)], -1)
        x, skips = self.pre(inputs), []
        for block in self.enc:
            skips.append(x)
            x = block(x)
        for pairs in self.middle:
            x = pairs(x)
        skips[0] = jnp.concatenate([skips[0], inputs], -1)
        for up, skip in zip(self.dec, reversed(skips), strict=True):
            x = up(x, skip)
        for layer in self.post:
            x = layer(x)
        residual = jnp.clip(x, -1, 1) - pictures
        return residual - residual.mean((1, 2), keepdims=True)


class SecretPicture(nnx.Module):
    """Bits as a picture of 16×16 tiles of one colour each, the reference's `Secret2Image`."""

    def __init__(self, bits: int, shared: Shared) -> None:
        self.dense = linear(bits, 3 * TILES * TILES, shared)

    def __call__(self, bits: Array) -> Array:
        tiles = self.dense(bits).reshape(-1, 3, TILES, TILES).transpose(0, 2, 3, 1)
        larger = tiles.repeat(PIXELS // TILES, axis=1).repeat(PIXELS // TILES, axis=2)
        return jax.nn.relu(larger)


class Activated(nnx.Module):
    """A convolution and its activation, the reference's `Conv2d` and `Conv2dBlock`."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        act: Activation | None,
        shared: Shared,
        *,
        kernel: int = 3,
        stride: int = 1,
        padding: Padding | None = None,
    ) -> None:
        self.conv = conv(width_in, width_out, shared, kernel=kernel, stride=stride, padding=padding)
        self.act = act

    def __call__(self, x: Array) -> Array:
        y = self.conv(x)
        return y if self.act is None else self.act(y)


class Pairs(nnx.Module):
    """Pairs of convolutions, each pair with a residual, the reference's `ResBlocks`."""

    def __init__(self, count: int, width: int, shared: Shared) -> None:
        self.model = nnx.List([Pair(width, shared) for _ in range(count)])

    def __call__(self, x: Array) -> Array:
        for pair in self.model:
            x = pair(x)
        return x


class Pair(nnx.Module):
    """Two convolutions with a residual, the reference's `ResBlock`."""

    def __init__(self, width: int, shared: Shared) -> None:
        first, second = Activated(width, width, jax.nn.silu, shared), Activated(width, width, None, shared)
        self.model = nnx.List([first, second])

    def __call__(self, x: Array) -> Array:
        first, second = self.model
        return x + second(first(x))


class Up(nnx.Module):
    """Doubles height and width, and joins the skip connection, the reference's `DecBlock`."""

    def __init__(self, width: int, further: int, shared: Shared) -> None:
        self.conv1 = Activated(2 * width, width, jax.nn.silu, shared, kernel=2, padding=BELOW_RIGHT)
        self.conv2 = Activated(2 * width + further, width, jax.nn.silu, shared)

    def __call__(self, x: Array, skip: Array) -> Array:
        """`skip` has `width` channels and, in the last block, `further` ones."""
        return self.conv2(jnp.concatenate([self.conv1(doubled(x)), skip], -1))


class TrustMarkDecoder(nnx.Module):
    """Reads bits from a picture: torchvision's ResNet-50 (He et al. 2016), with a number for each bit.

    `config`: `bits`, the `width` of the first convolution, and the `blocks` of the four layers.
    """

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        shared, width = Shared(dtype=dtype), config["width"]
        self.conv1 = conv(3, width, shared, kernel=7, stride=2, bias=False)
        self.bn1 = KeptNorm(width, shared)
        layers, width_in = [], width
        for number, count in enumerate(config["blocks"]):
            stride = 2 if number else 1
            layers.append(blocks(width_in, width << number, count, stride, shared))
            width_in = EXPANSION * width << number
        self.layer1, self.layer2, self.layer3, self.layer4 = layers
        self.fc = linear(width_in, config["bits"], shared)

    def __call__(self, pictures: Array) -> Array:
        """Return numbers (n, bits) of `pictures` (n, 224, 224, 3): a bit is 1 where its number is over 0."""
        x = jax.nn.relu(self.bn1(self.conv1(pictures)))
        x = nnx.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
        for block in (*self.layer1, *self.layer2, *self.layer3, *self.layer4):
            x = block(x)
        return self.fc(x.mean((1, 2)))


def blocks(width_in: int, width: int, count: int, stride: int, shared: Shared) -> nnx.List[Bottleneck]:
    """Return a layer: blocks of one resolution, of which the first divides height and width by `stride`."""
    first = Bottleneck(width_in, width, stride, shared)
    return nnx.List([first, *(Bottleneck(EXPANSION * width, width, 1, shared) for _ in range(count - 1))])


class Bottleneck(nnx.Module):
    """Three convolutions with a residual; the middle one has the stride, as in torchvision."""

    def __init__(self, width_in: int, width: int, stride: int, shared: Shared) -> None:
        width_out = EXPANSION * width
        self.conv1, self.bn1 = conv(width_in, width, shared, kernel=1, bias=False), KeptNorm(width, shared)
        self.conv2 = conv(width, width, shared, stride=stride, bias=False)
        self.bn2 = KeptNorm(width, shared)
        self.conv3 = conv(width, width_out, shared, kernel=1, bias=False)
        self.bn3 = KeptNorm(width_out, shared)
        self.downsample = nnx.List(
            []
            if (width_in, stride) == (width_out, 1)
            else [
                conv(width_in, width_out, shared, kernel=1, stride=stride, bias=False),
                KeptNorm(width_out, shared),
            ]
        )

    def __call__(self, x: Array) -> Array:
        y = jax.nn.relu(self.bn1(self.conv1(x)))
        y = jax.nn.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        for part in self.downsample:
            x = part(x)
        return jax.nn.relu(x + y)


class KeptNorm(nnx.Module):
    """A batch norm with the statistics that training kept."""

    def __init__(self, width: int, shared: Shared) -> None:
        self.scale, self.bias = parameter((width,), shared), parameter((width,), shared)
        self.running_mean, self.running_var = parameter((width,), shared), parameter((width,), shared)

    def __call__(self, x: Array) -> Array:
        factor = along_last(self.scale, x) * jax.lax.rsqrt(along_last(self.running_var, x) + NORM_EPS)
        return (x - along_last(self.running_mean, x)) * factor + along_last(self.bias, x)

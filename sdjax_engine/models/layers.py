"""The smallest parts: linear maps, convolutions, norms, resampling and the embedding of timesteps.

Arrays are channels-last. Every layer computes in the network's dtype; norms take their statistics in float32.
A new layer has the shapes of its parameters and no values: these come from files, or are a program's inputs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models.activations import Activation
from sdjax_engine.models.attention_kernels import found_backend

PIXELS_OF_A_PART, MOST_PARTS = 256, 256
Adapter = Callable[[Array], Array]
Padding = int | tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The settings that all layers of one network share."""

    dtype: DTypeLike

    @property
    def library(self) -> dict[str, Any]:
        """The settings as keyword arguments of the `nnx` layers."""
        return {"dtype": self.dtype, "param_dtype": self.dtype, "rngs": NO_KEYS}


class NoKeys:
    """Replaces `nnx.Rngs` in `nnx` layers: no value is drawn, so no key is needed."""

    def params(self) -> None: ...


NO_KEYS = NoKeys()


def parameter(shape: tuple[int, ...], shared: Shared) -> nnx.Param[Array]:
    """A parameter without a value."""
    return nnx.Param(without_value(None, shape, shared.dtype))


def without_value(_: None, shape: tuple[int, ...], dtype: DTypeLike) -> jax.ShapeDtypeStruct:
    """Initialise a parameter of an `nnx` layer by its shape alone.

    Raises ValueError where it has no elements, and TypeError for sizes that are no integers.
    """
    try:
        shape = tuple(map(operator.index, shape))
    except TypeError as error:
        raise TypeError(f"no parameter has the shape {shape}: {error}") from error
    if min(shape) < 1:
        raise ValueError(f"no parameter has the shape {shape}")
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


WITHOUT_VALUES: dict[str, Any] = {"kernel_init": without_value, "bias_init": without_value}


class Linear(nnx.Linear):
    """A linear map of the last axis. If an `adapter` is set, its result for the input is added.

    If a `kernel_scale` (width_out,) float32 is set, the kernel is INT8: a weight is its number times the
    scale of its output. Both are set on a finished module.
    """

    adapter: Adapter | None = None
    kernel_scale: Array | None = None

    def __call__(self, x: Array) -> Array:
        y = super().__call__(x) if self.kernel_scale is None else self.scaled(x, self.kernel_scale)
        return y if self.adapter is None else y + self.adapter(x)

    def scaled(self, x: Array, scale: Array) -> Array:
        """Return the product with a kernel in INT8.

        The kernel's numbers are exact in bfloat16, so that the product's operands can be those of the kernel
        in bfloat16. XLA converts them within the product; the scale is applied to its sums in float32.
        """
        kernel = self.kernel[...].astype(self.dtype)
        y = jnp.matmul(x.astype(self.dtype), kernel, preferred_element_type=jnp.float32)
        y = y * scale.reshape((1,) * (y.ndim - 1) + (-1,))
        return (y if self.bias is None else y + along_last(self.bias, y)).astype(self.dtype)


class Conv(nnx.Conv):
    """A convolution of `(n, h, w, width_in)`, with an `adapter` as in `Linear`."""

    adapter: Adapter | None = None

    def __call__(self, x: Array) -> Array:
        y = super().__call__(x)
        return y if self.adapter is None else y + self.adapter(x)


def linear(width_in: int, width_out: int, shared: Shared, *, bias: bool = True) -> Linear:
    """A linear map of the last axis; on channels-last arrays it is also a 1×1 convolution."""
    return Linear(width_in, width_out, use_bias=bias, **WITHOUT_VALUES, **shared.library)


def embedding(count: int, width: int, shared: Shared) -> nnx.Embed:
    """A vector of `width` for each of the numbers below `count`."""
    return nnx.Embed(count, width, embedding_init=without_value, **shared.library)


def conv(
    width_in: int,
    width_out: int,
    shared: Shared,
    *,
    kernel: int = 3,
    stride: int = 1,
    padding: Padding | None = None,
    bias: bool = True,
) -> Conv:
    """A convolution; it keeps height and width unless `stride` or `padding` is given."""
    return Conv(
        width_in,
        width_out,
        (kernel, kernel),
        strides=stride,
        padding=(kernel - 1) // 2 if padding is None else padding,
        use_bias=bias,
        **WITHOUT_VALUES,
        **shared.library,
    )


class LayerNorm(nnx.Module):
    """Normalises the last axis; statistics in float32."""

    def __init__(self, width: int, shared: Shared, *, eps: float = 1e-5) -> None:
        self.scale = parameter((width,), shared)
        self.bias = parameter((width,), shared)
        self.eps = eps
        self.dtype = shared.dtype

    def __call__(self, x: Array) -> Array:
        """`x` is `(..., width)`."""
        x = x.astype(jnp.float32)
        centred = x - x.mean(-1, keepdims=True)
        factor = jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + self.eps)
        return (centred * factor * along_last(self.scale, x) + along_last(self.bias, x)).astype(self.dtype)


class RMSNorm(nnx.Module):
    """Scales the last axis to a mean square of 1 (Zhang and Sennrich 2019); statistics in float32."""

    def __init__(self, width: int, shared: Shared, *, eps: float) -> None:
        self.scale = parameter((width,), shared)
        self.eps = eps
        self.dtype = shared.dtype

    def __call__(self, x: Array) -> Array:
        """`x` is `(..., width)`."""
        x = x.astype(jnp.float32)
        factor = jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + self.eps)
        return (x * factor * along_last(self.scale, x)).astype(self.dtype)


def normalised(x: Array, eps: float) -> Array:
    """Return `x` (..., width) less its mean, with a variance of 1, over the last axis; both in float32."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    return (centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + eps)).astype(x.dtype)


class GroupNorm(nnx.Module):
    """Normalises groups of channels over the pixels of each picture; statistics in float32.

    The pixels of each channel are summed first, the channels of a group afterwards. The long reduction is
    then over contiguous channels, which is several times faster on CPUs.
    """

    def __init__(self, width: int, groups: int, shared: Shared, *, eps: float) -> None:
        if groups < 1 or width % groups:
            raise UnreadableCheckpoint(f"{width} channels cannot be normalised in {groups} groups.")
        self.scale = parameter((width,), shared)
        self.bias = parameter((width,), shared)
        self.groups = groups
        self.eps = eps
        self.dtype = shared.dtype

    def __call__(self, x: Array, shift: Array | None = None) -> Array:
        """Return `x` (n, h, w, width), normalised; `shift` (n, width) is first added to every pixel."""
        of_each = None if shift is None else shift[:, None, None, :]
        if jnp.dtype(self.dtype).itemsize < jnp.dtype(jnp.float32).itemsize:
            return self.in_two_reads(x, of_each)
        return self.in_three_reads(x if of_each is None else x + of_each)

    def in_three_reads(self, x: Array) -> Array:
        """Normalise `x`, reading it three times: for the means, for the variances, and for the result."""
        x = x.astype(jnp.float32)
        centred = x - self.mean_of_groups(x.mean((1, 2), keepdims=True))
        variance = self.mean_of_groups(jnp.square(centred).mean((1, 2), keepdims=True))
        factor = jax.lax.rsqrt(variance + self.eps)
        return (centred * (factor * along_last(self.scale, x)) + along_last(self.bias, x)).astype(self.dtype)

    def in_two_reads(self, x: Array, shift: Array | None) -> Array:
        """Normalise `x`, which was rounded to 16 bits, reading it twice: for both sums, and for the result.

        The variance is the mean of the squares less the square of the mean. Where the mean is r standard
        deviations, this loses 6e-8·r² of the variance in float32, and the rounding to 16 bits 4e-6·r².
        `shift` (n, 1, 1, width) is added to the sums, so that no shifted pixels are written to memory.
        """
        x = x.astype(jnp.float32)
        shift = jnp.zeros((1, 1, 1, 1)) if shift is None else shift.astype(jnp.float32)
        total, squares = sums_of_parts(x)
        pixels = x.shape[1] * x.shape[2] / total.shape[1]
        squares = self.sum_of_groups(squares + shift * (2 * total + pixels * shift))
        mean = self.sum_of_groups(total + pixels * shift) / (x[0].size // self.groups)
        variance = squares / (x[0].size // self.groups) - jnp.square(mean)
        factor = jax.lax.rsqrt(jnp.maximum(variance, 0) + self.eps) * along_last(self.scale, x)
        return (x * factor + ((shift - mean) * factor + along_last(self.bias, x))).astype(self.dtype)

    def mean_of_groups(self, of_channels: Array) -> Array:
        """Return the mean of each channel's group, from the channels' means; both `(n, 1, 1, width)`."""
        return self.sum_of_groups(of_channels) / (of_channels.shape[-1] // self.groups)

    def sum_of_groups(self, of_parts: Array) -> Array:
        """Return the sum of each channel's group, (n, 1, 1, width), from sums (n, parts, 1, width)."""
        n, parts, _, width = of_parts.shape
        grouped = of_parts.reshape(n, parts, self.groups, width // self.groups)
        of_groups = grouped.sum((1, 3), keepdims=True)
        return jnp.broadcast_to(of_groups, (n, 1, *grouped.shape[2:])).reshape(n, 1, 1, width)


def sums_of_parts(x: Array) -> tuple[Array, Array]:
    """Return the sums of `x` (n, h, w, width) and of its squares over parts of the pixels.

    Both are (n, parts, 1, width). On a GPU, different cores sum the parts; one sum over all pixels would use
    a few cores and leave the others idle. On other platforms all pixels are one part.
    """
    n, height, width, channels = x.shape
    parts = part_count(height * width) if found_backend().platform == "gpu" else 1
    if parts == 1:
        return x.sum((1, 2), keepdims=True), jnp.square(x).sum((1, 2), keepdims=True)
    divided = x.reshape(n, parts, -1, channels)
    made = divided.sum(2, keepdims=True), jnp.square(divided).sum(2, keepdims=True)
    together: tuple[Array, Array] = jax.lax.optimization_barrier(made)  # or XLA sums all pixels at once
    return together


def part_count(pixels: int) -> int:
    """Return the greatest power of two that divides `pixels` into large parts, `MOST_PARTS` at most."""
    parts = 1
    while 2 * parts <= MOST_PARTS and pixels % (2 * parts) == 0 and pixels >= 2 * parts * PIXELS_OF_A_PART:
        parts *= 2
    return parts


def along_last(parameter: nnx.Param[Array], like: Array) -> Array:
    """Return a float32 vector shaped to multiply the last axis of `like`."""
    return parameter[...].astype(jnp.float32).reshape((1,) * (like.ndim - 1) + (-1,))


class Downsample2D(nnx.Module):
    """Halves height and width by a strided convolution. If `padding` is 0, pads one pixel right and below."""

    def __init__(self, width: int, shared: Shared, *, padding: int) -> None:
        self.conv = conv(width, width, shared, stride=2, padding=padding or ((0, 1), (0, 1)))

    def __call__(self, x: Array) -> Array:
        return self.conv(x)


class Upsample2D(nnx.Module):
    """Doubles height and width by repeating pixels, then convolves."""

    def __init__(self, width: int, shared: Shared) -> None:
        self.conv = conv(width, width, shared)

    def __call__(self, x: Array, size: tuple[int, int] | None = None) -> Array:
        """The doubled picture is cut to `size` (height, width), that of the next skip connection."""
        x = doubled(x)
        return self.conv(x if size is None else x[:, : size[0], : size[1]])


def doubled(x: Array) -> Array:
    """Return pictures (n, h, w, channels) of twice the height and width, each pixel repeated."""
    n, height, width, channels = x.shape
    x = jnp.broadcast_to(x[:, :, None, :, None, :], (n, height, 2, width, 2, channels))
    return x.reshape(n, 2 * height, 2 * width, channels)


class TimestepEmbedding(nnx.Module):
    """Two linear maps with an activation between them; a third adds the guidance if the network takes it."""

    def __init__(
        self,
        width_in: int,
        width: int,
        act: Activation,
        shared: Shared,
        *,
        guidance_width: int | None = None,
        bias: bool = True,
    ) -> None:
        self.linear_1 = linear(width_in, width, shared, bias=bias)
        self.linear_2 = linear(width, width, shared, bias=bias)
        self.cond_proj = (
            None if guidance_width is None else linear(guidance_width, width_in, shared, bias=False)
        )
        self.act = act

    def __call__(self, x: Array, guidance: Array | None = None) -> Array:
        """`x` is `(n, width_in)`, `guidance` `(n, guidance_width)`."""
        if self.cond_proj is not None and guidance is not None:
            x = x + self.cond_proj(guidance)
        return self.linear_2(self.act(self.linear_1(x)))


def timestep_sinusoids(timesteps: Array, width: int, *, flip_sin_to_cos: bool, freq_shift: float) -> Array:
    """Return `(n, width)` float32 sinusoids of `timesteps` (n,) (Ho et al. 2020, "Denoising Diffusion")."""
    half = width // 2
    exponents = -math.log(10000.0) * jnp.arange(half, dtype=jnp.float32) / (half - freq_shift)
    angles = timesteps.astype(jnp.float32)[:, None] * jnp.exp(exponents)[None, :]
    parts = (jnp.cos(angles), jnp.sin(angles)) if flip_sin_to_cos else (jnp.sin(angles), jnp.cos(angles))
    joined = jnp.concatenate(parts, axis=-1)
    return jnp.pad(joined, ((0, 0), (0, width % 2)))


def guidance_sinusoids(guidance: Array, width: int) -> Array:
    """Return `(n, width)` float32 sinusoids of guidance scales `(n,)`.

    The networks were trained on the scale less one (Luo et al. 2023, "Latent Consistency Models").
    """
    thousandths = 1000.0 * (guidance.astype(jnp.float32) - 1.0)
    return timestep_sinusoids(thousandths, width, flip_sin_to_cos=False, freq_shift=1)

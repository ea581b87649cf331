"""Weights for TrustMark's networks from a formula, so that they need not be kept; no torch here.

`trustmark_reference.py` gives the same ones to the reference.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Shapes = Mapping[str, tuple[int, ...]]
WIDTH, DECODER_WIDTH, BLOCKS, BITS = 32, 64, (3, 4, 6, 3), 100  # of the published checkpoints


def encoder_shapes(*, width: int = WIDTH, down: int = 4) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the encoder's tensors by their names in its checkpoint."""
    shapes = conv("pre.conv", 6, width) | {
        "secret2image.dense.weight": (768, BITS),
        "secret2image.dense.bias": (768,),
    }
    for i in range(down):
        shapes |= conv(f"enc.{i}.conv", width << i, width << i + 1)
        here = width << down - 1 - i
        shapes |= conv(f"dec.{i}.conv1.conv", 2 * here, here, 2)
        shapes |= conv(f"dec.{i}.conv2.conv", 2 * here + (6 if i == down - 1 else 0), here)
    for i in range(2):
        shapes |= conv(f"middle.0.model.0.model.{i}.conv", width << down, width << down)
    shapes |= conv("post.0.conv", width, width) | conv("post.1.conv", width, width // 2, 1)
    return named("encoder.", shapes | conv("post.2.conv", width // 2, 3, 1))


def decoder_shapes(
    *, width: int = DECODER_WIDTH, blocks: tuple[int, ...] = BLOCKS
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the decoder's tensors by their names in its checkpoint."""
    shapes = {"conv1.weight": (width, 3, 7, 7)} | norm("bn1", width)
    before = width
    for layer, count in enumerate(blocks):
        inside = width << layer
        for block in range(count):
            at, last = f"layer{layer + 1}.{block}", 4 * inside
            shapes |= {
                f"{at}.conv1.weight": (inside, before, 1, 1),
                f"{at}.conv2.weight": (inside, inside, 3, 3),
                f"{at}.conv3.weight": (last, inside, 1, 1),
            }
            shapes |= norm(f"{at}.bn1", inside) | norm(f"{at}.bn2", inside) | norm(f"{at}.bn3", last)
            if block == 0:
                shapes |= {f"{at}.downsample.0.weight": (last, before, 1, 1)} | norm(
                    f"{at}.downsample.1", last
                )
            before = last
    return named("decoder.decoder.", shapes | {"fc.weight": (BITS, before), "fc.bias": (BITS,)})


def conv(name: str, width_in: int, width_out: int, window: int = 3) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width_out, width_in, window, window), f"{name}.bias": (width_out,)}


def norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.{leaf}": (width,) for leaf in ("weight", "bias", "running_mean", "running_var")}


def named(prefix: str, shapes: Shapes) -> dict[str, tuple[int, ...]]:
    return {prefix + name: shape for name, shape in shapes.items()}


def values(shapes: Shapes) -> dict[str, npt.NDArray[np.float32]]:
    """Return tensors of these shapes: normal numbers, scaled for sums of inputs; the name is the seed."""
    return {name: tensor(name, shape) for name, shape in shapes.items()}


def tensor(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    drawn: Any = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if len(shape) > 1:
        drawn *= math.sqrt(1.5 / math.prod(shape[1:]))
    elif name.endswith("running_var"):
        drawn = 1 + 0.1 * np.abs(drawn)
    else:
        drawn = drawn / 10 + (1 if name.endswith(("bn1.weight", "bn2.weight", "downsample.1.weight")) else 0)
    return np.asarray(drawn, np.float32)


def picture(width: int, height: int) -> npt.NDArray[np.uint8]:
    """Return a picture (height, width, 3) of slopes, a disc and some noise."""
    y, x = np.mgrid[:height, :width] / np.array([height, width]).reshape(2, 1, 1)
    disc = ((x - 0.4) ** 2 + (y - 0.6) ** 2 < 0.06)[..., None] * np.array([90, -60, 40])
    slopes = np.stack([x, y, 1 - x * y], -1) * 200 + 20
    noise = np.random.default_rng(width * 10_000 + height).integers(-20, 21, (height, width, 3))
    return np.asarray(np.clip(slopes + disc + noise, 0, 255), np.uint8)

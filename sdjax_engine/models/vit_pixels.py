"""Pictures made ready for a ViT classifier, as the reference's `ViTImageProcessor` does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models.clip_pixels import MOST_PIXELS, WHITE, is_of_channels, per_channel, resized, whole
from sdjax_engine.models.config import Config, as_tuple, refuse
from sdjax_engine.wording import first_line, quoted

NAME = "ViTImageProcessor"
BILINEAR = 2
METHODS: Mapping[int, str] = {1: "lanczos3", BILINEAR: "linear", 3: "cubic"}
"""JAX's names of Pillow's filters, by Pillow's numbers."""

STEPS = ("do_resize", "do_rescale", "do_normalize")
HALF = (0.5, 0.5, 0.5)


@dataclass(frozen=True, kw_only=True)
class ViTPreprocessing:
    """What a classifier's preprocessor_config.json says; `mean` and `std` are of values from 0 to 1.

    `size` is (height, width), `resample` the number of Pillow's filter.
    """

    size: tuple[int, int] = (224, 224)
    resample: int = BILINEAR
    mean: tuple[float, float, float] = HALF
    std: tuple[float, float, float] = HALF


def settle_vit_preprocessing(config: Config) -> ViTPreprocessing:
    """Read a preprocessor_config.json of any version; missing keys have the reference's defaults.

    Raises UnreadableCheckpoint for a step that is switched off, and for settings that are not supported.
    """
    try:
        return read_preprocessing(config)
    except (KeyError, TypeError) as error:
        raise UnreadableCheckpoint(f"{NAME} with settings of another kind: {first_line(error)}") from error


def read_preprocessing(config: Config) -> ViTPreprocessing:
    defaults = ViTPreprocessing()
    size = config.get("size", defaults.size[0])
    height, width = (size["height"], size["width"]) if isinstance(size, Mapping) else (size, size)
    mean = as_tuple(config.get("image_mean", defaults.mean))
    std = as_tuple(config.get("image_std", defaults.std))
    resample = config.get("resample", defaults.resample)
    wrong = [step for step in STEPS if not config.get(step, True)]
    wrong += ["do_center_crop"] if config.get("do_center_crop") else []
    wrong += ["resample"] if resample not in METHODS else []
    wrong += ["rescale_factor"] if abs(config.get("rescale_factor", 1 / WHITE) * WHITE - 1) > 1e-6 else []
    wrong += (
        ["size"] if not all(type(side) is int and 0 < side <= MOST_PIXELS for side in (height, width)) else []
    )
    wrong += ["image_mean"] if not is_of_channels(mean) else []
    wrong += ["image_std"] if not is_of_channels(std) or not all(each > 0 for each in std) else []
    refuse(NAME, [f"{key}={quoted(config[key])}" for key in wrong])
    return ViTPreprocessing(size=(height, width), resample=resample, mean=mean, std=std)


def vit_pixels(pictures: Array, preprocessing: ViTPreprocessing) -> Array:
    """Return the network's input, `(n, *size, 3)` float32, of `pictures` (n, h, w, 3) from 0 to 255.

    As in Pillow, pictures are resized along the width and then along the height, and rounded after each.
    """
    n, height, _, depth = pictures.shape
    new_height, new_width = preprocessing.size
    method = METHODS[preprocessing.resample]
    x = whole(resized(pictures.astype(jnp.float32), (n, height, new_width, depth), method))
    x = whole(resized(x, (n, new_height, new_width, depth), method))
    return normalised(x, preprocessing)


def normalised(x: Array, preprocessing: ViTPreprocessing) -> Array:
    """Return the network's input, float32, of resized pixels `x` from 0 to 255."""
    return (x / WHITE - per_channel(preprocessing.mean)) / per_channel(preprocessing.std)

"""Pictures made ready for CLIP's picture encoder and a ViT classifier, as the reference's processors do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sdjax_engine.errors import UnreadableCheckpoint, first_line, quoted
from sdjax_engine.models.config import Config, as_tuple, refuse

CLIP_PROCESSOR = "CLIPImageProcessor"
BICUBIC = 3
CLIP_STEPS = ("do_resize", "do_center_crop", "do_rescale", "do_normalize")
CHANNELS = 3
WHITE = 255
MOST_PIXELS = 4096  # along the shortest edge; known checkers look at 224


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """What a checkpoint's preprocessor_config.json says; `mean` and `std` are of values from 0 to 1."""

    shortest_edge: int = 224
    crop: tuple[int, int] = (224, 224)
    mean: tuple[float, float, float] = (0.48145466, 0.4578275, 0.40821073)
    std: tuple[float, float, float] = (0.26862954, 0.26130258, 0.27577711)


def settle_preprocessing(config: Config) -> Preprocessing:
    """Read CLIP's preprocessor_config.json of any version; missing keys have the reference's defaults.

    Raises UnreadableCheckpoint for a step that is switched off, and for settings that are not supported.
    """
    with settings_of(CLIP_PROCESSOR):
        defaults = Preprocessing()
        size, crop_size = (config.get(key, defaults.shortest_edge) for key in ("size", "crop_size"))
        shortest: Any = size.get("shortest_edge") if isinstance(size, Mapping) else size
        crop = both_sides(crop_size)
        mean, std = channel_values(config, defaults)
        wrong = wrong_keys(config, CLIP_STEPS, mean, std)
        wrong += ["resample"] if config.get("resample", BICUBIC) != BICUBIC else []
        wrong += ["size"] if type(shortest) is not int or shortest > MOST_PIXELS else []
        wrong += ["crop_size"] if not wrong and not all(0 < side <= shortest for side in crop) else []
        refuse(CLIP_PROCESSOR, [f"{key}={quoted(config[key])}" for key in wrong])
        return Preprocessing(shortest_edge=shortest, crop=crop, mean=mean, std=std)


@contextmanager
def settings_of(processor: str) -> Iterator[None]:
    """Raise UnreadableCheckpoint for settings that are of another kind than this processor's."""
    try:
        yield
    except (KeyError, TypeError) as error:
        raise UnreadableCheckpoint(
            f"{processor} with settings of another kind: {first_line(error)}"
        ) from error


def both_sides(size: Any) -> tuple[Any, Any]:
    """Return (height, width) of a setting that names both, or one number for both."""
    return (size["height"], size["width"]) if isinstance(size, Mapping) else (size, size)


def channel_values(config: Config, defaults: Any) -> tuple[Any, Any]:
    """Return the mean and the standard deviation of each channel."""
    return (
        as_tuple(config.get("image_mean", defaults.mean)),
        as_tuple(config.get("image_std", defaults.std)),
    )


def wrong_keys(config: Config, steps: Sequence[str], mean: Any, std: Any) -> list[str]:
    """Return the keys of settings that both processors have and that are not supported."""
    wrong = [step for step in steps if not config.get(step, True)]
    wrong += ["rescale_factor"] if abs(config.get("rescale_factor", 1 / WHITE) * WHITE - 1) > 1e-6 else []
    wrong += ["image_mean"] if not is_of_channels(mean) else []
    return wrong + (["image_std"] if not is_of_channels(std) else [])


def is_of_channels(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == CHANNELS


def clip_pixels(pictures: Array, preprocessing: Preprocessing) -> Array:
    """Return `(n, *crop, 3)` float32 of `pictures` (n, h, w, 3) from 0 to 1.

    The shortest side becomes `shortest_edge`, the middle is cut out and normalised. The reference leaves the
    resizing to Pillow, which takes whole numbers from 0 to 255, goes along the width and then along the
    height, and rounds after each; so does this.
    """
    n, height, width, depth = pictures.shape
    shortest = preprocessing.shortest_edge
    new_height, new_width = (max(shortest, shortest * side // min(height, width)) for side in (height, width))
    x = whole(pictures.astype(jnp.float32) * WHITE)
    x = whole(resized(x, (n, height, new_width, depth)))
    x = whole(resized(x, (n, new_height, new_width, depth)))
    crop_height, crop_width = preprocessing.crop
    top, left = (new_height - crop_height) // 2, (new_width - crop_width) // 2
    middle = x[:, top : top + crop_height, left : left + crop_width] / WHITE
    return (middle - per_channel(preprocessing.mean)) / per_channel(preprocessing.std)


def per_channel(values: tuple[float, float, float]) -> Array:
    return jnp.asarray(values, jnp.float32).reshape(1, 1, 1, -1)


def resized(x: Array, shape: tuple[int, ...], method: str = "cubic") -> Array:
    """Return `x` resized to `shape` by the filter `method`; the filter is widened to make a picture smaller.

    "cubic" is Keys' (1981) with a = -0.5.
    """
    return jax.image.resize(x, shape, method, antialias=True, precision=jax.lax.Precision.HIGHEST)


def whole(x: Array) -> Array:
    return jnp.clip(jnp.floor(x + 0.5), 0, WHITE)


VIT_PROCESSOR = "ViTImageProcessor"
BILINEAR = 2
METHODS: Mapping[int, str] = {1: "lanczos3", BILINEAR: "linear", 3: "cubic"}
"""JAX's names of Pillow's filters, by Pillow's numbers."""

VIT_STEPS = ("do_resize", "do_rescale", "do_normalize")
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
    """Read a ViT's preprocessor_config.json of any version; raises as `settle_preprocessing`."""
    with settings_of(VIT_PROCESSOR):
        defaults = ViTPreprocessing()
        height, width = both_sides(config.get("size", defaults.size[0]))
        mean, std = channel_values(config, defaults)
        resample = config.get("resample", defaults.resample)
        wrong = wrong_keys(config, VIT_STEPS, mean, std)
        wrong += ["do_center_crop"] if config.get("do_center_crop") else []
        wrong += ["resample"] if resample not in METHODS else []
        sides_fit = all(type(side) is int and 0 < side <= MOST_PIXELS for side in (height, width))
        wrong += [] if sides_fit else ["size"]
        wrong += ["image_std"] if "image_std" not in wrong and not all(each > 0 for each in std) else []
        refuse(VIT_PROCESSOR, [f"{key}={quoted(config[key])}" for key in wrong])
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


def normalised(x: Array, preprocessing: Preprocessing | ViTPreprocessing) -> Array:
    """Return the network's input, float32, of resized pixels `x` from 0 to 255."""
    return (x / WHITE - per_channel(preprocessing.mean)) / per_channel(preprocessing.std)

"""Conversions between PIL pictures and the pipelines' arrays; no JAX here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from sdjax_engine.images import make_grid

MULTIPLE, CONTROL_MULTIPLE = 32, 64

Pictures = PIL.Image.Image | Sequence[PIL.Image.Image]


def to_pil(images: Any) -> list[PIL.Image.Image]:
    """Return the pictures of `images`, (n, height, width, channels) or one, floats from 0 to 1.

    Values are rounded on the array's own device, so that only bytes are copied to the host.
    """
    if images.ndim == 3:
        images = images[None]
    pixels = np.asarray((images * 255).round().astype("uint8"))
    return [PIL.Image.fromarray(each[..., 0] if each.shape[-1] == 1 else each) for each in pixels]


def make_image_grid(
    images: Sequence[PIL.Image.Image], rows: int, cols: int, resize: int | None = None
) -> PIL.Image.Image:
    """Return one picture of `rows` × `cols` pictures; with `resize`, each is a square of that many pixels.

    Raises ValueError unless the pictures fill the grid and have one size.
    """
    if len(images) != rows * cols:
        raise ValueError(f"{len(images)} pictures do not fill a grid of {rows} × {cols}")
    if resize is not None:
        images = [image.resize((resize, resize)) for image in images]
    return make_grid(images, rows, cols)


def from_pil(image: Pictures) -> npt.NDArray[np.float32]:
    """Return pictures (n, 3, height, width) from -1 to 1, resized: sides are rounded down to multiples of 32.

    Raises ValueError for anything but pictures.
    """
    return 2.0 * colours(as_list(image, "image"), MULTIPLE) - 1.0


def control_from_pil(image: Pictures) -> npt.NDArray[np.float32]:
    """Return control pictures (n, 3, height, width) from 0 to 1, resized to multiples of 64.

    Raises ValueError for anything but pictures.
    """
    return colours(as_list(image, "image"), CONTROL_MULTIPLE)


def colours(pictures: Sequence[PIL.Image.Image], multiple: int) -> npt.NDArray[np.float32]:
    """Return pictures (n, 3, height, width) from 0 to 1; sides are rounded down to multiples."""
    arrays = [
        np.asarray(to_multiple(each.convert("RGB"), PIL.Image.Resampling.LANCZOS, multiple), np.float32)
        for each in pictures
    ]
    return np.stack(arrays).transpose(0, 3, 1, 2) / np.float32(255.0)


def mask_from_pil(mask: Pictures) -> npt.NDArray[np.float32]:
    """Return masks (n, 1, height, width), 1 where to paint, resized like the pictures."""
    arrays = [
        np.asarray(to_multiple(each, None).convert("L"), np.float32) / 255.0 for each in as_list(mask, "mask")
    ]
    return (np.stack(arrays)[:, None] >= 0.5).astype(np.float32)


def to_multiple(
    image: PIL.Image.Image, resample: PIL.Image.Resampling | None, multiple: int = MULTIPLE
) -> PIL.Image.Image:
    width, height = (side - side % multiple for side in image.size)
    return image.resize((width, height), resample=resample)


def as_list(image: Pictures, name: str) -> list[PIL.Image.Image]:
    if isinstance(image, PIL.Image.Image):
        return [image]
    if isinstance(image, list | tuple) and all(isinstance(each, PIL.Image.Image) for each in image):
        return list(image)
    raise ValueError(f"`{name}` has to be a picture or a list of pictures but is {type(image)}")

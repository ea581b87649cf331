"""Previews as files: what of an image leaves the worker before it is finished."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import PIL.Image

COARSE_SIDE = 16  # pixels; shapes and colours can be told, a body cannot
QUALITY = 80


def encode_preview(pixels: npt.NDArray[np.uint8], *, coarse: bool) -> bytes:
    """Return a WebP file of uint8 pixels (height, width, 3).

    A `coarse` preview has at most 16 pixels a side: the safety checker sees finished pictures only, so a
    preview must not show what the checker would have withheld.
    """
    picture = PIL.Image.fromarray(pixels)
    if coarse:
        scale = COARSE_SIDE / max(picture.size)
        size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        picture = picture.resize(size, PIL.Image.Resampling.BOX)
    file = io.BytesIO()
    picture.save(file, format="WEBP", quality=QUALITY)
    return file.getvalue()

"""The file a message carries: one picture or a grid, made small enough for Discord."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import PIL.Image

from sdjax_engine.images import encode_jpeg, encode_png, encode_webp, grid_shape, make_grid
from sdjax_engine.request import Request

SMALLEST_SIDE = 64


@dataclass(frozen=True, kw_only=True)
class PictureFile:
    """A picture as it is uploaded; `suffix` is that of its format, with the dot."""

    data: bytes = field(repr=False)
    suffix: str


def combine(files: Sequence[bytes], request: Request, extra: Mapping[str, str]) -> bytes:
    """One PNG of finished pictures: the file itself when it is one, otherwise their grid at full size.

    The grid carries the recipe of its first picture, `extra`, and how many pictures it shows. Takes
    long: call it in a thread.
    """
    if len(files) == 1:
        return files[0]
    pictures = [PIL.Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    grid = make_grid(pictures, *grid_shape(len(pictures)))
    return encode_png(np.asarray(grid), request, extra={**extra, "pictures": str(len(files))})


def fit(png: bytes, limit: int) -> PictureFile:
    """`png` in the best form of at most `limit` bytes: as it is, then WebP, then JPEG, then smaller.

    Where nothing fits, the smallest form there is. All carry the recipe. Takes long: call it in a thread.
    """
    if len(png) <= limit:
        return PictureFile(data=png, suffix=".png")
    smallest = PictureFile(data=png, suffix=".png")
    for suffix, encode in _forms(PIL.Image.open(io.BytesIO(png))):
        file = PictureFile(data=encode(), suffix=suffix)
        if len(file.data) <= limit:
            return file
        smallest = min(smallest, file, key=lambda one: len(one.data))
    return smallest


def _forms(png: PIL.Image.Image) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The suffixes and encoders of `png`'s forms, each losing more than the one before."""
    yield ".webp", functools.partial(encode_webp, png, lossless=True)
    yield ".webp", functools.partial(encode_webp, png, quality=90)
    while min(png.size) >= SMALLEST_SIDE:
        for quality in (90, 75):
            yield ".jpg", functools.partial(encode_jpeg, png, quality=quality)
        png = png.resize((png.width * 2 // 3, png.height * 2 // 3), PIL.Image.Resampling.LANCZOS)

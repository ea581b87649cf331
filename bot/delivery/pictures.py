"""The file a message carries: one picture or a grid, made small enough for Discord."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import PIL.Image

from sdjax_engine.images import encode_png, grid_shape, make_grid
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

    Takes long: call it in a thread. Where nothing fits, the smallest form there is.
    """
    if len(png) <= limit:
        return PictureFile(data=png, suffix=".png")
    smallest = PictureFile(data=png, suffix=".png")
    for encode in _forms(PIL.Image.open(io.BytesIO(png)).convert("RGB")):
        file = encode()
        if len(file.data) <= limit:
            return file
        smallest = min(smallest, file, key=lambda one: len(one.data))
    return smallest


def _forms(picture: PIL.Image.Image) -> Iterator[Callable[[], PictureFile]]:
    """Encoders of `picture`, each losing more than the one before."""
    yield functools.partial(_webp, picture, lossless=True)
    yield functools.partial(_webp, picture, quality=90)
    while min(picture.size) >= SMALLEST_SIDE:
        for quality in (90, 75):
            yield functools.partial(_jpeg, picture, quality)
        picture = picture.resize(
            (picture.width * 2 // 3, picture.height * 2 // 3), PIL.Image.Resampling.LANCZOS
        )


def _webp(picture: PIL.Image.Image, *, quality: int = 80, lossless: bool = False) -> PictureFile:
    file = io.BytesIO()
    picture.save(file, format="WEBP", quality=quality, lossless=lossless, method=4)
    return PictureFile(data=file.getvalue(), suffix=".webp")


def _jpeg(picture: PIL.Image.Image, quality: int) -> PictureFile:
    file = io.BytesIO()
    picture.save(file, format="JPEG", quality=quality, optimize=True)
    return PictureFile(data=file.getvalue(), suffix=".jpg")

"""The file a message carries: one picture or a grid, made small enough for Discord."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import PIL.Image
from PIL.PngImagePlugin import PngInfo

from sdjax_engine.images import (
    PARAMETERS_CHUNK,
    RECIPE_CHUNK,
    encode_jpeg,
    encode_webp,
    grid_shape,
    make_grid,
)

SMALLEST_SIDE = 64


@dataclass(frozen=True, kw_only=True)
class PictureFile:
    """A picture as it is uploaded; `suffix` is that of its format, with the dot."""

    data: bytes = field(repr=False)
    suffix: str


def combine(files: Sequence[bytes]) -> bytes:
    """One PNG of files from `encode_png`: the file itself when it is one, otherwise their grid at full size.

    The grid carries the recipe of its first picture and how many pictures it shows. Takes long: call it in
    a thread.
    """
    if len(files) == 1:
        return files[0]
    pictures = [PIL.Image.open(io.BytesIO(data)) for data in files]
    texts = _texts(pictures[0].info, count=len(files))
    grid = make_grid([picture.convert("RGB") for picture in pictures], *grid_shape(len(pictures)))
    file = io.BytesIO()
    grid.save(file, format="PNG", pnginfo=texts, compress_level=6)
    return file.getvalue()


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


def _texts(info: Mapping[Any, Any], *, count: int) -> PngInfo:
    """The texts that a picture brings along, with how many more are shown beside it."""
    recipe = json.loads(info[RECIPE_CHUNK])
    texts = PngInfo()
    texts.add_text(PARAMETERS_CHUNK, info[PARAMETERS_CHUNK])
    recipe["extra"]["pictures"] = str(count)
    texts.add_text(RECIPE_CHUNK, json.dumps(recipe, sort_keys=True))
    return texts


def _forms(png: PIL.Image.Image) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The suffixes and encoders of `png`'s forms, each losing more than the one before."""
    yield ".webp", functools.partial(encode_webp, png, lossless=True)
    yield ".webp", functools.partial(encode_webp, png, quality=90)
    while min(png.size) >= SMALLEST_SIDE:
        for quality in (90, 75):
            yield ".jpg", functools.partial(encode_jpeg, png, quality=quality)
        png = png.resize((png.width * 2 // 3, png.height * 2 // 3), PIL.Image.Resampling.LANCZOS)

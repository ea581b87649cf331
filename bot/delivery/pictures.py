"""The file a message carries: one picture or a grid, made small enough for Discord.

One file always suffices, so a result is never split over messages. The largest there is, nine pictures of
2048 pixels a side, is 38 million pixels. Pictures with the spectrum of photographs take 2 to 8 MiB of that
many as WebP of quality 90, where every server takes 10 MiB; only what is as busy as gravel goes further down
the ladder. A grid keeps the numbers of its buttons true, which a gallery of nine files, laid out by Discord
as it likes, would not; and whoever wants one of them alone and larger presses Enlarge.
"""

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
LARGEST_WEBP = 16383  # pixels a side
# A grid's PNG is about as long as those of its pictures, and WebP without loss hardly ever less than half of
# that where it matters, with pictures that PNG does not shrink: above these, it is not worth the seconds.
PNG_CHANCE = 1.5
LOSSLESS_CHANCE = 2.0


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
    return files[0] if len(files) == 1 else _png(_grid(files))


def fit(files: Sequence[bytes], limit: int) -> PictureFile:
    """What `combine` makes of `files` in the best form of at most `limit` bytes.

    As it is, then WebP, then JPEG, then smaller; where nothing fits, the smallest form there is. All carry
    the recipe. Takes long, and of a grid about eight bytes of memory a pixel: call it in a thread.
    """
    length = sum(len(file) for file in files)
    if len(files) == 1 and length <= limit:
        return PictureFile(data=files[0], suffix=".png")
    whole = PIL.Image.open(io.BytesIO(files[0])) if len(files) == 1 else _grid(files)
    tried: list[PictureFile] = []
    for suffix, encode in _forms(whole, len(files) > 1, length / limit):
        file = PictureFile(data=encode(), suffix=suffix)
        if len(file.data) <= limit:
            return file
        tried = [min([*tried, file], key=lambda one: len(one.data))]
    return tried[0]


def _grid(files: Sequence[bytes]) -> PIL.Image.Image:
    pictures = (PIL.Image.open(io.BytesIO(data)) for data in files)  # one after the other: less memory
    grid = make_grid(pictures, *grid_shape(len(files)))
    with PIL.Image.open(io.BytesIO(files[0])) as first:
        grid.info = _texts(first.info, count=len(files))
    return grid


def _texts(info: Mapping[Any, Any], *, count: int) -> dict[str | tuple[int, int], Any]:
    """The texts that a picture brings along, with how many more are shown beside it."""
    recipe = json.loads(info[RECIPE_CHUNK])
    recipe["extra"]["pictures"] = str(count)
    return {PARAMETERS_CHUNK: info[PARAMETERS_CHUNK], RECIPE_CHUNK: json.dumps(recipe, sort_keys=True)}


def _png(grid: PIL.Image.Image) -> bytes:
    texts = PngInfo()
    for name in (PARAMETERS_CHUNK, RECIPE_CHUNK):
        texts.add_text(name, grid.info[name])
    file = io.BytesIO()
    grid.save(file, format="PNG", pnginfo=texts, compress_level=6)
    return file.getvalue()


def _forms(whole: PIL.Image.Image, grid: bool, excess: float) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The suffixes and encoders of a picture's forms, each losing more than the one before.

    `excess` is how many times over the limit the PNG is, about; that of a grid is not made yet.
    """
    if grid and excess <= PNG_CHANCE:
        yield ".png", functools.partial(_png, whole)
    if max(whole.size) <= LARGEST_WEBP:
        if excess <= LOSSLESS_CHANCE:
            yield ".webp", functools.partial(encode_webp, whole, lossless=True)
        yield ".webp", functools.partial(encode_webp, whole, quality=90)
    while min(whole.size) >= SMALLEST_SIDE:
        for quality in (90, 75):
            yield ".jpg", functools.partial(encode_jpeg, whole, quality=quality)
        smaller = (whole.width * 2 // 3, whole.height * 2 // 3)
        whole = whole.resize(smaller, PIL.Image.Resampling.LANCZOS)

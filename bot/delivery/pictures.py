"""The file of a message: one picture or a grid, small enough for Discord.

One file always suffices, so a result is never split over messages. The largest grid, nine pictures of 2048
pixels a side, has 38 million pixels. Pictures with the spectrum of photographs then take 2 to 8 MiB as WebP
of quality 90, and every server takes 20 MiB; only pictures of noise need a smaller form. In a grid the
numbers on the tiles match those of the buttons, which Discord's layout of nine files would not guarantee. The
file of a single picture is the painted one, without a number.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from PIL.PngImagePlugin import PngInfo

from bot.provenance.signing import Signing
from sdjax_engine.images import (
    PARAMETERS_CHUNK,
    RECIPE_CHUNK,
    encode_jpeg,
    encode_webp,
    grid_shape,
    has_recipe,
    make_grid,
)

GIVEN_SIDE = 768  # pixels, of a given picture that moderators see; as WebP hardly ever above 0.3 MiB
SMALLEST_SIDE = 64
SMALLEST_NUMBER = 12  # pixels
NUMBER_PART = 16
OUTLINE = (0, 0, 0, 200)
LARGEST_WEBP = 16383  # pixels a side
# A grid's PNG is about as large as its pictures' PNGs, and lossless WebP is rarely less than half of it for
# pictures that compress badly. Above these ratios of size to limit, lossless forms are not tried.
PNG_CHANCE = 1.5
LOSSLESS_CHANCE = 2.0


@dataclass(frozen=True, kw_only=True)
class PictureFile:
    """A picture as it is uploaded; `suffix` is the suffix of its format, with the dot."""

    data: bytes = field(repr=False)
    suffix: str


def combine(files: Sequence[bytes]) -> bytes:
    """Return one PNG of files from `encode_png`: a single file itself, several as their grid at full size.

    The grid carries the recipe of its first picture and the number of its pictures. Takes long: call it in a
    thread.
    """
    return files[0] if len(files) == 1 else _png(_grid(files))


def fit(
    files: Sequence[bytes],
    limit: int,
    *,
    first: int = 1,
    change: Callable[[PIL.Image.Image], None] | None = None,
) -> PictureFile:
    """Return one picture, or a grid of several, in the best form of at most `limit` bytes.

    The tiles of a grid are numbered from `first`. `change` then changes the RGB picture. The forms are PNG,
    WebP, JPEG, then smaller sizes; where none fits, the smallest is returned. All carry the recipe. Takes
    long, and for a grid about eight bytes of memory a pixel: call it in a thread.
    """
    length = sum(len(file) for file in files)
    if len(files) == 1 and length <= limit and change is None:
        return PictureFile(data=files[0], suffix=".png")
    if len(files) == 1:
        whole: PIL.Image.Image = PIL.Image.open(io.BytesIO(files[0]))
    else:
        whole = _grid(files)
        number_tiles(whole, len(files), first=first)
    if change is not None:
        change(whole)
    tried: list[PictureFile] = []
    for suffix, encode in _forms(whole, len(files) > 1 or change is not None, length / limit):
        file = PictureFile(data=encode(), suffix=suffix)
        if len(file.data) <= limit:
            return file
        tried = [min([*tried, file], key=lambda one: len(one.data))]
    return tried[0]


def fit_and_sign(
    files: Sequence[bytes], limit: int, signing: Signing, *, first: int = 1, given: bool = False
) -> PictureFile:
    """Return the file of `fit`, marked; with its marks it is within `limit`. Call it in a thread.

    A picture that was `given` and not painted here is made small, and gets no marks of AI.
    """
    if given and not has_recipe(files[0]):
        return PictureFile(data=thumbnail(files[0], side=GIVEN_SIDE), suffix=".webp")
    leaving = signing.leaving(files[0])
    change = leaving.put_watermark if signing.watermarks else None
    drawn = [signing.drawn(file) for file in files]
    file = fit(drawn, limit - signing.room, first=first, change=change)
    return replace(file, data=leaving.signed(file.data))


def _grid(files: Sequence[bytes]) -> PIL.Image.Image:
    pictures = (PIL.Image.open(io.BytesIO(data)) for data in files)  # one at a time, to save memory
    grid = make_grid(pictures, *grid_shape(len(files)))
    with PIL.Image.open(io.BytesIO(files[0])) as first:
        grid.info = _texts(first.info, count=len(files))
    return grid


def number_tiles(grid: PIL.Image.Image, count: int, *, first: int, part: int = NUMBER_PART) -> None:
    """Draw the number of each tile into its upper left corner, white in a dark outline.

    That is readable on any picture and covers little of it. A number is one `part`-th of its tile high. Tiles
    smaller than `SMALLEST_SIDE` have no room for a number.
    """
    rows, columns = grid_shape(count)
    width, height = grid.width // columns, grid.height // rows
    if min(width, height) < SMALLEST_SIDE:
        return
    size = max(SMALLEST_NUMBER, min(width, height) // part)
    font, draw = PIL.ImageFont.load_default(size), PIL.ImageDraw.Draw(grid, "RGBA")
    for index in range(count):
        row, column = divmod(index, columns)
        left, top = column * width, row * height
        place, stroke = (left + size // 4, top + size // 4), max(1, size // 8)
        said = str(first + index)
        draw.text(place, said, fill="white", font=font, anchor="lt", stroke_width=stroke, stroke_fill=OUTLINE)


def _texts(info: Mapping[Any, Any], *, count: int) -> dict[str | tuple[int, int], Any]:
    """Return the texts of a grid's file: those of its first picture, with the number of its pictures."""
    recipe = json.loads(info[RECIPE_CHUNK])
    recipe["extra"]["pictures"] = str(count)
    return {PARAMETERS_CHUNK: info[PARAMETERS_CHUNK], RECIPE_CHUNK: json.dumps(recipe, sort_keys=True)}


def _png(grid: PIL.Image.Image) -> bytes:
    texts = PngInfo()
    for name in (PARAMETERS_CHUNK, RECIPE_CHUNK):
        if name in grid.info:
            texts.add_text(name, grid.info[name])
    file = io.BytesIO()
    grid.save(file, format="PNG", pnginfo=texts, compress_level=6)
    return file.getvalue()


def _forms(whole: PIL.Image.Image, as_png: bool, excess: float) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the suffixes and encoders of a picture's forms, each with more loss than the one before.

    `excess` is about the ratio of the PNG to the limit. `as_png`: the PNG is not made yet, and may fit.
    """
    if as_png and excess <= PNG_CHANCE:
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


LONGEST_SIDE = 512  # pixels of the whole file
NOTHING_YET = (43, 45, 49)
QUALITY = 70

Draw = Callable[[PIL.Image.Image], None]


def thumbnail(picture: bytes, *, side: int = LONGEST_SIDE) -> bytes:
    """Return a kept picture, a PNG, as a WebP file of at most `side` pixels a side. Call it in a thread."""
    with PIL.Image.open(io.BytesIO(picture), formats=["PNG"]) as opened:
        small = opened.convert("RGB")
    small.thumbnail((side, side))
    file = io.BytesIO()
    small.save(file, format="WEBP", quality=QUALITY)
    return file.getvalue()


def preview_file(
    previews: Mapping[int, bytes], *, count: int, width: int, height: int, draw: Draw = lambda _picture: None
) -> PictureFile:
    """Return the previews of `count` images of `width` × `height` pixels, in the order of the result.

    `previews` are WebP files by the images' indexes. An image without one is grey. `draw` draws the
    label on the whole. Call it in a thread.
    """
    rows, columns = grid_shape(count)
    scale = min(1.0, LONGEST_SIDE / max(columns * width, rows * height))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    tiles = [_tile(previews.get(index), size) for index in range(count)]
    grid = make_grid(tiles, rows, columns)
    if count > 1:
        number_tiles(grid, count, first=1)
    draw(grid)
    file = io.BytesIO()
    grid.save(file, format="WEBP", quality=QUALITY)
    return PictureFile(data=file.getvalue(), suffix=".webp")


def _tile(preview: bytes | None, size: tuple[int, int]) -> PIL.Image.Image:
    if preview is None:
        return PIL.Image.new("RGB", size, NOTHING_YET)
    with PIL.Image.open(io.BytesIO(preview), formats=["WEBP"]) as picture:
        return picture.convert("RGB").resize(size, PIL.Image.Resampling.BICUBIC)

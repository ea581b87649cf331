"""The picture of the progress: the previews of a job's images as one file."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

import PIL.Image

from bot.delivery.pictures import PictureFile, number_tiles
from sdjax_engine.images import grid_shape, make_grid

LONGEST_SIDE = 512  # pixels of the whole file
NOTHING_YET = (43, 45, 49)
QUALITY = 70

Draw = Callable[[PIL.Image.Image], None]


def thumbnail(picture: bytes) -> bytes:
    """Return a finished picture, a PNG, as a small WebP file beside the previews. Call it in a thread."""
    with PIL.Image.open(io.BytesIO(picture), formats=["PNG"]) as opened:
        small = opened.convert("RGB")
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
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

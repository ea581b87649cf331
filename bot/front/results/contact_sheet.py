"""A page of requests as one picture: a numbered tile for each; no Discord here."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

import PIL.Image
import PIL.ImageOps

from bot.delivery.pictures import number_tiles
from bot.front.results.tile_names import is_drawable, with_name
from bot.provenance.signing import Signing
from sdjax_engine.images import grid_shape, make_grid

TILE = 192  # pixels a side
NUMBER_PART = 7  # a number is 1/7 of a tile high, to be legible on a phone with ten tiles
EMPTY = (43, 45, 49)  # of a request without a picture
QUALITY = 85


def contact_sheet(
    files: Sequence[bytes | None],
    signing: Signing | None = None,
    *,
    first: int | None = 1,
    names: Sequence[str] = (),
) -> bytes:
    """Return a signed JPEG with a tile for each file in their order; None is an empty tile.

    The tiles are numbered from `first`, or not at all. `names`, one for each file, stand below the tiles
    where a font has their letters. Takes long: call it in a thread.
    """
    tiles: Iterable[PIL.Image.Image] = map(_tile, files)
    if any(map(is_drawable, names)):
        tiles = map(with_name, tiles, names)
    sheet = make_grid(tiles, *grid_shape(len(files)))
    if first is not None:
        number_tiles(sheet, len(files), first=first, part=NUMBER_PART)
    made, signing = io.BytesIO(), signing or Signing()
    leaving = signing.leaving(next(filter(None, files), None))
    signing.draw(sheet)
    leaving.put_watermark(sheet)
    sheet.save(made, "JPEG", quality=QUALITY)
    return leaving.signed(made.getvalue())


def _tile(file: bytes | None) -> PIL.Image.Image:
    if file is None:
        return PIL.Image.new("RGB", (TILE, TILE), EMPTY)
    with PIL.Image.open(io.BytesIO(file)) as picture:
        return PIL.ImageOps.pad(picture.convert("RGB"), (TILE, TILE), color=EMPTY)

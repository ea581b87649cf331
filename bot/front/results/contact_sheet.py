"""A page of requests as one picture: a numbered tile for each, perhaps with a name; no Discord here."""

from __future__ import annotations

import functools
import io
import unicodedata
from collections.abc import Iterable, Sequence

import PIL.features
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import PIL.ImageOps

from bot.delivery.pictures import number_tiles
from bot.provenance.signing import Signing
from bot.texts.markup import tidy
from sdjax_engine.images import grid_shape, make_grid

TILE = 192  # pixels a side
NUMBER_PART = 7  # a number is 1/7 of a tile high, to be legible on a phone with ten tiles
EMPTY = (43, 45, 49)  # of a request without a picture
QUALITY = 85
STRIP = 24  # pixels below a tile
SIZE = 15  # of the letters
MARGIN = 6
GROUND, INK = (30, 31, 34), (242, 243, 245)
FONTS = ("NotoSans-Regular.ttf", "NotoSansCJK-Regular.ttc", "NotoNaskhArabic-Regular.ttf", "DejaVuSans.ttf")
"""Font files that many systems have, tried in this order after Pillow's own font, which is Latin."""
MISSING = "\U0010ffff"  # no font has it
Font = PIL.ImageFont.FreeTypeFont


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


def is_drawable(name: str) -> bool:
    """Return whether a font of the machine has all letters of a name."""
    return _found(name) is not None


def with_name(tile: PIL.Image.Image, name: str) -> PIL.Image.Image:
    """Return a tile with a strip below it and the name there; a name that no font can draw is left out."""
    whole = PIL.Image.new("RGB", (tile.width, tile.height + STRIP), GROUND)
    whole.paste(tile)
    found = _found(name)
    if found is not None:
        text, font = found
        draw = PIL.ImageDraw.Draw(whole)
        middle = (tile.width / 2, tile.height + STRIP / 2)
        draw.text(middle, _cut(text, font, tile.width - 2 * MARGIN), fill=INK, font=font, anchor="mm")
    return whole


def _found(name: str) -> tuple[str, Font] | None:
    """Return a name without symbols that its font lacks, such as emoji, and the font; None without a font."""
    name = tidy(name)
    for font in _fonts():
        text = tidy("".join(each for each in name if not _is_symbol(each) or _has(font, each)))
        if text and all(_has(font, each) for each in text) and (_is_plain(text) or _shapes()):
            return text, font
    return None


def _cut(text: str, font: Font, width: float) -> str:
    if font.getlength(text) <= width:
        return text
    end = next(end for end in range(len(text) - 1, -1, -1) if font.getlength(f"{text[:end]}…") <= width)
    return f"{text[:end].rstrip()}…"


@functools.cache
def _fonts() -> tuple[Font, ...]:
    own = PIL.ImageFont.load_default(SIZE)
    found = [own] if isinstance(own, Font) else []
    for file in FONTS:
        try:
            found.append(PIL.ImageFont.truetype(file, SIZE))
        except OSError:  # not on this machine
            continue
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _has(font: Font, letter: str) -> bool:
    """Return whether a font has a letter of its own for a character: it draws all others as one box."""
    if letter.isspace():
        return True
    return bytes(font.getmask(letter)) != bytes(font.getmask(MISSING))


def _is_symbol(letter: str) -> bool:
    """Return whether a name can be read without a character: symbols, marks of emoji, joiners."""
    return unicodedata.category(letter) in {"So", "Sk", "Cf", "Co", "Cn"} or "\ufe00" <= letter <= "\ufe0f"


def _is_plain(text: str) -> bool:
    """Return whether letters stand one after the other from left to right, without a shaping library."""
    return all(unicodedata.bidirectional(each) not in {"R", "AL", "NSM"} for each in text)


def _shapes() -> bool:
    """Return whether Pillow has the library that joins and orders letters, as Arabic needs it."""
    return bool(PIL.features.check("raqm"))

"""Perceptual hashes: numbers that hardly change where a picture is re-encoded, resized or cropped a bit.

A hash has 64 bits: the signs of a picture's lowest frequencies (pHash). Pictures are as different as the
number of bits that differ, their distance. A search cannot compare a hash with a million others, so a hash is
divided into four bands of 16 bits. Of two hashes at a distance of at most 4 × k + r, one of the first r + 1
bands differs in at most k bits, or one of the others in at most k - 1. The search looks up exactly these.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import PIL.Image

from sdjax_engine.images import grid_shape

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BITS = 64
BANDS, BAND_BITS = 4, 16
BLOCKED_DISTANCE = 6
"""Pictures at most at this distance from a blocked one are blocked too."""
LIKELY_DISTANCE = 4
"""Pictures at most at this distance from another are nearly always the same."""
SEARCH_DISTANCE = 10
"""Pictures at most at this distance from another are shown as perhaps the same."""
FLAT = 4  # bits: the hash of a flat or nearly flat picture has at most so many ones, or so many zeros
DIGITS = 16
MAX_TILES = 9  # of a grid
_BAND, _SIGN, _ALL = (1 << BAND_BITS) - 1, 1 << (BITS - 1), 1 << BITS
_MASK = _ALL - 1


def hash_of(picture: PIL.Image.Image) -> int:
    """Return the hash of a picture, from 0 to 2**64 - 1; takes milliseconds of a processor."""
    import imagehash  # noqa: PLC0415 - brings SciPy, which takes a second to import

    return int(str(imagehash.phash(picture.convert("RGB"))), 16)


def hash_of_pixels(pixels: npt.NDArray[np.uint8]) -> int:
    """Return the hash of uint8 pixels (height, width, 3)."""
    return hash_of(PIL.Image.fromarray(pixels))


def hash_of_file(data: bytes) -> int:
    """Return the hash of a file that this bot wrote; never call it with a file as a person sent it."""
    with PIL.Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as picture:
        return hash_of(picture)


def hashes_of_tiles(data: bytes) -> list[list[int]]:
    """Return the hashes of the tiles of a file that may be a grid: one list for each possible shape.

    Never call it with a file as a person sent it.
    """
    shapes = dict.fromkeys(grid_shape(count) for count in range(2, MAX_TILES + 1))
    with PIL.Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as picture:
        return [[hash_of(tile) for tile in _tiles(picture, *shape)] for shape in shapes]


def _tiles(picture: PIL.Image.Image, rows: int, columns: int) -> Iterator[PIL.Image.Image]:
    width, height = picture.width / columns, picture.height / rows
    for row in range(rows):
        for column in range(columns):
            left, top = round(column * width), round(row * height)
            yield picture.crop((left, top, round((column + 1) * width), round((row + 1) * height)))


def distance(one: int, other: int) -> int:
    """Return the number of bits in which two hashes differ."""
    return (one ^ other).bit_count()


def is_flat(number: int) -> bool:
    """Return whether a hash is that of a flat or nearly flat picture, as many different pictures have it."""
    return not FLAT < number.bit_count() < BITS - FLAT


def stored_distance(one: int, other: int) -> int:
    """Return the distance of two hashes as databases keep them."""
    return ((one ^ other) & _MASK).bit_count()


def bands_of(number: int) -> tuple[int, ...]:
    """Return the four bands of a hash, the lowest bits first."""
    return tuple(number >> (BAND_BITS * band) & _BAND for band in range(BANDS))


def looked_up(number: int, reach: int) -> list[list[int]]:
    """Return for each band the values to look up, to find all hashes at most `reach` from this one."""
    most, further = divmod(reach, BANDS)
    reaches = [most if place <= further else most - 1 for place in range(BANDS)]
    return [_near(band, each) for band, each in zip(bands_of(number), reaches, strict=True)]


def _near(band: int, most: int) -> list[int]:
    """Return the bands that differ from one in at most so many bits; none for -1."""
    return [
        band ^ sum(1 << bit for bit in bits)
        for count in range(most + 1)
        for bits in combinations(range(BAND_BITS), count)
    ]


def stored(number: int) -> int:
    """Return a hash as the signed number of 64 bits that databases keep."""
    return number - _ALL if number & _SIGN else number


def read(number: int) -> int:
    """Return the hash that `stored` turned into this signed number."""
    return number % _ALL


def name_of(number: int) -> str:
    """Return the name of a hash for people: 16 hexadecimal digits."""
    return f"{number:0{DIGITS}x}"


def named(text: str) -> int | None:
    """Return the hash of this name; None where the text is none."""
    text = text.strip().lower()
    if len(text) != DIGITS or not set(text) <= set("0123456789abcdef"):
        return None
    return int(text, 16)

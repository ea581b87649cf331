"""Reads an untrusted file as a clean picture, or says what is wrong with the file; no Discord here.

Imports are few, because a process is started for each file (`decoder`). The claimed type of a file is
ignored: a file is read as PNG, JPEG, WebP or GIF, and only if its length and the size in its header are
within limits. The kept picture is written from the pixels alone, upright, without other contents of the file.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import PIL.Image
import PIL.ImageChops
from PIL.ExifTags import Base
from PIL.Image import Resampling, Transpose

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
KEPT_SIDE = 2048  # pixels; no model paints larger pictures
LEAST_SIDE = 8  # pixels per latent pixel
MOST_ASPECT = 1024  # the longer side by the shorter one; a picture of that shape is kept as 8192 x 8
WHITE = 128  # the least value of a mask that the engine repaints
TO_WHITE = [0] * WHITE + [255] * (256 - WHITE)
ANY_TO_WHITE = [0] + [255] * 255
MAX_SCANS = 24  # a progressive JPEG and its preview have about ten; each scan is a pass over all pixels
MAX_PARTS = 50_000  # segments of a JPEG, chunks of a PNG: Pillow reads each in Python
START_OF_PNG, END_OF_PNG = b"\x89PNG\r\n\x1a\n", b"IEND"
START_OF_JPEG = b"\xff\xd8"
START_OF_SCAN, END_OF_JPEG = 0xDA, 0xD9
# Within a scan, FF 00 is a byte of data and FF D0 to FF D7 are restarts. FF FF is a filling.
MARKER = re.compile(rb"\xff([\x02-\xcf\xd9-\xfe])")
UPRIGHT: Mapping[int, Transpose] = MappingProxyType(
    {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
)
# The errors that Pillow raises for invalid files.
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    SyntaxError,
    TypeError,
    LookupError,
    ArithmeticError,
    struct.error,
    zlib.error,
)
TOO_MANY_PIXELS = (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning)


UNREADABLE_FILE, HEAVY, LARGE, SMALL = "picture", "picture_heavy", "picture_large", "picture_small"
THIN = "picture_thin"
BLACK = "mask_black"


class Unfit(Exception):
    """The file is refused.

    `problem` is UNREADABLE_FILE, HEAVY (its bytes), LARGE or SMALL (its pixels), THIN (its shape), or
    BLACK (a mask).
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits on an untrusted file: bytes of the file, pixels of its picture."""

    max_bytes: int
    max_pixels: int


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture to keep: `png` has three channels of 8 bits and no metadata.

    A side has at most `KEPT_SIDE` pixels, or as many as the other side needs to keep `LEAST_SIDE`.

    `mask`, a grey PNG of the same size, is white where the file was transparent; None for an opaque file.
    """

    png: bytes = field(repr=False)
    width: int
    height: int
    mask: bytes | None = field(default=None, repr=False)


def read_picture(data: bytes, *, limits: Limits, background: str = "white") -> Picture:
    """Return the picture in `data`; of an animation its first frame.

    Transparent pixels get the colour `background`. Raises `Unfit`.
    """
    with _opened(data, limits) as file:
        file.draft("RGB", (KEPT_SIDE, KEPT_SIDE))  # a large JPEG is decoded at a fraction of its size
        file.load()
        picture = _upright(_shrunk(_in_colour(file)), _orientation(file))
    if picture.mode == "RGB":
        return Picture(png=_png(picture), width=picture.width, height=picture.height)
    alpha = picture.getchannel("A")
    flat = PIL.Image.new("RGB", picture.size, background)
    flat.paste(picture, mask=alpha)
    missing = PIL.ImageChops.invert(alpha)
    holes = _png(missing) if any(missing.histogram()[WHITE:]) else None
    return Picture(png=_png(flat), width=picture.width, height=picture.height, mask=holes)


def read_mask(data: bytes, *, limits: Limits) -> bytes:
    """Return the mask in `data` as a grey PNG; transparent pixels become black, which means kept.

    In a large mask, which is made smaller, a pixel is white if any of its pixels was. Raises `Unfit`.
    """
    with _opened(data, limits) as file:
        file.draft("L", None)  # a JPEG is decoded without its colours
        file.load()
        grey = _in_grey(file)
        if not any(grey.histogram()[WHITE:]):
            raise Unfit(BLACK)
        mask = _upright(_shrunk_mask(grey), _orientation(file))
    return _png(mask)


def check_length(length: int, *, limits: Limits) -> None:
    """Raise `Unfit` for a file that is longer than `limits` allow."""
    if length > limits.max_bytes:
        raise Unfit(HEAVY)


def check_jpeg(data: bytes) -> None:
    """Raise `Unfit` for a JPEG of too many scans, segments, or filling bytes before its first scan.

    The segments are walked as a decoder does: thumbnails, and whatever follows the picture, do not count.
    """
    scans, segments, at = 0, 0, len(START_OF_JPEG)
    while (found := MARKER.search(data, at)) and found[1][0] != END_OF_JPEG:
        filling = 0 if scans else found.start() - at
        segments += 1
        scans += found[1][0] == START_OF_SCAN
        if scans > MAX_SCANS or max(segments, filling) > MAX_PARTS:
            raise Unfit(UNREADABLE_FILE)
        at = found.end() + max(2, int.from_bytes(data[found.end() : found.end() + 2]))


def check_png(data: bytes) -> None:
    """Raise `Unfit` for a PNG of too many chunks."""
    chunks, at = 0, len(START_OF_PNG)
    while at < len(data) and data[at + 4 : at + 8] != END_OF_PNG:
        chunks += 1
        if chunks > MAX_PARTS:
            raise Unfit(UNREADABLE_FILE)
        at += 12 + int.from_bytes(data[at : at + 4])


@contextmanager
def _opened(data: bytes, limits: Limits) -> Iterator[PIL.Image.Image]:
    """Open the picture in `data`, whose pixels are not decoded yet; errors of Pillow become `Unfit`."""
    check_length(len(data), limits=limits)
    for start, check in ((START_OF_JPEG, check_jpeg), (START_OF_PNG, check_png)):
        if data.startswith(start):
            check(data)
    try:
        with PIL.Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            if picture.width * picture.height > limits.max_pixels:
                raise Unfit(LARGE)
            if max(picture.size) > MOST_ASPECT * min(picture.size):
                raise Unfit(THIN)
            yield picture
    except TOO_MANY_PIXELS:
        raise Unfit(LARGE) from None
    except UNREADABLE:
        raise Unfit(UNREADABLE_FILE) from None


def _shrunk(picture: PIL.Image.Image) -> PIL.Image.Image:
    """Make a large picture smaller, in place; its shorter side keeps `LEAST_SIDE` pixels."""
    side = max(KEPT_SIDE, math.ceil(LEAST_SIDE * max(picture.size) / min(picture.size)))
    picture.thumbnail((side, side), Resampling.LANCZOS)
    return picture


def _shrunk_mask(grey: PIL.Image.Image) -> PIL.Image.Image:
    """Return a mask of at most `KEPT_SIDE` pixels a side; a larger one is black and white then."""
    times = math.ceil(max(grey.size) / KEPT_SIDE)
    if times == 1:
        return grey
    white = grey.point(TO_WHITE)
    for factor in ((times, 1), (1, times)):  # one side at a time, or a single pixel would be rounded to 0
        white = white.reduce(factor).point(ANY_TO_WHITE)
    return white


def _in_colour(picture: PIL.Image.Image) -> PIL.Image.Image:
    picture = _in_eight_bits(picture)
    mode = "RGBA" if picture.has_transparency_data else "RGB"
    return picture if picture.mode == mode else picture.convert(mode)  # no copy if the mode is right already


def _in_grey(picture: PIL.Image.Image) -> PIL.Image.Image:
    """Return the picture in grey, over black."""
    picture = _in_eight_bits(picture)
    if not picture.has_transparency_data:
        return picture if picture.mode == "L" else picture.convert("L")
    layer = _in_colour(picture)
    return PIL.ImageChops.multiply(layer.convert("L"), layer.getchannel("A"))


def _in_eight_bits(picture: PIL.Image.Image) -> PIL.Image.Image:
    if picture.mode.startswith("I"):  # 16-bit grey, which a conversion would clip at 255
        return picture.point(lambda value: value * (1 / 256)).convert("L")
    return picture


def _upright(picture: PIL.Image.Image, orientation: int) -> PIL.Image.Image:
    turn = UPRIGHT.get(orientation)
    return picture if turn is None else picture.transpose(turn)


def _orientation(picture: PIL.Image.Image) -> int:
    """Return the EXIF orientation, or 1 (upright) if it cannot be read.

    The pixels must be decoded: a PNG may have EXIF after them.
    """
    try:
        found = picture.getexif().get(Base.Orientation, 1)
    except UNREADABLE:
        return 1
    return found if isinstance(found, int) else 1


def _png(picture: PIL.Image.Image) -> bytes:
    """Return a PNG of the pixels only: without `info`, which Pillow would also write."""
    picture.info = {}
    file = io.BytesIO()
    picture.save(file, format="PNG", compress_level=3)
    return file.getvalue()

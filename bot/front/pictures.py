"""From the bytes of an untrusted file to a clean picture, or to the fault of the file; no Discord here.

Imports are few, because a process is started for each file (`decoder`). The claimed type of a file is
ignored: a file is read as PNG, JPEG, WebP or GIF, and only if its length and the size in its header are
within limits. The kept picture is written from the pixels alone, upright, without other contents of the file.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import PIL.Image
import PIL.ImageChops
from PIL.ExifTags import Base
from PIL.Image import Resampling, Transpose

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
KEPT_SIDE = 2048  # pixels; no model paints larger pictures
LEAST_SIDE = 8  # pixels per latent pixel
WHITE = 128  # the least value of a mask that the engine repaints
MAX_SCANS = 24  # a progressive JPEG and its preview have about ten; each scan is a pass over all pixels
START_OF_SCAN = b"\xff\xda"
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
BLACK = "mask_black"


class Unfit(Exception):
    """The file is refused.

    `problem` is UNREADABLE_FILE, HEAVY (its bytes), LARGE or SMALL (its pixels), or BLACK (a mask).
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

    `mask`, a grey PNG of the same size, is white where the file was transparent; None for an opaque file.
    """

    png: bytes = field(repr=False)
    width: int
    height: int
    mask: bytes | None = field(default=None, repr=False)


def read_picture(data: bytes, *, limits: Limits) -> Picture:
    """Return the picture in `data`; of an animation its first frame. Transparent pixels become white.

    Raises `Unfit`.
    """
    picture = _read(data, limits)
    if picture.mode == "RGB":
        return Picture(png=_png(picture), width=picture.width, height=picture.height)
    alpha = picture.getchannel("A")
    flat = PIL.Image.new("RGB", picture.size, "white")
    flat.paste(picture, mask=alpha)
    missing = PIL.ImageChops.invert(alpha)
    holes = _png(missing) if any(missing.histogram()[WHITE:]) else None
    return Picture(png=_png(flat), width=picture.width, height=picture.height, mask=holes)


def read_mask(data: bytes, *, limits: Limits) -> bytes:
    """Return the mask in `data` as a grey PNG; transparent pixels become black, which means kept.

    Raises `Unfit`.
    """
    picture = _read(data, limits)
    if picture.mode == "RGBA":
        flat = PIL.Image.new("RGB", picture.size, "black")
        flat.paste(picture, mask=picture.getchannel("A"))
        picture = flat
    grey = picture.convert("L")
    if not any(grey.histogram()[WHITE:]):
        raise Unfit(BLACK)
    return _png(grey)


def check_length(length: int, *, limits: Limits) -> None:
    """Raise `Unfit` for a file that is longer than `limits` allow."""
    if length > limits.max_bytes:
        raise Unfit(HEAVY)


def _read(data: bytes, limits: Limits) -> PIL.Image.Image:
    """Return the pixels in `data`, upright, RGB or RGBA, with sides up to `KEPT_SIDE`."""
    check_length(len(data), limits=limits)
    try:
        with PIL.Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            if picture.width * picture.height > limits.max_pixels:
                raise Unfit(LARGE)
            if picture.format == "JPEG" and data.count(START_OF_SCAN) > MAX_SCANS:
                raise Unfit(UNREADABLE_FILE)
            picture.draft("RGB", (KEPT_SIDE, KEPT_SIDE))  # a large JPEG is decoded at a fraction of its size
            picture.load()
            return _kept(picture)
    except TOO_MANY_PIXELS:
        raise Unfit(LARGE) from None
    except UNREADABLE:
        raise Unfit(UNREADABLE_FILE) from None


def _kept(picture: PIL.Image.Image) -> PIL.Image.Image:
    pixels = _in_colour(picture)
    turn = UPRIGHT.get(_orientation(picture))  # after decoding: a PNG may have EXIF after its pixels
    if min(pixels.size) * KEPT_SIDE >= LEAST_SIDE * max(pixels.size):  # else it would become too thin
        pixels.thumbnail((KEPT_SIDE, KEPT_SIDE), Resampling.LANCZOS)
    return pixels if turn is None else pixels.transpose(turn)


def _in_colour(picture: PIL.Image.Image) -> PIL.Image.Image:
    if picture.mode.startswith("I"):  # 16-bit grey, which a conversion would clip at 255
        picture = picture.point(lambda value: value * (1 / 256)).convert("L")
    mode = "RGBA" if picture.has_transparency_data else "RGB"
    return picture if picture.mode == mode else picture.convert(mode)  # no copy if the mode is right already


def _orientation(picture: PIL.Image.Image) -> int:
    """Return the EXIF orientation, or 1 (upright) if it cannot be read."""
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

"""Untrusted files: each gives a clean picture or one sentence."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import PIL.Image
import pytest
from PIL.ExifTags import Base

from bot.front.uploads.untrusted_picture import KEPT_SIDE, Limits, Picture, Unfit, read_mask, read_picture

LIMITS = Limits(max_bytes=1 << 20, max_pixels=1_000_000)
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def read(data: bytes) -> Picture:
    return read_picture(data, limits=LIMITS)


def problem_of(data: bytes, limits: Limits = LIMITS) -> str:
    problems = set()
    for reading in (read_picture, read_mask):
        with pytest.raises(Unfit) as caught:
            reading(data, limits=limits)
        problems.add(caught.value.problem)
    (problem,) = problems
    return problem


def saved(picture: PIL.Image.Image, kind: str, **how: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **how)
    return file.getvalue()


def opened(png: bytes) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(png), formats=["PNG"])


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *, depth: int = 8, colour: int = 2, rows: bytes, more: bytes = b"") -> bytes:
    """A PNG with this header and any contents."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return (
        SIGNATURE + chunk(b"IHDR", header) + more + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


def corners() -> PIL.Image.Image:
    """64×32, red in its left half and blue in its right."""
    picture = PIL.Image.new("RGB", (64, 32), RED)
    picture.paste(BLUE, (32, 0, 64, 32))
    return picture


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_the_usual_kinds_of_pictures_are_read(kind: str) -> None:
    how = {"lossless": True} if kind == "WEBP" else {}
    picture = read(saved(corners(), kind, **how))
    assert (picture.width, picture.height, picture.mask) == (64, 32, None)
    clean = opened(picture.png)
    assert clean.mode == "RGB"
    for at, colour in (((8, 16), RED), ((56, 16), BLUE)):
        assert clean.getpixel(at) == pytest.approx(colour, abs=3)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [(mode, "PNG") for mode in ("1", "L", "LA", "P", "RGBA")]
    + [(mode, "JPEG") for mode in ("L", "CMYK", "YCbCr")],
)
def test_every_colour_mode_is_converted_to_rgb(mode: str, kind: str) -> None:
    picture = PIL.Image.new("RGB", (16, 16), WHITE).convert(mode)
    clean = opened(read(saved(picture, kind)).png)
    assert (clean.mode, clean.getpixel((8, 8))) == ("RGB", WHITE)


@pytest.mark.parametrize("value", [0, 300, 32768, 65535])
def test_sixteen_bits_of_grey_keep_their_brightness(value: int) -> None:
    data = png(1, 1, depth=16, colour=0, rows=b"\0" + struct.pack(">H", value))
    assert opened(read(data).png).getpixel((0, 0)) == (value >> 8,) * 3


def test_sixteen_bits_of_colour_and_of_transparency_are_read() -> None:
    colour = png(1, 1, depth=16, rows=b"\0" + struct.pack(">HHH", 65535, 0, 32768))
    assert opened(read(colour).png).getpixel((0, 0)) == (255, 0, 128)
    clear = png(1, 1, depth=16, colour=4, rows=b"\0" + struct.pack(">HH", 65535, 0))
    assert read(clear).mask is not None


def test_a_palette_with_a_transparent_colour_has_its_hole() -> None:
    picture = PIL.Image.new("P", (8, 4), 0)
    picture.putpalette([*RED, *BLUE])
    picture.paste(1, (4, 0, 8, 4))
    found = read(saved(picture, "PNG", transparency=1))
    assert found.mask is not None
    assert [opened(found.mask).getpixel((x, 2)) for x in (1, 6)] == [0, 255]
    assert [opened(found.png).getpixel((x, 2)) for x in (1, 6)] == [RED, WHITE]


def test_transparent_pixels_become_white_and_a_mask_but_rounding_errors_do_not() -> None:
    picture = corners().convert("RGBA")
    alpha = PIL.Image.new("L", picture.size, 255)
    alpha.paste(0, (0, 0, 8, 32))
    picture.putalpha(alpha)
    found = read(saved(picture, "PNG"))
    assert found.mask is not None
    mask = opened(found.mask)
    assert (mask.mode, mask.size) == ("L", (64, 32))
    assert [mask.getpixel((x, 16)) for x in (4, 12)] == [255, 0]
    assert [opened(found.png).getpixel((x, 16)) for x in (4, 12, 40)] == [WHITE, RED, BLUE]
    picture.putalpha(128)
    assert read(saved(picture, "PNG")).mask is None, "the engine would repaint nothing"
    picture.putalpha(127)
    assert read(saved(picture, "PNG")).mask is not None


@pytest.mark.parametrize(
    ("orientation", "top_left", "size"),
    [
        (1, RED, (64, 32)),
        (2, BLUE, (64, 32)),
        (3, BLUE, (64, 32)),
        (4, RED, (64, 32)),
        (5, RED, (32, 64)),
        (6, RED, (32, 64)),
        (7, BLUE, (32, 64)),
        (8, BLUE, (32, 64)),
        (99, RED, (64, 32)),
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_orientation_is_applied(
    kind: str, orientation: int, top_left: Sequence[int], size: tuple[int, int]
) -> None:
    exif = PIL.Image.Exif()
    exif[Base.Orientation] = orientation
    picture = read(saved(corners(), kind, exif=exif))
    assert (picture.width, picture.height) == size == opened(picture.png).size
    assert opened(picture.png).getpixel((4, 4)) == pytest.approx(top_left, abs=40)


@pytest.mark.parametrize("exif", [b"Exif\0\0nonsense", b"", b"Exif\0\0II*\0\xff\xff\xff\xff"])
@pytest.mark.filterwarnings("ignore")  # Pillow says that the EXIF is broken
def test_invalid_exif_leaves_the_picture_unchanged(exif: bytes) -> None:
    assert read(saved(corners(), "JPEG", exif=exif)).width == 64


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_the_first_frame_of_an_animation_is_used(kind: str) -> None:
    frames = [PIL.Image.new("RGB", (16, 16), colour) for colour in (RED, GREEN, BLUE)]
    how = {"lossless": True} if kind == "WEBP" else {}
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=100, **how)
    assert opened(read(data).png).getpixel((8, 8)) == pytest.approx(RED, abs=3)


def test_only_the_pixels_of_a_file_are_kept() -> None:
    exif = PIL.Image.Exif()
    exif[Base.Artist] = "a person's name"
    profile = b"a colour profile" * 10
    for kind in ("PNG", "JPEG", "WEBP"):
        clean = read(saved(corners(), kind, exif=exif, icc_profile=profile, comment=b"a comment")).png
        found = opened(clean)
        found.load()
        assert found.info == {}
        assert {clean[at : at + 4] for at in (12, len(clean) - 8)} == {b"IHDR", b"IEND"}
        assert b"a " not in clean


def test_a_mask_is_grey_and_its_transparent_part_means_kept() -> None:
    drawn = PIL.Image.new("RGBA", (8, 4), (0, 0, 0, 0))
    drawn.paste((255, 255, 255, 255), (4, 0, 8, 4))
    mask = opened(read_mask(saved(drawn, "PNG"), limits=LIMITS))
    assert (mask.mode, mask.getpixel((1, 1)), mask.getpixel((6, 1))) == ("L", 0, 255)


@pytest.mark.parametrize("size", [(4000, 3000), (2049, 64), (64, 6001), (9001, 40)])
def test_the_white_of_a_large_mask_stays_when_it_is_made_smaller(size: tuple[int, int]) -> None:
    roomy = Limits(max_bytes=10 << 20, max_pixels=50_000_000)
    times = -(-max(size) // KEPT_SIDE)
    for x, y in ((0, 0), (size[0] - 1, size[1] - 1), (size[0] // 2, size[1] // 3)):
        drawn = PIL.Image.new("L", size)
        drawn.putpixel((x, y), 128)
        mask = opened(read_mask(saved(drawn, "PNG"), limits=roomy))
        assert mask.size == tuple(-(-side // times) for side in size)
        assert mask.getcolors() == [(mask.width * mask.height - 1, 0), (1, 255)]
        assert mask.getpixel((x // times, y // times)) == 255


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_a_thin_white_line_in_a_large_mask_is_white(kind: str) -> None:
    roomy = Limits(max_bytes=10 << 20, max_pixels=50_000_000)
    drawn = PIL.Image.new("L", (4200, 4200))
    drawn.paste(255, (0, 2001, 4200, 2002))
    assert opened(read_mask(saved(drawn, kind), limits=roomy)).getextrema() == (0, 255)


def test_a_small_mask_keeps_its_shades() -> None:
    drawn = PIL.Image.linear_gradient("L")
    assert opened(read_mask(saved(drawn, "PNG"), limits=LIMITS)).tobytes() == drawn.tobytes()


def test_a_mask_is_turned_upright_as_its_picture_is() -> None:
    exif = PIL.Image.Exif()
    exif[Base.Orientation] = 6
    drawn = PIL.Image.new("L", (64, 32))
    drawn.paste(255, (0, 0, 32, 32))
    mask = opened(read_mask(saved(drawn, "JPEG", exif=exif), limits=LIMITS))
    assert (mask.size, mask.getpixel((16, 8)), mask.getpixel((16, 56))) == ((32, 64), 255, 0)


def test_a_large_picture_is_kept_no_larger_than_any_model_paints() -> None:
    roomy = Limits(max_bytes=10 << 20, max_pixels=50_000_000)
    for kind, width in (("JPEG", 4400), ("PNG", 2200)):
        wide = PIL.Image.new("RGB", (width, width // 2), RED)
        picture = read_picture(saved(wide, kind), limits=roomy)
        assert (picture.width, picture.height) == (KEPT_SIDE, KEPT_SIDE // 2)


@pytest.mark.parametrize(
    ("size", "kept"),
    [
        ((20_000, 100), (2048, 10)),
        ((25_500, 100), (2048, 8)),
        ((255, 65_500), (8, 2055)),
        ((40_000, 50), (6400, 8)),
        ((16_384, 16), (8192, 8)),
        ((5000, 9), (4445, 8)),
        ((8, 8192), (8, 8192)),
    ],
)
def test_the_short_side_of_a_long_picture_keeps_the_pixels_it_needs(
    size: tuple[int, int], kept: tuple[int, int]
) -> None:
    roomy = Limits(max_bytes=10 << 20, max_pixels=50_000_000)
    found = read_picture(saved(PIL.Image.new("RGB", size, RED), "PNG"), limits=roomy)
    assert (found.width, found.height) == kept


def progressive_with_scans(count: int) -> bytes:
    """A small JPEG whose last scan is repeated `count` times; a decoder passes over all pixels for each."""
    data = saved(corners(), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * count + data[-2:]


def as_mpo(data: bytes) -> bytes:
    """The JPEG with the segment that makes it the first of two pictures in one file."""
    segment = saved(corners(), "MPO", save_all=True, append_images=[corners()])
    begin = segment.index(b"\xff\xe2")
    length = int.from_bytes(segment[begin + 2 : begin + 4])
    return data[:2] + segment[begin : begin + 2 + length] + data[2:]


def test_bytes_that_look_like_scans_elsewhere_in_a_jpeg_do_not_count() -> None:
    data, marks = saved(corners(), "JPEG", progressive=True), b"\xff\xda\0\2" * 1000
    thumbnail = b"\xff\xe5" + struct.pack(">H", len(marks) + 2) + marks
    for file in (data[:2] + thumbnail + data[2:], data + marks, as_mpo(data) + marks):
        assert read(file).width == 64


def jpeg_with(more: bytes) -> bytes:
    """A JPEG with more bytes before its first segment."""
    data = saved(corners(), "JPEG")
    return data[:2] + more + data[2:]


def test_a_few_fillings_comments_and_chunks_are_read() -> None:
    assert read(jpeg_with(b"\xff\xfe\0\2" * 1000 + b"\xff" * 1000)).width == 64
    assert read(png(8, 8, rows=bytes(200), more=chunk(b"prVa", b"") * 1000)).width == 8


def gif_bomb() -> bytes:
    """A GIF whose screen is 65535 on each side."""
    data = bytearray(saved(corners().convert("P"), "GIF"))
    data[6:10] = struct.pack("<HH", 65535, 65535)
    return bytes(data)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "picture"),
    "a text": (lambda: b"#!/bin/sh\necho picture.png\n", "picture"),
    "a page": (lambda: b"<html><img src=x onerror=alert(1)></html>", "picture"),
    "a vector picture": (lambda: b'<svg xmlns="http://www.w3.org/2000/svg"/>', "picture"),
    "an archive": (lambda: b"PK\x03\x04" + bytes(100), "picture"),
    "PostScript": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "picture"),
    "a kind that is not asked for": (lambda: saved(corners(), "TIFF"), "picture"),
    "a bitmap": (lambda: saved(corners(), "BMP"), "picture"),
    "a signature alone": (lambda: SIGNATURE, "picture"),
    "a truncated PNG": (lambda: saved(corners(), "PNG")[:-40], "picture"),
    "a truncated JPEG": (lambda: saved(corners(), "JPEG")[:300], "picture"),
    "a truncated WebP": (lambda: saved(corners(), "WEBP")[:60], "picture"),
    "a truncated GIF": (lambda: saved(corners(), "GIF")[:30], "picture"),
    "no pixels": (lambda: png(0, 0, rows=b""), "picture"),
    "fewer pixels than it says": (lambda: png(500, 500, rows=b"\0\0\0\0"), "picture"),
    "a PNG bomb": (lambda: png(60_000, 60_000, rows=bytes(1000)), "picture_large"),
    "a ribbon": (lambda: png(30_000, 29, rows=b""), "picture_thin"),
    "an upright ribbon": (lambda: png(1, 1025, rows=b""), "picture_thin"),
    "a PNG that is just too large": (lambda: png(1001, 1000, rows=b""), "picture_large"),
    "a WebP bomb": (
        lambda: saved(PIL.Image.new("RGB", (1500, 1500)), "WEBP", lossless=True, quality=0, method=0),
        "picture_large",
    ),
    "a GIF bomb": (gif_bomb, "picture_large"),
    "a bomb of text beside the picture": (
        lambda: png(1, 1, rows=bytes(4), more=chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 22)))),
        "picture",
    ),
    "a JPEG of too many scans": (lambda: progressive_with_scans(30), "picture"),
    "a JPEG of endless comments": (lambda: jpeg_with(b"\xff\xfe\0\2" * 60_000), "picture"),
    "a JPEG of endless fillings": (lambda: jpeg_with(b"\xff" * 60_000), "picture"),
    "a PNG of endless chunks": (
        lambda: png(8, 8, rows=bytes(200), more=chunk(b"prVa", b"") * 60_000),
        "picture",
    ),
    "one that Pillow calls an MPO": (lambda: as_mpo(progressive_with_scans(30)), "picture"),
    "one with fillings before its scans": (
        lambda: progressive_with_scans(30).replace(b"\xff\xda", b"\xff\xff\xff\xda"),
        "picture",
    ),
    "a long file": (lambda: saved(corners(), "PNG") + bytes(1 << 20), "picture_heavy"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_unreadable_and_oversized_files_are_refused_in_one_sentence(name: str) -> None:
    make, problem = HOSTILE[name]
    assert problem_of(make()) == problem


def test_a_name_or_a_claimed_type_is_not_trusted() -> None:
    assert problem_of(b"image/png; filename=picture.png") == "picture"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
@pytest.mark.filterwarnings("ignore")  # Pillow warns about broken files
def test_a_damaged_file_gives_a_picture_or_one_sentence(kind: str) -> None:
    whole = saved(corners(), kind, **({"exif": PIL.Image.Exif()} if kind == "JPEG" else {}))
    chance = random.Random(kind)
    outcomes = set()
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            outcomes.add(type(read(bytes(damaged[: chance.randint(len(damaged) // 2, len(damaged))]))))
        except Unfit as error:
            outcomes.add(type(error))
    assert Unfit in outcomes

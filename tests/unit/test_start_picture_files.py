"""The pixels that the engine reads from the files of start pictures."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from engines import like
from PIL import Image
from PIL.ExifTags import Base

from sdjax_engine.errors import InvalidRequest
from sdjax_engine.model.pictures import fitted

SIDE = 16
RAMP = np.repeat(np.arange(0, 256, 16, dtype=np.uint8)[None], SIDE, axis=0)  # dark to the left
LEFT, RIGHT, UPPER, LOWER = np.s_[:, :8], np.s_[:, 8:], np.s_[:8], np.s_[8:]


def file_of(picture: Image.Image, form: str = "PNG", **how: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **how)
    return file.getvalue()


def turned(picture: Image.Image, orientation: int, form: str = "PNG") -> bytes:
    exif = Image.Exif()
    exif[Base.Orientation] = orientation
    return file_of(picture, form, exif=exif)


def pixels(init_image: bytes, **more: Any) -> np.ndarray:
    start = fitted(like(init_image=init_image, strength=0.5, **more))
    assert start is not None
    return start.pixels


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_picture_is_turned_upright(form: str) -> None:
    start = pixels(turned(Image.fromarray(RAMP).convert("RGB"), 6, form))  # its left side is up

    assert start[UPPER].mean() + 100 < start[LOWER].mean()
    assert abs(float(start[LEFT].mean()) - float(start[RIGHT].mean())) < 5


def test_mask_is_turned_upright() -> None:
    start = fitted(
        like(
            init_image=file_of(Image.fromarray(RAMP)),
            mask_image=turned(Image.fromarray(RAMP), 6),
            strength=0.5,
        )
    )

    assert start is not None
    assert not start.mask[UPPER].any()
    assert start.mask[LOWER].all()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_become_white(mode: str) -> None:
    picture = Image.new("RGBA", (SIDE, SIDE), (200, 0, 0, 255))
    picture.paste((0, 0, 0, 0), (0, 0, 8, SIDE))

    start = pixels(file_of(picture.convert(mode)))

    assert (start[LEFT] == 255).all()
    assert (start[RIGHT] < 255).any()


def test_transparent_pixels_of_a_mask_are_kept() -> None:
    mask = Image.new("RGBA", (SIDE, SIDE), (255, 255, 255, 255))
    mask.paste((255, 255, 255, 0), (0, 0, 8, SIDE))

    start = fitted(like(init_image=file_of(Image.fromarray(RAMP)), mask_image=file_of(mask), strength=0.5))

    assert start is not None
    assert not start.mask[LEFT].any()
    assert start.mask[RIGHT].all()


@pytest.mark.parametrize(
    ("picture", "white", "problem"),
    [
        ((2048, 512), None, "mask_black"),
        ((2048, 512), (0, 0, 300, 512), "mask_cut"),  # the middle is painted
        ((2048, 512), (1300, 0, 2048, 512), "mask_cut"),
        ((512, 2048), (0, 0, 512, 700), "mask_cut"),
        ((1024, 1024), (0, 0, 1024, 1), "mask_cut"),  # too thin for half the size
    ],
)
def test_mask_is_refused_if_nothing_white_is_left_in_the_size(
    picture: tuple[int, int], white: tuple[int, int, int, int] | None, problem: str
) -> None:
    drawn = Image.new("L", picture)
    if white is not None:
        drawn.paste(255, white)
    start = file_of(Image.new("RGB", picture))

    with pytest.raises(InvalidRequest) as refused:
        fitted(like(init_image=start, mask_image=file_of(drawn), strength=0.5, width=512, height=512))

    assert refused.value.problem == problem


def test_mask_is_taken_if_some_of_its_white_is_left_in_the_size() -> None:
    drawn = Image.new("L", (2048, 512))
    drawn.paste(255, (0, 0, 769, 512))
    start = file_of(Image.new("RGB", drawn.size))

    found = fitted(like(init_image=start, mask_image=file_of(drawn), strength=0.5, width=512, height=512))

    assert found is not None
    assert found.mask[:, 0].all()
    assert not found.mask[:, 1:].any()


def test_grey_of_sixteen_bits_keeps_its_shades() -> None:
    start = pixels(file_of(Image.fromarray(RAMP.astype(np.uint16) * 257)))

    assert np.abs(start.astype(int) - RAMP[..., None]).max() <= 1


def test_damaged_picture_is_refused() -> None:
    whole = turned(Image.fromarray(RAMP), 6)

    with pytest.raises(InvalidRequest, match="init_image is not a picture"):
        pixels(whole[: len(whole) // 2])

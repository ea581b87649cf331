"""A page of requests as one picture."""

from __future__ import annotations

import io

import numpy as np
import PIL.Image

from bot.front.contact_sheet import EMPTY, TILE, contact_sheet


def picture(width: int, height: int, colour: str) -> bytes:
    file = io.BytesIO()
    PIL.Image.new("RGB", (width, height), colour).save(file, "PNG")
    return file.getvalue()


def test_each_request_of_any_shape_has_a_tile_in_its_order() -> None:
    sheet = contact_sheet([picture(64, 128, "red"), None, picture(640, 64, "blue")])
    shown = np.asarray(PIL.Image.open(io.BytesIO(sheet)).convert("RGB")).astype(int)
    assert shown.shape == (TILE, 3 * TILE, 3)
    middle = [tuple(shown[TILE // 2, TILE * tile + TILE // 2]) for tile in range(3)]
    for seen, wanted in zip(middle, [(255, 0, 0), EMPTY, (0, 0, 255)], strict=True):
        assert np.abs(np.subtract(seen, wanted)).max() < 12


def test_a_page_of_ten_fits_one_message() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (512, 512, 3), dtype=np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(noise).save(file, "PNG")
    assert len(contact_sheet([file.getvalue()] * 10)) < 2**20

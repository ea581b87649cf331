"""A page of requests as one picture."""

from __future__ import annotations

import io

import numpy as np
import PIL.Image
import pytest

from bot.front.results.contact_sheet import EMPTY, GROUND, STRIP, TILE, contact_sheet, is_drawable, with_name


def picture(width: int, height: int, colour: str, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    PIL.Image.new(mode, (width, height), colour).save(file, "PNG")
    return file.getvalue()


def test_each_request_of_any_shape_has_a_tile_in_its_order() -> None:
    sheet = contact_sheet([picture(64, 128, "red"), None, picture(640, 64, "blue")])
    shown = np.asarray(PIL.Image.open(io.BytesIO(sheet)).convert("RGB")).astype(int)
    assert shown.shape == (TILE, 3 * TILE, 3)
    middle = [tuple(shown[TILE // 2, TILE * tile + TILE // 2]) for tile in range(3)]
    for seen, wanted in zip(middle, [(255, 0, 0), EMPTY, (0, 0, 255)], strict=True):
        assert np.abs(np.subtract(seen, wanted)).max() < 12
    assert np.abs(np.subtract(shown[TILE // 2, 8], EMPTY)).max() < 12  # beside the narrow picture


def test_tiles_are_numbered_only_where_a_first_number_is_given() -> None:
    files = [picture(64, 64, "red"), picture(64, 64, "red")]
    plain, numbered, later = (
        np.asarray(PIL.Image.open(io.BytesIO(contact_sheet(files, first=first))).convert("RGB")).astype(int)
        for first in (None, 1, 8)
    )
    assert np.abs(plain - np.array([254, 0, 0])).max() < 12
    assert np.abs(numbered - plain).max() > 100
    assert np.abs(numbered - later).max() > 100


def test_a_number_is_in_a_quarter_of_its_tile_and_is_read_on_a_phone() -> None:
    files = [picture(64, 64, "red")]
    shown = np.asarray(PIL.Image.open(io.BytesIO(contact_sheet(files))).convert("RGB")).astype(int)
    drawn = np.abs(shown[:TILE, :TILE] - np.array([254, 0, 0])).max(axis=2) > 50
    assert np.ptp(np.flatnonzero(drawn.any(axis=1))) >= TILE // 8
    assert not drawn[TILE // 4 :].any()
    assert not drawn[:, TILE // 4 :].any()


@pytest.mark.parametrize("mode", ["L", "RGBA", "P"])
def test_a_picture_of_any_kind_has_a_tile(mode: str) -> None:
    sheet = contact_sheet([picture(64, 128, "white", mode)], first=None)
    shown = np.asarray(PIL.Image.open(io.BytesIO(sheet)).convert("RGB")).astype(int)
    assert np.abs(shown[TILE // 2, TILE // 2] - 255).max() < 12
    assert np.abs(np.subtract(shown[TILE // 2, 8], EMPTY)).max() < 12


@pytest.mark.parametrize(
    "name", ["Ravi", "Zoë Ångström", "🎨 Mina ✨", "a name that is much longer than its tile has room for"]
)
def test_a_name_is_drawn_within_the_strip_below_its_tile(name: str) -> None:
    whole = with_name(PIL.Image.new("RGB", (TILE, TILE), "red"), name)
    strip = np.asarray(whole)[TILE:].astype(int)
    assert whole.size == (TILE, TILE + STRIP)
    assert np.asarray(whole)[:TILE].reshape(-1, 3).tolist() == [[255, 0, 0]] * TILE**2
    inked = np.flatnonzero((strip != GROUND).any(axis=(0, 2)))
    assert 0 < inked.min() <= inked.max() < TILE - 1


def test_a_name_whose_letters_no_font_has_is_left_out_and_alone_takes_no_strip() -> None:
    cuneiform = "\U00012000\U00012001"
    assert not is_drawable(cuneiform)
    assert np.unique(
        np.asarray(with_name(PIL.Image.new("RGB", (TILE, TILE), GROUND), cuneiform)).reshape(-1, 3), axis=0
    ).tolist() == [list(GROUND)]
    heights = [
        PIL.Image.open(io.BytesIO(contact_sheet([None, None], names=names))).height
        for names in ([cuneiform] * 2, [cuneiform, "Ravi"])
    ]
    assert heights == [TILE, TILE + STRIP]

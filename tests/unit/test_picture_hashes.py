"""Perceptual hashes: what changes a picture little changes its hash little, and the bands find it."""

from __future__ import annotations

import io
import random

import numpy as np
import PIL.Image
import pytest

from bot.delivery.pictures import number_tiles
from bot.domain.hashes import (
    BLOCKED_DISTANCE,
    SEARCH_DISTANCE,
    bands_of,
    distance,
    hash_of,
    hash_of_file,
    hash_of_pixels,
    hashes_of_tiles,
    looked_up,
    name_of,
    named,
    read,
    stored,
)
from sdjax_engine.images import grid_shape, make_grid

ALL = 2**64 - 1


def picture(seed: int, side: int = 256) -> PIL.Image.Image:
    """Soft shapes of many sizes, as a photograph has them."""
    rng = np.random.default_rng(seed)
    total = np.zeros((side, side, 3))
    for cells in (3, 5, 9, 17, 33):
        small = PIL.Image.fromarray(rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        total += np.asarray(small.resize((side, side), PIL.Image.Resampling.BICUBIC), float) / cells
    total = (total - total.min()) / (total.max() - total.min()) * 255
    return PIL.Image.fromarray(total.astype(np.uint8))


def as_jpeg(original: PIL.Image.Image, quality: int) -> PIL.Image.Image:
    file = io.BytesIO()
    original.save(file, "JPEG", quality=quality)
    return PIL.Image.open(file)


def cropped(original: PIL.Image.Image, share: float) -> PIL.Image.Image:
    cut = round(original.width * share / 2)
    return original.crop((cut, cut, original.width - cut, original.height - cut))


@pytest.mark.parametrize("seed", range(12))
def test_a_picture_is_known_again_re_encoded_resized_and_cropped_a_bit(seed: int) -> None:
    original = picture(seed)
    mine = hash_of(original)
    assert distance(mine, hash_of(as_jpeg(original, 35))) <= 2
    assert distance(mine, hash_of(original.resize((101, 101)))) <= 2
    assert distance(mine, hash_of(as_jpeg(cropped(original, 0.02), 70))) <= BLOCKED_DISTANCE
    assert distance(mine, hash_of(cropped(original, 0.04))) <= SEARCH_DISTANCE


def test_other_pictures_are_far_away() -> None:
    hashes = [hash_of(picture(seed)) for seed in range(40)]
    pairs = [distance(one, other) for index, one in enumerate(hashes) for other in hashes[:index]]
    assert min(pairs) > SEARCH_DISTANCE


def test_the_tiles_of_a_grid_are_known_again_though_it_is_smaller_and_numbered() -> None:
    pictures = [picture(seed) for seed in range(5)]
    grid = make_grid(pictures, *grid_shape(5))
    number_tiles(grid, 5, first=1)
    file = io.BytesIO()
    grid.resize((600, 400)).save(file, "JPEG", quality=70)
    [tiles] = [tiles for tiles in hashes_of_tiles(file.getvalue()) if len(tiles) == 6]
    for mine, theirs in zip(pictures, tiles, strict=False):
        assert distance(hash_of(mine), theirs) <= SEARCH_DISTANCE


def test_pixels_files_and_pictures_have_the_same_hash() -> None:
    original = picture(3)
    for kind in ("PNG", "WEBP"):
        file = io.BytesIO()
        original.save(file, kind, lossless=True)
        assert hash_of_file(file.getvalue()) == hash_of(original) == hash_of_pixels(np.asarray(original))


@pytest.mark.parametrize("reach", [0, 3, BLOCKED_DISTANCE, SEARCH_DISTANCE])
def test_every_hash_within_reach_shares_a_band_that_is_looked_up(reach: int) -> None:
    rng = random.Random(reach)
    for _ in range(300):
        mine = rng.getrandbits(64)
        changed = mine
        for bit in rng.sample(range(64), reach):
            changed ^= 1 << bit
        assert distance(mine, changed) == reach
        assert any(
            band in values for band, values in zip(bands_of(changed), looked_up(mine, reach), strict=True)
        )


def test_hashes_survive_the_database_and_have_names() -> None:
    for number in (0, 1, 2**63 - 1, 2**63, ALL):
        assert -(2**63) <= stored(number) < 2**63
        assert read(stored(number)) == named(name_of(number)) == number
    for text in ("", "12", "g" * 16, "0" * 17, "０" * 16):
        assert named(text) is None

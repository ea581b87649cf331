"""The file of a message: the picture itself, or a grid with the recipe of its first picture."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import discord
import numpy as np
import PIL.Image
import pytest
from recipes import RECIPE
from stores import Clock

from bot.delivery.pictures import combine, fit
from bot.delivery.uploads import (
    FILE_LIMIT,
    KNOWN_LIMITS,
    LEARNED_SECONDS,
    MIB,
    SURE_LIMIT,
    UploadLimits,
    next_limit,
)
from sdjax_engine.images import PARAMETERS_CHUNK, RECIPE_CHUNK, encode_png, read_recipe
from sdjax_engine.request import Request


def painted(request: Request, grey: int) -> bytes:
    return encode_png(np.full((8, 8, 3), grey, np.uint8), request, extra={"job": "abc"})


def test_a_single_picture_is_the_painted_file() -> None:
    file = painted(RECIPE.request(0), 9)
    assert combine([file]) is file


def test_a_grid_carries_the_recipe_of_its_first_picture_and_what_that_was_started_from() -> None:
    start = painted(RECIPE.request(0), 0)
    requests = [replace(RECIPE.request(index), init_image=start, strength=0.5) for index in (1, 2, 3)]
    files = [painted(request, 60 * number) for number, request in enumerate(requests)]
    grid, first = (PIL.Image.open(io.BytesIO(data)) for data in (combine(files), files[0]))
    assert grid.size == (24, 8)
    assert [grid.getpixel((x, 4)) for x in (4, 12, 20)] == [(0, 0, 0), (60, 60, 60), (120, 120, 120)]
    assert grid.info[PARAMETERS_CHUNK] == first.info[PARAMETERS_CHUNK]
    said, wanted = (json.loads(picture.info[RECIPE_CHUNK]) for picture in (grid, first))
    assert said == {**wanted, "extra": {"job": "abc", "pictures": "3"}}


def noisy(seed: int, side: int = 96) -> bytes:
    """A picture that no format makes much smaller without loss."""
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return encode_png(pixels, RECIPE.request(seed))


@pytest.mark.parametrize(
    ("share", "suffix", "whole"),
    [
        (1.1, ".png", True),
        (0.9, ".webp", True),
        (0.4, ".webp", True),
        (0.21, ".jpg", True),
        (0.06, ".jpg", False),
    ],
)
def test_a_grid_loses_no_more_than_the_limit_asks_for(share: float, suffix: str, whole: bool) -> None:
    files = [noisy(number) for number in range(4)]
    limit = int(share * len(combine(files)))
    fitted = fit(files, limit)
    assert (fitted.suffix, len(fitted.data) <= limit) == (suffix, True)
    assert (PIL.Image.open(io.BytesIO(fitted.data)).size == (192, 192)) is whole
    assert read_recipe(io.BytesIO(fitted.data)) == RECIPE.request(0)


def test_the_tiles_of_a_grid_are_numbered_and_the_rest_of_each_stays_as_it_is() -> None:
    files = [encode_png(np.full((96, 96, 3), 200, np.uint8), RECIPE.request(n)) for n in range(3)]
    grid = np.asarray(PIL.Image.open(io.BytesIO(fit(files, 2**20, first=4).data)).convert("RGB"))
    corners = [grid[:16, 96 * column : 96 * column + 16] for column in range(3)]
    assert all(corner.min() < 80 and corner.max() > 240 for corner in corners)  # a white number on dark
    assert len({corner.tobytes() for corner in corners}) == 3
    assert all(
        (corner != 200).any(-1).sum() < 16 * 16 / 2 for corner in corners
    )  # the picture shows around it
    assert (grid[20:] == 200).all()
    other = np.asarray(PIL.Image.open(io.BytesIO(fit(files, 2**20).data)).convert("RGB"))
    assert (other != grid).any()


def test_a_picture_that_fits_no_limit_is_as_small_as_possible() -> None:
    assert len(fit([noisy(1)], 10).data) < 10_000


def test_after_a_refusal_the_next_limit_of_discord_is_tried_and_then_half() -> None:
    assert [next_limit(size * MIB) for size in (60, 40, 22, 20, 19)] == list(KNOWN_LIMITS)
    assert next_limit(KNOWN_LIMITS[-1]) == KNOWN_LIMITS[-1] // 2


HERE, ELSEWHERE = 1, 2


def test_the_size_that_a_channel_refused_is_remembered_for_that_channel_and_for_a_while() -> None:
    clock = Clock()
    limits = UploadLimits(clock=clock)
    assert limits.of(HERE) == FILE_LIMIT == 20 * MIB
    assert limits.refused(HERE, FILE_LIMIT) == 20_000_000
    assert limits.of(HERE) == 20_000_000
    assert limits.refused(HERE, 20_000_000) == SURE_LIMIT
    assert (limits.of(HERE), limits.of(ELSEWHERE)) == (SURE_LIMIT, FILE_LIMIT)
    clock.now += LEARNED_SECONDS
    assert limits.of(HERE) == FILE_LIMIT


def test_a_refusal_of_less_than_every_place_takes_is_of_one_message_alone() -> None:
    limits = UploadLimits(clock=Clock())
    assert limits.refused(HERE, 4 * MIB) == 2 * MIB
    assert limits.of(HERE) == FILE_LIMIT


@pytest.mark.parametrize(("tier", "limit"), [(0, 20), (1, 20), (2, 25), (3, 25)])
def test_boosted_servers_take_more_up_to_the_limit_of_a_request(tier: int, limit: int) -> None:
    of_tier = discord.Guild._PREMIUM_GUILD_LIMITS[tier].filesize
    guild = cast("Any", SimpleNamespace(filesize_limit=of_tier))
    found = UploadLimits(clock=Clock()).of(HERE, guild)
    assert limit * MIB - 65_536 <= found <= limit * MIB

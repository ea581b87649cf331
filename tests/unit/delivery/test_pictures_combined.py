"""The file that a message carries: the picture itself, or a grid that says how to paint its first."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import PIL.Image
from recipes import RECIPE

from bot.delivery.pictures import combine
from sdjax_engine.images import PARAMETERS_CHUNK, RECIPE_CHUNK, encode_png
from sdjax_engine.request import Request


def painted(request: Request, grey: int) -> bytes:
    return encode_png(np.full((8, 8, 3), grey, np.uint8), request, extra={"job": "abc"})


def test_a_picture_alone_is_the_very_file() -> None:
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

"""Control pictures that are made of ordinary ones."""

from __future__ import annotations

import hashlib
import time

import numpy as np
import pytest

from sdjax_engine.control_pictures import MOST_ROUNDS, Pixels, control_picture, edges, grown, lines, tile
from sdjax_engine.request import ControlType

BY_OPENCV = {
    "noise": "9afbd14cbfedd028ae59e85185c3cb81a254604066b0193af826b9c45fe711ee",
    "waves": "f1f232b8d5aa422d92d9964438eeffd2462811c913a32f7d31aebbd3ac2482a5",
}
"""The sha256 of `cv2.Canny(picture, 100, 200)` of OpenCV 5.0.0."""


def picture(name: str) -> Pixels:
    """A picture with sides that differ, of integers alone: the same everywhere."""
    random = np.random.default_rng(5)
    if name == "noise":
        return random.integers(0, 256, (97, 131, 3), np.uint8)
    y, x = np.mgrid[:96, :160]
    colours = [(x * x * (1 + c) + y * y * 3 + x * y * c) // 96 % 256 for c in range(3)]
    return np.stack(colours, axis=2).astype(np.uint8)


@pytest.mark.parametrize("name", BY_OPENCV)
def test_edges_are_those_of_opencv_in_every_pixel(name: str) -> None:
    found = edges(picture(name))
    assert (found == found[:, :, :1]).all()
    assert hashlib.sha256(found[:, :, 0].tobytes()).hexdigest() == BY_OPENCV[name]


def test_a_long_faint_edge_takes_bounded_time_and_ends_at_the_bound() -> None:
    allowed = np.zeros((MOST_ROUNDS // 4, 64), np.bool_)
    allowed[::2] = True
    allowed[1::4, -1] = allowed[3::4, 0] = True  # one path, back and forth
    seeds = np.zeros_like(allowed)
    seeds[0, 0] = True
    began = time.perf_counter()
    found = grown(seeds, allowed)
    assert time.perf_counter() - began < 5
    assert MOST_ROUNDS <= found.sum() <= 2 * MOST_ROUNDS < allowed.sum()


def test_lines_show_what_is_darker_than_its_surroundings_and_nothing_of_a_plain_picture() -> None:
    drawn = np.full((64, 80, 3), 220, np.uint8)
    assert not lines(drawn).any()
    drawn[30:32, 10:70] = 20
    found = lines(drawn)
    assert found[30:32, 15:65].min() > 100
    assert found[:15].max() == 0


def test_a_tile_keeps_the_colours_and_loses_the_details() -> None:
    board = np.indices((64, 72)).sum(axis=0) % 2 * 255
    found = tile(np.repeat(board[:, :, None], 3, axis=2).astype(np.uint8))
    assert found.shape == (64, 72, 3)
    assert np.abs(found.astype(int) - 127).max() <= 1
    assert tile(np.zeros((1, 1, 3), np.uint8)).shape == (1, 1, 3)


def test_a_picture_that_is_a_control_picture_already_stays_as_it_is() -> None:
    pixels = picture("noise")
    for kind in (ControlType.PICTURE, ControlType.DEPTH, ControlType.POSE):
        assert control_picture(pixels, kind) is pixels
    assert (control_picture(pixels, ControlType.EDGES) != pixels).any()


def test_a_picture_beyond_the_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="5000×5000 is too large"):
        control_picture(np.broadcast_to(np.uint8(0), (5000, 5000, 3)), ControlType.EDGES)

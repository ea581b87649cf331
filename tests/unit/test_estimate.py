"""Times to start, worked out by hand."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.store.estimate import Ahead, Line, seconds_to_start

PACE = 0.5


def start(images: int, steps: int = 0, *, seats: int, running: tuple[int, ...] = ()) -> float | None:
    return seconds_to_start(
        Line(seats=seats, pace=PACE, running=running), Ahead(images=images, steps=steps or 10 * images)
    )


def test_a_free_seat_is_taken_at_once() -> None:
    assert start(0, seats=1) == 0.0
    assert start(1, seats=3, running=(10,)) == 0.0


def test_a_seat_is_free_when_its_image_has_done_its_steps() -> None:
    assert start(0, seats=2, running=(6, 1)) == pytest.approx(0.5)
    assert start(1, seats=2, running=(6, 1)) == pytest.approx(3.0)
    assert start(2, seats=2, running=(6, 1)) == pytest.approx(5.5)


def test_claimed_images_that_have_not_begun_come_first() -> None:
    assert start(0, seats=1, running=(2, 10)) == pytest.approx(1.0 + 5.0)


def test_an_image_past_its_last_step_frees_its_seat_now() -> None:
    assert start(0, seats=1, running=(-2,)) == 0.0


def test_without_seats_or_measurements_the_time_is_not_known() -> None:
    assert seconds_to_start(Line(seats=0, pace=PACE), Ahead(images=0, steps=0)) is None
    assert seconds_to_start(Line(seats=1, pace=None), Ahead(images=0, steps=0)) is None


@given(
    running=st.lists(st.integers(0, 60), max_size=12),
    images=st.integers(0, 400),
    steps=st.integers(1, 50),
    seats=st.integers(1, 9),
)
def test_many_alike_are_told_as_if_each_were_seated_alone(
    running: list[int], images: int, steps: int, seats: int
) -> None:
    free_at = [0.0] * seats
    for left in running + [steps] * images:
        heapq.heapreplace(free_at, free_at[0] + PACE * left)
    found = start(images, images * steps, seats=seats, running=tuple(running))
    assert found == pytest.approx(free_at[0])

"""Positions and times to start, worked out by hand."""

import pytest

from bot.jobs import Position
from bot.store.estimate import Task, positions

PACE = {"small": 0.5, "large": 2.0}


def task(job_id: str, *, lane: str = "small", steps: int = 10, step: int = 0) -> Task:
    return Task(job_id=job_id, lane=lane, steps=steps, step=step)


def starts(waiting: list[Task], *, running: list[Task], seats: int) -> dict[str, float | None]:
    found = positions(waiting, running=running, seconds_per_step=PACE, seats=seats)
    return {job_id: position.seconds for job_id, position in found.items()}


def test_the_first_image_of_a_job_is_its_place() -> None:
    found = positions([task("a"), task("b"), task("a"), task("c")], running=[], seconds_per_step={}, seats=0)
    assert found == {
        "a": Position(place=1, ahead=0, seconds=None),
        "b": Position(place=2, ahead=1, seconds=None),
        "c": Position(place=3, ahead=3, seconds=None),
    }


def test_free_seats_are_taken_at_once() -> None:
    assert starts([task("a"), task("b")], running=[task("r")], seats=3) == {"a": 0.0, "b": 0.0}


def test_a_seat_is_free_when_its_image_has_done_its_steps() -> None:
    running = [task("r", step=4), task("s", step=9)]
    assert starts([task("a"), task("b"), task("c")], running=running, seats=2) == {
        "a": pytest.approx(0.5),
        "b": pytest.approx(3.0),
        "c": pytest.approx(5.5),
    }


def test_claimed_images_that_have_not_begun_come_first() -> None:
    running = [task("next"), task("seated", step=8)]
    assert starts([task("a")], running=running, seats=1) == {"a": pytest.approx(1.0 + 5.0)}


def test_each_lane_has_its_own_pace() -> None:
    assert starts([task("a", lane="large"), task("b")], running=[], seats=1) == {
        "a": 0.0,
        "b": pytest.approx(20.0),
    }


def test_behind_a_lane_that_was_never_measured_the_time_is_not_known() -> None:
    assert starts([task("a"), task("new", lane="new"), task("b")], running=[], seats=1) == {
        "a": 0.0,
        "new": pytest.approx(5.0),
        "b": None,
    }


def test_an_image_past_its_last_step_frees_its_seat_now() -> None:
    assert starts([task("a")], running=[task("r", steps=10, step=12)], seats=1) == {"a": 0.0}

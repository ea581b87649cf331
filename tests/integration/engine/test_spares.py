"""What empty seats paint ahead is the answer when somebody asks for it, to the bit and without a seat."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from engines import PLAIN, VARIED, fingerprint, like
from sabotage import SabotagedLane

from sdjax_engine.engine import Engine
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.model.prepare import Prepared
from sdjax_engine.request import Lane, Request

DEADLINE = 120.0


class CountingLane(SabotagedLane):
    """Remembers who sat down."""

    def __init__(self, lane: DeviceLane) -> None:
        super().__init__(lane)
        self.admitted: list[Request] = []

    def admit(self, newcomers: Mapping[int, Prepared]) -> None:
        self.admitted += [prepared.request for prepared in newcomers.values()]
        super().admit(newcomers)


@pytest.fixture
def lane(device_lanes: dict[Lane, DeviceLane]) -> CountingLane:
    return CountingLane(device_lanes[PLAIN.lane])


OpenWith = Callable[[int], Engine]


@pytest.fixture
def open_with(open_engine: Callable[..., Engine], lane: CountingLane) -> OpenWith:
    """Opens an engine that keeps so many spares."""
    return lambda spares: open_engine(sabotaged={PLAIN.lane: lane}, spares=spares)


def paint(engine: Engine, *requests: Request) -> list[str]:
    return [fingerprint(future.result(DEADLINE)) for future in [engine.submit(each) for each in requests]]


def following(request: Request, count: int) -> list[Request]:
    return [like(request, seed=(request.seed + further) % 2**32) for further in range(1, count + 1)]


def test_the_next_seeds_are_answered_from_spares_and_bit_equal_to_a_fresh_run(
    open_with: OpenWith, lane: CountingLane
) -> None:
    for request in VARIED[:3]:
        further = following(request, lane.seats - 1)
        engine = open_with(0)
        expected = paint(engine, *further)
        engine.close(drain=True)
        engine = open_with(64)
        paint(engine, request)
        lane.admitted.clear()
        assert paint(engine, *further) == expected
        assert lane.admitted == []
        assert paint(engine, *further) == expected, "a spare stays for others"
        assert lane.admitted == []
        engine.close(drain=True)


def test_a_spare_that_is_half_painted_is_taken_over(open_with: OpenWith, lane: CountingLane) -> None:
    long = like(num_inference_steps=60)
    [further] = following(long, 1)
    engine = open_with(0)
    expected = paint(engine, further)
    engine.close(drain=True)
    lane.admitted.clear()
    engine = open_with(64)
    futures = []

    def ask_for_more(_progress: object) -> None:
        if not futures:
            futures.append(engine.submit(further))

    paint_long = engine.submit(long, on_progress=ask_for_more)
    paint_long.result(DEADLINE)
    assert fingerprint(futures[0].result(DEADLINE)) == expected[0]
    assert lane.admitted.count(further) == 1


def test_nobody_else_s_picture_and_none_twice_is_painted_ahead(
    open_with: OpenWith, lane: CountingLane
) -> None:
    engine = open_with(64)
    job = [like(seed=seed, num_inference_steps=30) for seed in (7, 8)]
    paint(engine, *job)
    ahead = [request for request in lane.admitted if request not in job]
    assert len(lane.admitted) == len(set(lane.admitted))
    assert {request.seed for request in ahead} <= set(range(9, 18))
    assert {like(request, seed=7) for request in ahead} == {job[0]}


def test_without_spares_no_seat_paints_what_nobody_asked_for(open_with: OpenWith, lane: CountingLane) -> None:
    engine = open_with(0)
    paint(engine, PLAIN, like(seed=99))
    assert sorted(request.seed for request in lane.admitted) == [PLAIN.seed, 99]


def test_as_many_spares_are_kept_as_are_wished_for(open_with: OpenWith, lane: CountingLane) -> None:
    engine = open_with(2)
    paint(engine, like(seed=100))
    paint(engine, like(seed=200))
    lane.admitted.clear()
    paint(engine, *following(like(seed=100), 3))
    assert {request.seed for request in lane.admitted} >= {101, 102, 103}
    lane.admitted.clear()
    assert len(engine._thread._painting._spares) == 2

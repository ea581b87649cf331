"""Times to start, compared with times computed by hand."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.store.rows.fair_order import (
    Ahead,
    Arrival,
    Flow,
    Line,
    WorkerSeats,
    faster,
    overtaking,
    seconds_to_start,
    spans,
)

PACE = 0.5


def line(*seats_by_worker: tuple[int, tuple[int, ...]], arrivals: tuple[Arrival, ...] = ()) -> Line:
    """A lane of workers with so many seats each, who have claimed images of so many steps."""
    made = tuple(WorkerSeats(seats=seats, running=running) for seats, running in seats_by_worker)
    return Line(seats_by_worker=made, pace=PACE, arrivals=arrivals)


def start(images: int, *, seats: int, running: tuple[int, ...] = ()) -> float | None:
    return seconds_to_start(line((seats, running)), Ahead(images=images, steps=10 * images))


def test_a_worker_seats_earlier_claims_before_new_ones() -> None:
    full, other = (1, (8, 20)), (1, (30,))
    assert seconds_to_start(line(full, other), Ahead(images=0, steps=0)) == pytest.approx(15.0)
    assert seconds_to_start(line(full, other), Ahead(images=1, steps=10)) == pytest.approx(14.0)


def test_without_seats_or_measurements_the_time_is_not_known() -> None:
    assert seconds_to_start(line((0, ())), Ahead(images=0, steps=0)) is None
    unmeasured = Line(seats_by_worker=(WorkerSeats(seats=1),), pace=None)
    assert seconds_to_start(unmeasured, Ahead(images=0, steps=0)) is None


@given(
    running=st.lists(st.integers(0, 60), max_size=12),
    images=st.integers(0, 400),
    steps=st.integers(1, 50),
    seats=st.integers(1, 9),
)
def test_many_equal_images_have_the_times_of_a_simulation_one_by_one(
    running: list[int], images: int, steps: int, seats: int
) -> None:
    free_at = [0.0] * seats
    for left in running + [steps] * images:
        heapq.heapreplace(free_at, free_at[0] + PACE * left)
    found = seconds_to_start(line((seats, tuple(running))), Ahead(images=images, steps=images * steps))
    assert found == pytest.approx(free_at[0], abs=PACE * max([steps, *running]))


def test_arrivals_with_a_smaller_lead_count_in_part() -> None:
    came = (
        Arrival(user_id=2, steps=60, lead=1.0),  # counts three quarters: its lead is a quarter of 4.0
        Arrival(user_id=3, steps=60, lead=4.0),  # does not overtake
        Arrival(user_id=1, steps=60, lead=1.0),  # of the same person
    )
    far = Ahead(images=9, steps=90, lead=4.0, user_id=1)
    assert overtaking(line((1, ()), arrivals=came), far) == pytest.approx(0.75)
    near = Ahead(images=0, steps=0, lead=1.0, user_id=1)
    assert overtaking(line((1, ()), arrivals=came), near) == 0.0


def flow(**values: float) -> Flow:
    return Flow(**{"seats": 1, "taken": 1, "pace": 1.0, "left": 10.0, "inflow": 0.0, **values})  # type: ignore[arg-type]


def test_a_lane_alone_keeps_its_measured_pace() -> None:
    assert faster("a", 10, {"a": flow()}) == 1.0
    assert faster("a", 10, {"a": flow(), "b": flow(taken=0, left=0.0)}) == 1.0


def worked_off(lane: str, steps: float, flows: dict[str, Flow], *, moment: float = 0.002) -> float:
    """The same ratio as `faster`, simulated in short time steps."""
    taken = sum(flow.taken for flow in flows.values())
    costs = {name: flow.pace * flow.taken / taken / flow.seats for name, flow in flows.items()}
    others = {name: flow.left * costs[name] for name, flow in flows.items() if name != lane}
    work, took = steps * costs[lane], 0.0
    while work > 0:
        busy = [name for name, left in others.items() if left > 0]
        idle = sum(flows[name].inflow * costs[name] for name in others if name not in busy)
        free = max(0.1, 1 - idle) / sum(flows[name].seats for name in (lane, *busy))
        for name in busy:
            others[name] -= moment * (free * flows[name].seats - flows[name].inflow * costs[name])
        work, took = work - moment * free * flows[lane].seats, took + moment
    return took * flows[lane].taken / taken / (steps * costs[lane])


@pytest.mark.parametrize(
    "others",
    [
        {"b": flow(inflow=0.5)},
        {"b": flow(seats=2, taken=2, left=6.0), "c": flow(left=3.0)},
        {"b": flow(seats=2, left=8.0, inflow=0.25, pace=2.0), "c": flow(left=30.0, inflow=4.0)},
        {"b": flow(left=1.0, inflow=3.0, pace=3.0), "c": flow(taken=3, seats=4, left=2.0, inflow=0.5)},
        {"b": flow(left=0.5, inflow=1.9), "c": flow(left=0.5, inflow=1.9)},
        {"b": flow(left=2.0), "c": flow(left=5.0, seats=2, taken=2, inflow=0.5)},
    ],
)
@pytest.mark.parametrize(("seats", "steps"), [(1, 1), (1, 12), (3, 12), (2, 60)])
def test_lanes_share_the_devices_as_they_would_moment_by_moment(
    others: dict[str, Flow], seats: int, steps: int
) -> None:
    flows = {"a": flow(seats=seats, taken=seats, pace=1.5), **others}
    assert faster("a", steps, flows) == pytest.approx(worked_off("a", steps, flows), rel=0.01)


def test_each_claimed_image_has_its_start_and_end_in_order() -> None:
    assert spans(WorkerSeats(seats=2, running=(6, 2, 4, 10)), 0.5) == [(0, 3), (0, 1), (1, 3), (3, 8)]
    assert spans(WorkerSeats(seats=1, running=(-3, 2)), 0.5) == [(0, 0), (0, 1)]


def test_of_workers_with_room_at_the_same_time_any_may_claim_first() -> None:
    both = line((1, (8,)), (1, (4,)))
    assert seconds_to_start(both, Ahead(images=0, steps=0)) == pytest.approx((4.0 + 2.0) / 2)


def test_overtaking_is_by_the_second_and_only_of_what_came_with_less_lead() -> None:
    came = (Arrival(user_id=2, steps=60, lead=2.0), Arrival(user_id=3, steps=40, lead=1.0))
    some = Line(seats_by_worker=(WorkerSeats(seats=1),), pace=PACE, arrivals=came, seconds=20.0)
    assert overtaking(some, Ahead(images=0, steps=0, lead=2.0)) == pytest.approx(1.0)
    assert overtaking(some, Ahead(images=0, steps=0, lead=4.0)) == pytest.approx(3.0)
    assert overtaking(some, Ahead(images=0, steps=0, lead=-1.0)) == 0.0
    first = Line(
        seats_by_worker=some.seats_by_worker, pace=PACE, arrivals=(Arrival(user_id=2, steps=60, lead=-1.0),)
    )
    assert overtaking(first, Ahead(images=0, steps=0, lead=0.0)) == 0.0


def test_a_worker_with_room_claims_before_one_that_is_full_for_less_than_a_second() -> None:
    free, full = (1, (40,)), (1, (1, 1))
    assert seconds_to_start(line(free, full), Ahead(images=0, steps=0)) == pytest.approx(40 * PACE)


def test_a_worker_takes_no_more_than_it_can_claim() -> None:
    """Each seat has an image that runs and one that waits for it, whatever is claimed after that."""
    three = (WorkerSeats(seats=3, running=(2, 4, 6, 8, 10, 12)),)
    full = Line(seats_by_worker=three, pace=1.0)
    assert seconds_to_start(full, Ahead(images=0, steps=0)) == pytest.approx(10.0)
    assert seconds_to_start(full, Ahead(images=1, steps=7)) == pytest.approx(14.0)


def test_no_more_than_a_fifth_of_a_lane_is_expected_to_overtake() -> None:
    flood = (Arrival(user_id=2, steps=6000, lead=0.0),)
    wait = Ahead(images=8, steps=80, lead=1.0, user_id=1)
    assert seconds_to_start(line((1, ()), arrivals=flood), wait) == pytest.approx(10 * 10 * PACE)

"""Seating: no request is lost, painted twice, overtaken, or kept waiting while a seat is free."""

from __future__ import annotations

import copy
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sdjax_engine.scheduler.lane_queue import RunLimits, Seats


class SeatingMachine(RuleBasedStateMachine):
    """Requests of a lane arrive, are painted, fail and are cancelled, in any order."""

    @initialize(devices=st.integers(1, 4), seats_per_device=st.integers(1, 3))
    def open(self, devices: int, seats_per_device: int) -> None:
        self.seats: Seats[int] = Seats(devices=devices, seats_per_device=seats_per_device)
        self.evaluations: dict[int, int] = {}
        self.painted: Counter[int] = Counter()
        self.line: list[int] = []
        self.finished: list[int] = []
        self.gone: set[int] = set()
        self.alone: set[int] = set()

    @rule(evaluations=st.integers(1, 60))
    def come(self, evaluations: int) -> None:
        request = len(self.evaluations) + 1
        self.evaluations[request] = evaluations
        self.seats.join(request, evaluations)
        self.line.append(request)

    @rule()
    def run(self) -> None:
        for request in self.seats.take_seats().values():
            assert request == self.line.pop(0), "the line is kept"
        free = len(self.seats) - len(self.seats.seated)
        assert self.alone or not (free and self.seats.waiting)
        spans = self.seats.plan_run()
        assert len({span.seat for span in spans}) == len(spans)
        assert len(spans) <= 1 or not self.alone & {span.request for span in spans}
        for span in spans:
            assert span.start < span.stop
            assert self.painted[span.request] == span.start, "an evaluation was skipped or made twice"
            self.painted[span.request] = span.stop
            assert span.last == (span.stop == self.evaluations[span.request])
            if span.last:
                self.finished.append(span.request)
                self.alone.discard(span.request)

    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        unwanted = (
            data.draw(st.sets(st.sampled_from(sorted(self.evaluations)))) if self.evaluations else set()
        )
        dropped = {request for request in unwanted if self.seats.leave(request)}
        assert dropped == unwanted - self.gone - set(self.finished)
        self.gone |= dropped
        self.alone -= self.gone
        self.line = [request for request in self.line if request not in self.gone]

    @rule(alone=st.booleans())
    def break_down(self, alone: bool) -> None:
        """The devices fail, and every seated request restarts before the others."""
        seated = self.seats.clear_seats()
        for request in seated:
            self.painted[request] = 0
        again = [(request, self.evaluations[request]) for request in seated]
        self.seats.rejoin(again, alone=alone)
        self.alone = self.alone | set(seated) if alone else self.alone - set(seated)
        self.line = seated + self.line

    @invariant()
    def everybody_is_somewhere_once(self) -> None:
        places = [*self.seats.requests, *self.finished, *self.gone]
        assert sorted(places) == sorted(self.evaluations)

    @invariant()
    def the_line_is_kept(self) -> None:
        assert self.seats.waiting == self.line

    @invariant()
    def whoever_comes_to_open_seats_sits_down_next(self) -> None:
        seats, newcomer = copy.deepcopy(self.seats), -1
        is_open = seats.open_to_newcomers
        seats.join(newcomer, 1)
        assert is_open == (newcomer in seats.take_seats().values())

    def teardown(self) -> None:
        """The remaining requests are painted within their evaluations, without new arrivals."""
        left = sum(self.evaluations[request] for request in self.seats.requests)
        while self.seats.requests:
            assert self.seats.wanted
            self.run()
            left -= 1
            assert left >= 0


TestEvening = SeatingMachine.TestCase


def lane(devices: int = 2, seats_per_device: int = 2) -> Seats[str]:
    return Seats(devices=devices, seats_per_device=seats_per_device)


def test_newcomers_spread_over_the_devices_before_they_share_one() -> None:
    seats = lane()
    for request in "abc":
        seats.join(request, 20)
    assert seats.take_seats() == {0: "a", 2: "b", 1: "c"}


def test_the_next_newcomer_sits_on_the_emptiest_device() -> None:
    seats = lane(devices=2, seats_per_device=3)
    for request in "abcd":
        seats.join(request, 20)
    seats.take_seats()
    seats.leave("d")  # the first device has "a" and "c", the second "b"
    seats.join("e", 20)
    assert seats.take_seats() == {4: "e"}


def test_a_lane_is_ready_for_as_many_requests_as_there_are_and_have_room() -> None:
    seats = lane(devices=1, seats_per_device=2)
    assert seats.wanted == 0
    told = []
    for request in "abc":
        seats.join(request, 5)
        told.append((seats.wanted, seats.open_to_newcomers))
    assert told == [(1, True), (2, False), (2, False)]
    assert lane().plan_run() == []


def test_a_run_ends_when_the_next_seat_finishes() -> None:
    seats = lane(devices=2, seats_per_device=1)
    seats.join("a", 7)
    seats.join("b", 20)
    seats.take_seats()
    assert [(span.request, span.stop, span.last) for span in seats.plan_run()] == [
        ("a", 7, True),
        ("b", 7, False),
    ]


@given(evaluations=st.integers(1, 150), short=st.integers(1, 8), long=st.integers(1, 40))
def test_a_run_is_short_while_a_seat_is_free_and_never_endless(
    evaluations: int, short: int, long: int
) -> None:
    limits = RunLimits(short=short, long=long)
    seats = lane(devices=2, seats_per_device=1)
    seats.join("a", evaluations)
    seats.take_seats()
    assert seats.plan_run(limits)[0].stop == min(evaluations, short)
    full = lane(devices=1, seats_per_device=1)
    full.join("a", evaluations)
    full.take_seats()
    assert full.plan_run(limits)[0].stop == min(evaluations, long)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=40),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_no_request_waits_longer_than_the_bound_of_list_scheduling(
    evaluations: list[int], devices: int, seats_per_device: int
) -> None:
    """The bound of list scheduling (Graham 1966): the earlier work by seats, plus the longest image."""
    seats = lane(devices, seats_per_device)
    for request, count in enumerate(evaluations):
        seats.join(str(request), count)
    clock, finished = 0, {}
    while seats.requests:
        seats.take_seats()
        spans = seats.plan_run()
        clock += max(span.stop - span.start for span in spans)
        finished |= {int(span.request): clock for span in spans if span.last}
    for request, end in finished.items():
        before = evaluations[: request + 1]
        assert end <= sum(before) / len(seats) + max(before)

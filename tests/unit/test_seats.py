"""Seating: nobody is lost, painted twice, skipped in the line or kept waiting while a seat is free."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sdjax_engine.seats import LONG_RUN, SHORT_RUN, Seats, suitable_seats


class Evening(RuleBasedStateMachine):
    """People of a lane come, are painted, and give up, in any order hypothesis thinks of."""

    @initialize(devices=st.integers(1, 4), seats_per_device=st.integers(1, 3), pad=st.booleans())
    def open(self, devices: int, seats_per_device: int, pad: bool) -> None:
        self.seats: Seats[int] = Seats(
            devices=devices, seats_per_device=seats_per_device, pad_idle_devices=pad
        )
        self.evaluations: dict[int, int] = {}
        self.painted: Counter[int] = Counter()
        self.seated: list[int] = []
        self.finished: list[int] = []
        self.gone: set[int] = set()

    @rule(evaluations=st.integers(1, 60))
    def come(self, evaluations: int) -> None:
        ticket = len(self.evaluations)
        self.evaluations[ticket] = evaluations
        self.seats.join(ticket, evaluations)

    @rule()
    def run(self) -> None:
        placements = self.seats.take_seats()
        self.seated += [placement.ticket for placement in placements if not placement.padding]
        spans = self.seats.plan_run()
        assert len({span.seat for span in spans}) == len(spans)
        for span in spans:
            assert span.start < span.stop
            if span.ticket is not None:
                self.check_person(span.ticket, span.start, span.stop, span.last)

    def check_person(self, ticket: int, start: int, stop: int, last: bool) -> None:
        assert self.painted[ticket] == start, "an evaluation was skipped or made twice"
        self.painted[ticket] = stop
        assert last == (stop == self.evaluations[ticket])
        if last:
            self.finished.append(ticket)

    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        unwanted = (
            data.draw(st.sets(st.sampled_from(sorted(self.evaluations)))) if self.evaluations else set()
        )
        dropped = self.seats.drop(unwanted.__contains__)
        assert set(dropped) == unwanted - self.gone - set(self.finished)
        self.gone |= set(dropped)

    @invariant()
    def everybody_is_somewhere_once(self) -> None:
        places = [*self.seats.tickets, *self.finished, *self.gone]
        assert sorted(places) == sorted(self.evaluations)

    @invariant()
    def the_line_is_kept(self) -> None:
        assert self.seated == sorted(self.seated)

    def teardown(self) -> None:
        """Whoever is still here is painted within the evaluations asked for, without anybody else coming."""
        left = sum(self.evaluations[ticket] for ticket in self.seats.tickets)
        while self.seats.tickets:
            before = sum(self.painted.values())
            self.run()
            assert sum(self.painted.values()) > before
            left -= 1
            assert left >= 0


TestEvening = Evening.TestCase


def lane(devices: int = 2, seats_per_device: int = 2, *, pad: bool = False) -> Seats[str]:
    return Seats(devices=devices, seats_per_device=seats_per_device, pad_idle_devices=pad)


def test_newcomers_spread_over_the_devices_before_they_share_one() -> None:
    seats = lane()
    for ticket in "abc":
        seats.join(ticket, 20)
    assert [(each.seat, each.ticket) for each in seats.take_seats() if not each.padding] == [
        (0, "a"),
        (2, "b"),
        (1, "c"),
    ]


def test_a_newcomer_takes_a_free_seat_while_the_others_go_on() -> None:
    seats = lane(devices=2, seats_per_device=1)
    seats.join("a", 20)
    seats.take_seats()
    seats.plan_run()
    seats.join("b", 20)
    seats.take_seats()
    assert {span.ticket: span.start for span in seats.plan_run()} == {"a": SHORT_RUN, "b": 0}


def test_a_run_ends_when_the_next_seat_finishes() -> None:
    seats = lane(devices=2, seats_per_device=1)
    seats.join("a", 7)
    seats.join("b", 20)
    seats.take_seats()
    assert [(span.ticket, span.stop, span.last) for span in seats.plan_run()] == [
        ("a", 7, True),
        ("b", 7, False),
    ]


@given(st.integers(1, 150))
def test_a_run_is_short_while_a_seat_is_free_and_never_endless(evaluations: int) -> None:
    seats = lane(devices=2, seats_per_device=1)
    seats.join("a", evaluations)
    seats.take_seats()
    assert seats.plan_run()[0].stop == min(evaluations, SHORT_RUN)
    full = lane(devices=1, seats_per_device=1)
    full.join("a", evaluations)
    full.take_seats()
    assert full.plan_run()[0].stop == min(evaluations, LONG_RUN)


def test_empty_seats_paint_the_next_seeds_of_the_seated() -> None:
    seats = lane(devices=4, seats_per_device=1, pad=True)
    seats.join("a", 20)
    placements = seats.take_seats()
    assert [(each.seat, each.ticket, each.padding) for each in placements] == [
        (0, "a", 0),
        (1, "a", 1),
        (2, "a", 2),
        (3, "a", 3),
    ]


def test_padding_is_no_run_of_its_own_and_gives_way_to_people() -> None:
    seats = lane(devices=2, seats_per_device=1, pad=True)
    seats.join("a", 4)
    seats.take_seats()
    seats.drop("a".__eq__)
    assert seats.plan_run() == []
    seats.join("b", 4)
    seats.take_seats()
    seats.join("c", 4)
    assert [(each.seat, each.ticket) for each in seats.take_seats()] == [(1, "c")]


@pytest.mark.parametrize(("pad", "padded"), [(False, [1]), (True, [1, 2, 3])])
def test_an_idle_slice_of_the_cpu_is_not_padded(pad: bool, padded: list[int]) -> None:
    seats = lane(pad=pad)
    seats.join("a", 20)
    assert [each.seat for each in seats.take_seats() if each.padding] == padded


def test_clearing_the_seats_keeps_the_line() -> None:
    seats = lane(devices=1, seats_per_device=1)
    for ticket in "ab":
        seats.join(ticket, 20)
    seats.take_seats()
    assert seats.clear_seats() == ["a"]
    assert seats.tickets == ["b"]


def test_who_gives_up_while_others_are_sent_away_is_not_forgotten() -> None:
    """Another thread may cancel between two looks at a ticket."""
    seats = lane(devices=1, seats_per_device=1)
    for ticket in "ab":
        seats.join(ticket, 20)
    seats.take_seats()
    looks: Counter[str] = Counter()

    def unwanted_from_the_second_look(ticket: str) -> bool:
        looks[ticket] += 1
        return looks[ticket] > 1

    assert seats.drop(unwanted_from_the_second_look) == []
    assert seats.tickets == ["a", "b"]
    assert seats.drop(unwanted_from_the_second_look) == ["a", "b"]


def test_a_slice_of_the_cpu_has_one_seat_and_an_accelerator_four_unless_told_otherwise() -> None:
    assert (suitable_seats(on_cpu=True), suitable_seats(on_cpu=False)) == (1, 4)

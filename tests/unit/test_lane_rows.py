"""Which program computes a run, and which seats its rows are of."""

from __future__ import annotations

import random
from collections.abc import Collection

import numpy as np
import pytest

from sdjax_engine.lane.rows import ProgramForm, chosen, further_forms, lay_out


def form(rows: int, *, loras: bool = True) -> ProgramForm:
    return ProgramForm(rows=rows, loras=loras)


ALL_OF_FOUR = (*further_forms(4, loras=True), form(4))


def told(seats: int, *, loras: bool) -> list[str]:
    return [str(each) for each in further_forms(seats, loras=loras)]


@pytest.mark.parametrize(
    ("seats", "expected"),
    [(1, []), (2, ["1 row"]), (4, ["1 row", "2 rows"]), (6, ["1 row", "2 rows", "4 rows"])],
)
def test_programs_have_powers_of_two_of_rows_below_the_seats(seats: int, expected: list[str]) -> None:
    assert told(seats, loras=False) == expected


def test_with_loras_each_number_of_rows_has_a_program_without_them() -> None:
    assert told(1, loras=True) == ["1 row without LoRAs"]
    assert told(2, loras=True) == ["1 row without LoRAs", "1 row", "2 rows without LoRAs"]


def choose(seats: Collection[int], adapted: Collection[int] = (), **how: bool) -> dict[str, list[int]]:
    """The forms for a run on two devices of four seats."""
    options = {"apart": False} | how
    found = chosen(ALL_OF_FOUR, seats, adapted, devices=2, seats_per_device=4, **options)
    return {str(each): numbers for each, numbers in found.items()}


@pytest.mark.parametrize(
    ("seats", "rows"),
    [((0,), "1 row"), ((2, 7), "1 row"), ((0, 3), "2 rows"), ((0, 1, 2), "4 rows"), ((), "1 row")],
)
def test_the_program_is_the_smallest_that_holds_the_fullest_device(seats: tuple[int, ...], rows: str) -> None:
    assert choose(seats) == {f"{rows} without LoRAs": [0, 1]}


def test_a_program_with_loras_is_chosen_only_where_a_picture_of_the_run_uses_one() -> None:
    assert choose((0, 5), adapted=(1, 5)) == {"1 row": [0, 1]}
    assert choose((0, 5), adapted=(1, 2)) == {"1 row without LoRAs": [0, 1]}


def test_devices_with_programs_of_their_own_choose_for_themselves() -> None:
    assert choose((0, 1, 5), adapted=(5,), apart=True) == {"2 rows without LoRAs": [0], "1 row": [1]}
    assert choose((0, 5), apart=True) == {"1 row without LoRAs": [0, 1]}


def test_until_a_program_is_there_a_larger_one_is_chosen() -> None:
    ready = [form(4), form(2, loras=False)]
    for adapted, expected in (((), form(2, loras=False)), ((0,), form(4))):
        found = chosen(ready, (0,), adapted, devices=1, seats_per_device=4, apart=False)
        assert found == {expected: [0]}


def test_rows_are_of_the_seats_of_a_run_and_ascend() -> None:
    rows = lay_out({2: (3, 5), 0: (7, 8), 6: (1, 2)}, rows=2, devices=2, seats_per_device=4)
    assert rows.seats.tolist() == [0, 2, 0, 2]
    assert rows.start.tolist() == [7, 3, 0, 1]
    assert rows.stop.tolist() == [8, 5, 0, 2]


def test_rows_that_are_left_over_are_of_other_seats_and_make_no_evaluations() -> None:
    chance = random.Random(3)
    for _ in range(200):
        taken = chance.sample(range(18), chance.randint(0, 9))
        spans = {seat: (seat, seat + 1 + chance.randrange(9)) for seat in taken}
        fullest = max((sum(seat // 6 == device for seat in taken) for device in range(3)), default=0)
        count = chance.randint(max(1, fullest), 6)
        rows = lay_out(spans, rows=count, devices=3, seats_per_device=6)
        seats = rows.seats.reshape(3, count)
        assert (np.diff(seats, axis=1) > 0).all()
        numbers = (seats + np.array([[0], [6], [12]])).reshape(-1).tolist()
        found = dict(zip(numbers, zip(rows.start, rows.stop, strict=True), strict=True))
        assert {seat: span for seat, span in found.items() if span != (0, 0)} == spans


def test_a_program_of_every_seat_has_them_in_their_order() -> None:
    rows = lay_out({5: (0, 9)}, rows=4, devices=2, seats_per_device=4)
    assert rows.seats.tolist() == [0, 1, 2, 3] * 2
    assert rows.stop.tolist() == [0, 0, 0, 0, 0, 9, 0, 0]

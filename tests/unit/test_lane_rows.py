"""Which program computes a run, and which rows of which seats it has."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

import numpy as np
import pytest

from sdjax_engine.lane.runs import (
    Given,
    Occupant,
    ProgramForm,
    SeatGrid,
    Stretch,
    chosen,
    phases,
    row_indices,
    stretches,
)

GUIDED = SeatGrid(devices=2, seats_per_device=4, halves=2)
PLAIN = SeatGrid(devices=2, seats_per_device=4, halves=1)


def form(rows: int, *, loras: bool = True) -> ProgramForm:
    return ProgramForm(rows=rows, loras=loras)


def stretch(seats: Collection[int], guided: Collection[int] = ()) -> Stretch:
    return Stretch(spans=dict.fromkeys(seats, (0, 1)), guided=frozenset(guided))


def told(seats: int, halves: int, *, loras: bool) -> list[str]:
    grid = SeatGrid(devices=1, seats_per_device=seats, halves=halves)
    return [str(each) for each in grid.further_forms(loras=loras)]


@pytest.mark.parametrize(
    ("seats", "halves", "expected"),
    [
        (1, 1, []),
        (2, 1, ["1 row"]),
        (6, 1, ["1 row", "2 rows", "4 rows"]),
        (1, 2, ["1 row"]),
        (4, 2, ["1 row", "2 rows", "4 rows"]),
    ],
)
def test_programs_have_powers_of_two_of_rows_below_all_rows(
    seats: int, halves: int, expected: list[str]
) -> None:
    assert told(seats, halves, loras=False) == expected


def test_with_loras_each_number_of_rows_has_a_program_without_them() -> None:
    assert told(1, 1, loras=True) == ["1 row without LoRAs"]
    assert told(2, 1, loras=True) == ["1 row without LoRAs", "1 row", "2 rows without LoRAs"]


def test_a_model_with_controlnets_has_programs_for_control_pictures_all_with_loras() -> None:
    grid = SeatGrid(devices=1, seats_per_device=2, halves=1)
    assert [str(each) for each in grid.further_forms(loras=True, control=True)][-1] == (
        "1 row with a control picture"
    )
    assert str(grid.suits_all(control=True)) == "2 rows with a control picture"
    both = [str(each) for each in grid.further_forms(loras=False, control=True, image=True)]
    assert both == ["1 row", "1 row with a control picture", "1 row with an image prompt"]
    assert [each.given for each in grid.all_suits(control=True, image=True)] == [
        "",
        " with an image prompt",
        " with a control picture",
        " with a control picture and an image prompt",
    ]


def controlled(net: str, first: int, end: int) -> Occupant:
    return Occupant(controlnet=net, controlled=(first, end))


def test_a_run_is_divided_by_controlnet_and_each_picture_keeps_the_order_of_its_evaluations() -> None:
    occupants = {0: controlled("canny", 2, 4), 1: controlled("depth", 0, 9), 2: controlled("canny", 0, 3)}
    spans = {0: (0, 6), 1: (3, 5), 2: (1, 4), 3: (0, 5)}
    assert phases(spans, occupants) == [
        (Given(), {0: (0, 2), 3: (0, 5)}),
        (Given("canny"), {0: (2, 4), 2: (1, 3)}),
        (Given("depth"), {1: (3, 5)}),
        (Given(), {0: (4, 6), 2: (3, 4)}),
    ]
    assert phases({0: (5, 6)}, occupants) == [(Given(), {0: (5, 6)})]
    assert phases({0: (0, 2)}, occupants) == [(Given(), {0: (0, 2)})]
    assert phases({}, occupants) == []


def test_pictures_with_image_prompts_are_computed_apart_in_each_part_of_a_run() -> None:
    both = Occupant(controlnet="canny", controlled=(2, 4), prompted=True)
    occupants = {0: both, 1: Occupant(prompted=True), 2: controlled("canny", 0, 4)}
    assert phases(dict.fromkeys(range(4), (0, 5)), occupants) == [
        (Given(image=True), {0: (0, 2), 1: (0, 5)}),
        (Given(), {3: (0, 5)}),
        (Given("canny", image=True), {0: (2, 4)}),
        (Given("canny"), {2: (0, 4)}),
        (Given(image=True), {0: (4, 5)}),
        (Given(), {2: (4, 5)}),
    ]


def choose(one: Stretch, adapted: Collection[int] = (), *, apart: bool = False) -> dict[str, list[int]]:
    """The forms for a stretch on two devices of four seats, each with two texts."""
    ready = [*GUIDED.further_forms(loras=True), GUIDED.suits_all()]
    return {str(each): numbers for each, numbers in chosen(ready, one, adapted, GUIDED, apart=apart).items()}


@pytest.mark.parametrize(
    ("seats", "guided", "rows"),
    [
        ((0,), (), "1 row"),
        ((0,), (0,), "2 rows"),
        ((2, 7), (), "1 row"),
        ((2, 7), (7,), "2 rows"),
        ((0, 1, 2), (), "4 rows"),
        ((0, 1, 2), (1,), "4 rows"),
        ((0, 1, 2), (0, 1), "8 rows"),
        ((), (), "1 row"),
    ],
)
def test_the_program_is_the_smallest_that_holds_the_rows_of_the_fullest_device(
    seats: tuple[int, ...], guided: tuple[int, ...], rows: str
) -> None:
    assert choose(stretch(seats, guided)) == {f"{rows} without LoRAs": [0, 1]}


def test_a_program_with_loras_is_chosen_only_where_a_picture_of_the_run_uses_one() -> None:
    assert choose(stretch((0, 5)), adapted=(1, 5)) == {"1 row": [0, 1]}
    assert choose(stretch((0, 5)), adapted=(1, 2)) == {"1 row without LoRAs": [0, 1]}


def test_devices_with_programs_of_their_own_choose_for_themselves() -> None:
    found = choose(stretch((0, 1, 5), guided=(5,)), adapted=(0,), apart=True)
    assert found == {"2 rows": [0], "2 rows without LoRAs": [1]}
    assert choose(stretch((0, 5)), apart=True) == {"1 row without LoRAs": [0, 1]}


def test_until_a_program_is_there_a_larger_one_is_chosen() -> None:
    ready = [form(8), form(2, loras=False)]
    for adapted, expected in (((), form(2, loras=False)), ((0,), form(8))):
        assert chosen(ready, stretch((0,)), adapted, GUIDED, apart=False) == {expected: [0, 1]}


def test_a_guided_picture_has_two_rows_and_another_that_of_its_prompt() -> None:
    one = Stretch(spans={2: (3, 5), 0: (7, 8), 6: (1, 2)}, guided=frozenset({2}))
    indices = row_indices(one, 4, GUIDED)
    assert indices.seats.tolist() == [0, 1, 2, 3] * 2
    assert indices.rows.tolist() == [1, 4, 5, 1, 5, 1, 1, 1]
    assert indices.start.tolist() == [7, 0, 3, 0, 0, 0, 1, 0]
    assert indices.stop.tolist() == [8, 0, 5, 0, 0, 0, 2, 0]
    assert {each.dtype for each in indices} == {np.dtype(np.int32)}, "as the program was compiled"


def test_with_few_rows_there_are_as_few_seats() -> None:
    indices = row_indices(Stretch(spans={3: (4, 6)}), 2, PLAIN)
    assert indices.seats.tolist() == [0, 3, 0, 1]
    assert indices.rows.tolist() == [3, 0, 0, 0]
    assert indices.stop.tolist() == [0, 6, 0, 0]


def test_any_layout_has_each_span_once_and_its_rows() -> None:
    chance = random.Random(3)
    for _ in range(200):
        taken = chance.sample(range(8), chance.randint(0, 8))
        spans = {seat: (seat, seat + 1 + chance.randrange(9)) for seat in taken}
        one = Stretch(spans=spans, guided=frozenset(seat for seat in taken if chance.random() < 0.5))
        ready = [*GUIDED.further_forms(loras=False), form(8)]
        [found] = chosen(ready, one, (), GUIDED, apart=False)
        indices = row_indices(one, found.rows, GUIDED)
        seats = indices.seats.reshape(2, -1)
        assert (np.diff(seats, axis=1) > 0).all()
        numbers = (seats + np.array([[0], [4]])).reshape(-1).tolist()
        made = dict(zip(numbers, zip(indices.start, indices.stop, strict=True), strict=True))
        assert {seat: span for seat, span in made.items() if span != (0, 0)} == spans
        rows = indices.rows.reshape(2, found.rows)
        needed = {row for seat in taken for row in one.rows_of(seat, 2)}
        assert needed <= set((rows + np.array([[0], [8]])).reshape(-1).tolist())
        assert all(set(own // 2) <= set(those) for own, those in zip(rows, seats, strict=True))


def occupant(guided: str) -> Occupant:
    """A picture whose evaluations are guided where the text has a g."""
    return Occupant(guided=np.array([each == "g" for each in guided]))


def spans_of(found: list[Stretch]) -> list[tuple[Mapping[int, tuple[int, int]], set[int]]]:
    return [(each.spans, set(each.guided)) for each in found]


def test_a_run_is_divided_where_the_guidance_of_a_picture_begins_or_ends() -> None:
    occupants = {0: occupant("--gg--"), 1: occupant("ggg")}
    assert spans_of(stretches({0: (1, 5), 1: (0, 4)}, occupants)) == [
        ({0: (1, 2), 1: (0, 1)}, {1}),
        ({0: (2, 4), 1: (1, 3)}, {0, 1}),
        ({0: (4, 5), 1: (3, 4)}, set()),
    ]


def test_a_run_without_a_change_of_guidance_is_one_stretch() -> None:
    assert spans_of(stretches({0: (1, 5), 3: (7, 11)}, {0: occupant("gggggg")})) == [
        ({0: (1, 5), 3: (7, 11)}, {0})
    ]
    assert stretches({}, {}) == []


def test_a_picture_with_fewer_evaluations_leaves_the_run_where_it_ends() -> None:
    assert spans_of(stretches({0: (2, 4), 1: (0, 3)}, {0: occupant("gggg")})) == [
        ({0: (2, 4), 1: (0, 2)}, {0}),
        ({1: (2, 3)}, set()),
    ]


def test_newcomers_come_in_waves_of_one_for_each_device() -> None:
    assert GUIDED.waves([1, 0, 6, 2, 4]) == [{0: 1, 1: 6}, {0: 0, 1: 4}, {0: 2}]

"""Which pictures are decoded together, and in which place of a decoder each is."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sdjax_engine.lane.decoding import Group, further_sizes, groups_of
from sdjax_engine.lane.rows import ALONE, DecoderPlace, SeatGrid, as_text, place_of
from sdjax_engine.request import Lane

GRID = SeatGrid(devices=2, seats_per_device=4, halves=2)
SIZES = (1, 2, 4)


def sizes_of(groups: list[Group], device: int) -> list[int]:
    return [group.size for group in groups if device in group.seats]


@pytest.mark.parametrize(
    ("seats_per_device", "side", "expected"),
    [
        (1, 16, []),
        (2, 16, [2]),
        (3, 512, [2]),
        (4, 512, [2, 4]),
        (8, 512, [2, 4]),
        (4, 640, [2]),
        (4, 768, []),
        (4, 1024, []),
        (4, 2048, []),
    ],
)
def test_decoders_take_as_many_small_pictures_as_a_device_has_seats_and_no_two_large_ones(
    seats_per_device: int, side: int, expected: list[int]
) -> None:
    lane = Lane(model="any", height=side, width=side, guided=True)
    assert further_sizes(lane, seats_per_device) == expected


@pytest.mark.parametrize(
    ("count", "sizes", "expected"),
    [
        (1, SIZES, [1]),
        (2, SIZES, [2]),
        (3, SIZES, [2, 1]),
        (4, SIZES, [4]),
        (4, (1, 2), [2, 2]),
        (3, (1,), [1, 1, 1]),
    ],
)
def test_a_device_decodes_its_pictures_in_as_few_calls_as_they_fill(
    count: int, sizes: tuple[int, ...], expected: list[int]
) -> None:
    assert sizes_of(groups_of(range(count), sizes, {}, GRID), 0) == expected


def test_each_device_has_the_decoders_of_its_own_pictures() -> None:
    groups = groups_of([0, 1, 2, 6], SIZES, {}, GRID)
    assert [(group.size, group.seats) for group in groups] == [
        (1, {1: [6]}),
        (2, {0: [0, 1]}),
        (1, {0: [2]}),
    ]
    assert groups[1].places == {0: DecoderPlace(2, 0), 1: DecoderPlace(2, 1)}


def test_a_picture_that_wants_a_place_is_alone_in_its_decoder_and_changes_no_other_group() -> None:
    wanted = {2: DecoderPlace(4, 3), 3: ALONE}
    *others, own, alone = groups_of([0, 1, 2, 3], SIZES, wanted, GRID)
    assert others == groups_of([0, 1], SIZES, {}, GRID)
    assert (own.seats, own.places) == ({0: [2] * 4}, {2: DecoderPlace(4, 3)})
    assert (alone.seats, alone.places) == ({0: [3]}, {3: ALONE})


@pytest.mark.parametrize("place", [DecoderPlace(4, 1), DecoderPlace(2, 2), DecoderPlace(2, -1)])
def test_a_place_that_is_not_there_is_that_of_a_decoder_of_one(place: DecoderPlace) -> None:
    [group] = groups_of([5], (1, 2), {5: place}, GRID)
    assert (group.size, group.places) == (1, {5: ALONE})


def test_every_picture_is_decoded_once_in_a_place_of_its_own() -> None:
    chance = random.Random(7)
    for _ in range(200):
        seats = chance.sample(range(8), chance.randint(1, 8))
        places = None, None, ALONE, DecoderPlace(2, 1), DecoderPlace(4, 0)
        groups = groups_of(seats, SIZES, {seat: chance.choice(places) for seat in seats}, GRID)
        assert Counter(seat for group in groups for seat in group.places) == Counter(seats)
        for group in groups:
            assert all(len(own) == group.size for own in group.seats.values())
            for seat, place in group.places.items():
                assert place.pictures == group.size
                assert group.seats[GRID.device_of(seat)][place.place] == seat


@pytest.mark.parametrize("place", [ALONE, DecoderPlace(2, 1), DecoderPlace(4, 0)])
def test_the_place_of_a_picture_is_kept_as_text(place: DecoderPlace) -> None:
    assert place_of(as_text([], place)) == place


def test_what_is_no_place_is_taken_for_a_decoder_of_one() -> None:
    assert [place_of(text) for text in ("", "3x8 2x4-", "d4", "d/2", "3d1/2")] == [ALONE] * 5
    assert as_text([], DecoderPlace(4, 1)) == "d2/4"

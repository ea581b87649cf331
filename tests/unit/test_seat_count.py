"""How many seats a lane is opened with: as many as fit, found once and remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import pytest

from sdjax_engine.errors import DevicesFailed
from sdjax_engine.lane import seat_count
from sdjax_engine.lane.seat_count import FoundSeats, open_lane
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.request import Lane

LANE = Lane(model="tiny", height=16, width=16, guided=True)
NOWHERE = FoundSeats(folder=None, facts=lambda: None)


@dataclass(frozen=True)
class Compiled:
    """A lane whose seats need 10 units each, and 20 more while they work; `reset` allocates them."""

    seats_per_device: int
    allocate: Callable[[], None] = lambda: None
    unit: int = 1

    @property
    def need(self) -> Need:
        seats = self.unit * self.seats_per_device
        return Need(held=10 * seats, working=20 * seats)

    def claim_without_decoder(self) -> bool:
        return False

    def reset(self) -> None:
        self.allocate()


def run_out() -> None:
    raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")


@dataclass
class Opener:
    """Compiles lanes; from `too_many` seats on, compiling or `allocating` them runs out of memory."""

    too_many: int = 100
    allocating: bool = False
    tried: list[int] = field(default_factory=list)

    def __call__(self, seats: int) -> Any:
        self.tried.append(seats)
        if seats < self.too_many:
            return Compiled(seats)
        if not self.allocating:
            run_out()
        return Compiled(seats, run_out)


def residency(budget: int | None, *, most: int | None = None) -> Residency:
    return Residency(devices.open_mesh(), budget, most=most)


@pytest.mark.parametrize(("budget", "expected"), [(None, 8), (240, 8), (239, 4), (60, 2), (30, 1)])
def test_a_lane_has_half_as_many_seats_until_they_fit(budget: int | None, expected: int) -> None:
    assert open_lane(Opener(), LANE, residency(budget), 8, NOWHERE).seats_per_device == expected


@pytest.mark.parametrize("allocating", [False, True])
def test_what_the_devices_cannot_compile_or_allocate_does_not_fit(allocating: bool) -> None:
    opener, shared = Opener(too_many=4, allocating=allocating), residency(None)
    assert open_lane(opener, LANE, shared, 8, NOWHERE).seats_per_device == 2
    assert opener.tried == [8, 4, 2]
    assert shared.taken == 2 * 30


def test_a_lane_of_one_seat_survives_one_shortage() -> None:
    opener = Opener(too_many=1)

    def once(seats: int) -> Any:
        if opener.tried:
            opener.too_many = 2
        return opener(seats)

    assert open_lane(once, LANE, residency(None), 1, NOWHERE).seats_per_device == 1
    assert opener.tried == [1, 1]


def test_a_lane_that_cannot_be_allocated_claims_nothing() -> None:
    shared = residency(None)
    with pytest.raises(DevicesFailed, match="ran out of memory"):
        open_lane(Opener(too_many=1, allocating=True), LANE, shared, 4, NOWHERE)
    assert shared.taken == 0


def test_lanes_share_what_there_is() -> None:
    """Two lanes hold their seats at the same time, but work one after the other."""
    shared = residency(100)
    other = Lane(model="tiny", height=16, width=16, guided=False)
    assert open_lane(Opener(), LANE, shared, 2, NOWHERE).seats_per_device == 2
    assert open_lane(Opener(), other, shared, 2, NOWHERE).seats_per_device == 2
    assert shared.taken == 2 * 20 + 40


@pytest.mark.parametrize(
    ("most", "end"),
    [(30 * 2**20 - 1, "."), *((most, ", or raise device_memory_gib.") for most in (30 * 2**20, None))],
)
def test_a_lane_without_room_for_one_seat_is_said_in_a_sentence(most: int | None, end: str) -> None:
    shared, mebibyte = residency(29 * 2**20, most=most), 2**20
    shared.claim(LANE, Need(held=5 * mebibyte))  # which the new claim replaces

    def compiled(seats: int) -> Any:
        return Compiled(seats, unit=mebibyte)

    with pytest.raises(DevicesFailed) as raised:
        open_lane(compiled, LANE, shared, 4, NOWHERE)
    assert str(raised.value) == (
        f"One seat of {LANE} needs 30.0 MiB of each device's memory beside the models, which has 29.0 MiB "
        f"for everything, 1.0 MiB too little: offer smaller sizes or fewer lanes{end}"
    )


def test_a_lane_that_the_devices_run_out_of_memory_for_is_said_in_a_sentence() -> None:
    opener = Opener(too_many=1)
    with pytest.raises(DevicesFailed) as raised:
        open_lane(opener, LANE, residency(29), 4, NOWHERE)
    assert str(raised.value) == (
        f"The devices ran out of memory while {LANE} was made ready for one seat on each: offer less."
    )
    assert opener.tried == [4, 2, 1, 1]


def test_another_error_is_not_taken_for_too_little_memory() -> None:
    def fail(_seats: int) -> Any:
        raise jax.errors.JaxRuntimeError("INTERNAL: lost a device")

    with pytest.raises(jax.errors.JaxRuntimeError, match="lost a device"):
        open_lane(fail, LANE, residency(None), 4, NOWHERE)


def test_the_next_start_begins_with_what_was_found(tmp_path: Path) -> None:
    found = FoundSeats(folder=tmp_path, facts=lambda: ["a device", 60])
    open_lane(Opener(), LANE, residency(60), 8, found)
    again = Opener()
    assert open_lane(again, LANE, residency(60), 8, found).seats_per_device == 2
    assert again.tried == [2]
    assert FoundSeats(folder=tmp_path, facts=lambda: ["a device", 61]).recall(LANE, 8) == 8
    assert found.recall(LANE, 4) == 4


def test_each_lane_and_first_number_has_a_file_of_its_own_that_is_written_once(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    found, other = (
        FoundSeats(folder=folder, facts=lambda: {"b": 1, "a": 2}),
        Lane(**{**vars(LANE), "width": 32}),
    )
    for lane, first, seats in ((LANE, 8, 1), (LANE, 4, 2), (other, 8, 3), (LANE, 6, 6)):
        found.remember(lane, first, seats)
    assert [found.recall(*each) for each in ((LANE, 8), (LANE, 4), (other, 8), (LANE, 6))] == [1, 2, 3, 6]
    assert FoundSeats(folder=folder, facts=lambda: {"a": 2, "b": 1}).recall(LANE, 8) == 1
    files = list((folder / seat_count.SEATS_FOLDER).iterdir())
    assert len(files) == 3, "a lane with as many seats as were tried needs no file"
    for file in files:
        file.write_text(f"{file.read_text()} ")
    found.remember(LANE, 8, 1)
    assert {file.read_text()[-1] for file in files} == {" "}


def test_a_number_that_cannot_be_kept_is_found_again(tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.touch()
    found = FoundSeats(folder=blocked, facts=lambda: None)
    found.remember(LANE, 8, 2)
    assert found.recall(LANE, 8) == 8


def test_a_refusal_says_what_there_was_no_room_for() -> None:
    assert str(seat_count.NoRoom(Need(held=5))) == str(Need(held=5))


@pytest.mark.parametrize(("allocating", "budget", "first_try"), [(False, None, 8), (True, 239, 4)])
def test_the_next_start_tries_again_what_the_devices_ran_out_of_memory_for(
    allocating: bool, budget: int | None, first_try: int, tmp_path: Path
) -> None:
    """It remembers what the accounting refuses: 8 seats do not fit into 239 bytes."""
    found = FoundSeats(folder=tmp_path, facts=lambda: None)
    short, again = Opener(too_many=4, allocating=allocating), Opener()
    assert open_lane(short, LANE, residency(budget), 8, found).seats_per_device == 2
    assert open_lane(again, LANE, residency(budget), 8, found).seats_per_device == first_try
    assert again.tried == [first_try]


@pytest.mark.parametrize("content", ["", "[", '"2"', "0", "9"])
def test_a_file_that_makes_no_sense_is_as_good_as_none(content: str, tmp_path: Path) -> None:
    found = FoundSeats(folder=tmp_path, facts=lambda: None)
    found.remember(LANE, 8, 2)
    [file] = (tmp_path / seat_count.SEATS_FOLDER).iterdir()
    file.write_text(content)
    assert found.recall(LANE, 8) == 8


def test_where_nothing_is_kept_nothing_is_read_to_know_what_a_number_depends_on() -> None:
    def fail() -> object:
        raise AssertionError("the weights would be read")

    assert (
        open_lane(Opener(), LANE, residency(60), 8, FoundSeats(folder=None, facts=fail)).seats_per_device == 2
    )


def test_the_start_says_how_many_seats_there_are_and_what_they_take() -> None:
    limited = residency(2**32)
    limited.claim(LANE, Need(held=2**30))
    wide = Lane(model="tiny", height=16, width=32, guided=True)
    high = Lane(model="tiny", height=32, width=16, guided=True)
    lanes: dict[Lane, Any] = {LANE: Compiled(4), wide: Compiled(1), high: Compiled(1)}
    assert seat_count.lines(lanes, limited) == [
        f"1 seat on each device for {wide}, {high}; 4 seats on each device for {LANE}: 1.0 GiB of 4.0 GiB"
    ]
    assert seat_count.lines({LANE: lanes[LANE]}, limited) == ["4 seats on each device: 1.0 GiB of 4.0 GiB"]
    assert seat_count.lines(lanes, residency(None)) == []

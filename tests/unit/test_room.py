"""How many seats a lane is opened with: as many as fit, found once and remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import pytest

from sdjax_engine import devices, room
from sdjax_engine.ledger import Need
from sdjax_engine.request import DevicesFailed, Lane
from sdjax_engine.residency import Residency
from sdjax_engine.room import FoundSeats, open_lane

LANE = Lane(model="tiny", height=16, width=16, guided=True)
NOWHERE = FoundSeats(folder=None, facts=None)


@dataclass(frozen=True)
class Opened:
    """A lane whose seats need 10 bytes each, and 20 to work on."""

    seats_per_device: int

    @property
    def need(self) -> Need:
        return Need(held=10 * self.seats_per_device, working=20 * self.seats_per_device)


@dataclass
class Opener:
    """Opens lanes, and out of memory from `too_many` seats on."""

    too_many: int = 100
    tried: list[int] = field(default_factory=list)

    def __call__(self, seats: int) -> Any:
        self.tried.append(seats)
        if seats >= self.too_many:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")
        return Opened(seats)


def residency(budget: int | None) -> Residency:
    return Residency(devices.open_mesh(), budget)


@pytest.mark.parametrize(("budget", "expected"), [(None, 8), (240, 8), (239, 4), (60, 2), (30, 1)])
def test_a_lane_has_half_as_many_seats_until_they_fit(budget: int | None, expected: int) -> None:
    assert open_lane(Opener(), LANE, residency(budget), 8, NOWHERE).seats_per_device == expected


def test_what_the_devices_cannot_even_compile_does_not_fit() -> None:
    opener = Opener(too_many=4)
    assert open_lane(opener, LANE, residency(None), 8, NOWHERE).seats_per_device == 2
    assert opener.tried == [8, 4, 2]


def test_lanes_share_what_there_is() -> None:
    """Two lanes hold their seats at the same time, but work one after the other."""
    shared = residency(100)
    other = Lane(model="tiny", height=16, width=16, guided=False)
    assert open_lane(Opener(), LANE, shared, 2, NOWHERE).seats_per_device == 2
    assert open_lane(Opener(), other, shared, 2, NOWHERE).seats_per_device == 2
    assert shared.taken == 2 * 20 + 40


@pytest.mark.parametrize(("too_many", "said"), [(100, r"needs 0\.0 MiB of each device's"), (1, "ran out of")])
def test_a_lane_without_room_for_one_seat_is_said_in_a_sentence(too_many: int, said: str) -> None:
    with pytest.raises(DevicesFailed, match=said):
        open_lane(Opener(too_many), LANE, residency(29), 4, NOWHERE)


def test_another_error_is_not_taken_for_too_little_memory() -> None:
    def fail(_seats: int) -> Any:
        raise jax.errors.JaxRuntimeError("INTERNAL: lost a device")

    with pytest.raises(jax.errors.JaxRuntimeError, match="lost a device"):
        open_lane(fail, LANE, residency(None), 4, NOWHERE)


def test_the_next_start_begins_with_what_was_found(tmp_path: Path) -> None:
    found = FoundSeats(folder=tmp_path, facts=["a device", 60])
    open_lane(Opener(), LANE, residency(60), 8, found)
    again = Opener()
    assert open_lane(again, LANE, residency(60), 8, found).seats_per_device == 2
    assert again.tried == [2]
    assert FoundSeats(folder=tmp_path, facts=["a device", 61]).recall(LANE, 8) == 8
    assert found.recall(LANE, 4) == 4


@pytest.mark.parametrize("content", ["", "[", '"2"', "0", "9"])
def test_a_file_that_makes_no_sense_is_as_good_as_none(content: str, tmp_path: Path) -> None:
    found = FoundSeats(folder=tmp_path, facts=None)
    found.remember(LANE, 8, 2)
    [file] = (tmp_path / room.FOLDER).iterdir()
    file.write_text(content)
    assert found.recall(LANE, 8) == 8


def test_the_start_says_how_many_seats_there_are_and_what_they_take() -> None:
    limited = residency(2**32)
    limited.claim(LANE, Need(held=2**30))
    wide = Lane(model="tiny", height=16, width=32, guided=True)
    lanes: dict[Lane, Any] = {LANE: Opened(4), wide: Opened(1)}
    assert room.lines(lanes, limited) == [
        f"1 seat on each device for {wide}; 4 seats on each device for {LANE}: 1.0 GiB of 4.0 GiB"
    ]
    assert room.lines({LANE: lanes[LANE]}, limited) == ["4 seats on each device: 1.0 GiB of 4.0 GiB"]
    assert room.lines(lanes, residency(None)) == []

"""How many seats a lane is opened with: as many as fit, found by halving."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from sdjax_engine.errors import DevicesFailed
from sdjax_engine.lane import seat_count
from sdjax_engine.lane.programs import LanePrograms
from sdjax_engine.lane.runs import SeatGrid
from sdjax_engine.lane.seat_count import open_lane
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.request import Lane

LANE = Lane(model="tiny", height=16, width=16, guided=True)


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

    def give_up_decoder(self) -> bool:
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
    assert open_lane(Opener(), LANE, residency(budget), 8).seats_per_device == expected


@pytest.mark.parametrize("allocating", [False, True])
def test_what_the_devices_cannot_compile_or_allocate_does_not_fit(allocating: bool) -> None:
    opener, shared = Opener(too_many=4, allocating=allocating), residency(None)
    assert open_lane(opener, LANE, shared, 8).seats_per_device == 2
    assert opener.tried == [8, 4, 2]
    assert shared.taken == 2 * 30


def test_a_lane_of_one_seat_survives_one_shortage() -> None:
    opener = Opener(too_many=1)

    def once(seats: int) -> Any:
        if opener.tried:
            opener.too_many = 2
        return opener(seats)

    assert open_lane(once, LANE, residency(None), 1).seats_per_device == 1
    assert opener.tried == [1, 1]


def test_a_lane_that_cannot_be_allocated_claims_nothing() -> None:
    shared = residency(None)
    with pytest.raises(DevicesFailed, match="ran out of memory"):
        open_lane(Opener(too_many=1, allocating=True), LANE, shared, 4)
    assert shared.taken == 0


@pytest.mark.parametrize(("budget", "seats"), [(340, 8), (339, 4), (160, 2), (130, 1), (129, 2), (119, 1)])
def test_a_lane_has_fewer_seats_before_parts_of_a_model_take_turns(budget: int, seats: int) -> None:
    """The model has 100 units as a whole, and no program needs more than 60 of them at once."""
    shared = residency(budget)
    shared.adopt("tiny", {"denoiser": np.zeros(60, np.uint8), "texts": np.zeros(40, np.uint8)})
    assert open_lane(Opener(), LANE, shared, 8).seats_per_device == seats
    assert shared.has("tiny") is (budget >= 130)


def test_only_what_must_be_makes_parts_of_a_model_take_turns() -> None:
    shared = residency(110)
    shared.adopt("tiny", {"denoiser": np.zeros(60, np.uint8), "texts": np.zeros(40, np.uint8)})
    assert shared.claim("a program", Need(held=10), optional=True)
    assert not shared.claim("a faster program", Need(held=1), optional=True)
    assert shared.has("tiny")
    assert shared.claim("a lane", Need(held=1))
    assert not shared.has("tiny")
    assert shared.claim("a faster program", Need(held=1), optional=True), "they take turns anyway"


def test_lanes_share_what_there_is() -> None:
    """Two lanes hold their seats at the same time, but work one after the other."""
    shared = residency(100)
    other = Lane(model="tiny", height=16, width=16, guided=False)
    assert open_lane(Opener(), LANE, shared, 2).seats_per_device == 2
    assert open_lane(Opener(), other, shared, 2).seats_per_device == 2
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
        open_lane(compiled, LANE, shared, 4)
    assert str(raised.value) == (
        f"One seat of {LANE} needs 30.0 MiB of each device's memory beside the models, which has 29.0 MiB "
        f"for everything, 1.0 MiB too little: offer smaller sizes or fewer lanes{end}"
    )


def test_a_lane_that_the_devices_run_out_of_memory_for_is_said_in_a_sentence() -> None:
    opener = Opener(too_many=1)
    with pytest.raises(DevicesFailed) as raised:
        open_lane(opener, LANE, residency(29), 4)
    assert str(raised.value) == (
        f"The devices ran out of memory while {LANE} was made ready for one seat on each: offer less."
    )
    assert opener.tried == [4, 2, 1, 1]


def test_another_error_is_not_taken_for_too_little_memory() -> None:
    def fail(_seats: int) -> Any:
        raise jax.errors.JaxRuntimeError("INTERNAL: lost a device")

    with pytest.raises(jax.errors.JaxRuntimeError, match="lost a device"):
        open_lane(fail, LANE, residency(None), 4)


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


class Loaded:
    """A program with 7 bytes of code."""

    def __init__(self, temporary: int) -> None:
        self._temporary = temporary

    def memory_analysis(self) -> Any:
        return SimpleNamespace(
            temp_size_in_bytes=self._temporary,
            output_size_in_bytes=0,
            alias_size_in_bytes=0,
            generated_code_size_in_bytes=7,
        )


@pytest.mark.parametrize(("parallel", "working"), [(False, 50), (True, 90)])
def test_a_lane_holds_the_code_of_all_its_programs_and_works_with_one(parallel: bool, working: int) -> None:
    """A TPU keeps the code of every loaded program."""
    made: list[Any] = [Loaded(temporary) for temporary in (0, 5, 10, 50, 20, 40, 30)]
    empty, condition, admit, denoise, take, decode, begin = made
    shapes: Any = SimpleNamespace(bytes_per_device=1000)
    programs = LanePrograms(
        shapes=shapes,
        empty=empty,
        condition=condition,
        admit=admit,
        denoise={SeatGrid(devices=1, seats_per_device=1, halves=1).suits_all(): denoise},
        take=take,
        decode=decode,
    )
    need = programs.need(begin, denoise, None, decode_in_float32=None, decodes_in_parallel=parallel)
    assert need == Need(held=1000 + 7 * 7, working=working)

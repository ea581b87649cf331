"""How many seats a device has room for: found at the start from the compiled programs' memory.

A lane is compiled with the configured number of seats, or with as many as suit the devices. The number is
halved until its seats, its programs and the largest model fit besides the claims of others. Where no number
of seats is small enough for the whole model, its groups of parameters take turns. Programs are compiled from
shapes: a lane allocates nothing on the devices before its memory is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from sdjax_engine.errors import DevicesFailed, in_bytes
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.memory.residency import Residency
from sdjax_engine.request import Lane


class NoRoom(Exception):
    """The devices' memory has no room for `need` besides the claims of others."""

    def __init__(self, need: Need) -> None:
        super().__init__(need)
        self.need = need


def open_lane(
    compile_with: Callable[[int], DeviceLane], lane: Lane, residency: Residency, first: int
) -> DeviceLane:
    """Open a lane with `first` seats on each device, halved until it fits.

    `compile_with` compiles the lane for a number of seats. Raises DevicesFailed where one seat does not fit.
    """
    failure = ""
    for seats in attempts(first):
        try:
            return opened(compile_with(seats), lane, residency)
        except NoRoom as refusal:
            failure = residency.owner.do(partial(no_room, lane, refusal.need, residency))
            if seats == 1:  # another attempt needs as much
                break
        except Exception as error:
            if not devices.is_out_of_memory(error):
                raise
            failure = ran_out(lane)
    raise DevicesFailed(failure)


def attempts(first: int) -> Iterator[int]:
    """Give the numbers of seats to try, each after a shortage; one seat is tried twice."""
    seats = first
    while seats > 1:
        yield seats
        seats //= 2
    yield from (1, 1)


def opened(device: DeviceLane, lane: Lane, residency: Residency) -> DeviceLane:
    """Take memory for a compiled lane, which gives up the decoder of its previews before any seat.

    Raises NoRoom and the devices' errors.
    """

    def take(*, whole: bool) -> bool:
        return residency.owner.do(lambda: take_memory(device, lane, residency, whole=whole))

    gave_up = False
    if not take(whole=True):
        gave_up = device.give_up_decoder()
        if not (gave_up and take(whole=True)) and not take(whole=False):
            raise NoRoom(device.need)
    if gave_up:
        device.report_coarse_previews()
    return device


def take_memory(device: DeviceLane, lane: Lane, residency: Residency, *, whole: bool) -> bool:
    """Claim a lane's memory, then allocate its seats; False without room. An error leaves no claim.

    It is refused where groups of one model would take turns for it: with `whole`, or for more than one seat
    where fewer could do without.
    """
    if not whole and residency.should_halve(lane, device.need, device.seats_per_device):
        return False
    if not residency.claim(lane, device.need, optional=whole):
        return False
    try:
        device.reset()
    except Exception:
        residency.release(lane)
        raise
    return True


def ran_out(lane: Lane) -> str:
    """Return the sentence about a lane whose single seat was too much for the devices' memory."""
    return f"The devices ran out of memory while {lane} was made ready for one seat on each: offer less."


def no_room(lane: Lane, need: Need, residency: Residency) -> str:
    """Return the sentence about a lane of which one seat does not fit."""
    assert residency.budget is not None, "without a limit there is room for everything"
    lacking = residency.lacking(lane, need)
    return (
        f"One seat of {lane} needs {in_bytes(need.held + need.working)} of each device's memory beside the "
        f"models, which has {in_bytes(residency.budget)} for everything, "
        f"{in_bytes(lacking)} too little: offer smaller sizes or fewer lanes{residency.or_raise_it(lacking)}."
    )


def lines(lanes: dict[Lane, DeviceLane], residency: Residency) -> list[str]:
    """Return the lines about seats and memory once every lane is open: none without a limit."""
    if residency.budget is None:
        return []
    numbers: dict[int, list[str]] = {}
    for lane, device in lanes.items():
        numbers.setdefault(device.seats_per_device, []).append(str(lane))
    said = [
        f"{'1 seat' if seats == 1 else f'{seats} seats'} on each device"
        + (f" for {', '.join(of)}" if len(numbers) > 1 else "")
        for seats, of in sorted(numbers.items())
    ]
    return [f"{'; '.join(said)}: {in_bytes(residency.taken)} of {in_bytes(residency.budget)}"]

"""A real lane with injected faults."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import jax
import numpy as np
from engines import with_own_seats

from sdjax_engine.lane.device_lane import DeviceLane, Picture, Work
from sdjax_engine.lane.runs import Run
from sdjax_engine.model.prepare import Prepared

POISON = 666
BREAKING = 13


class Fault(Enum):
    """The call that raises an error of the devices."""

    QUEUEING = "a run cannot be queued"
    WAITING = "a run cannot be waited for"
    BOTH = "a run cannot be waited for, nor the next one be queued"


class SabotagedLane(DeviceLane):
    """A lane with the programs of a compiled lane, its own seats, and injected faults.

    `fault` breaks the next run, and the seats until they are reset. `breaks_after_decoding` breaks the run
    after the next run that finishes a picture. `breaks_on` breaks every run with a request of this seed.
    `shortages` is the number of runs that run out of memory. In each of the next `spoil_pictures` decodings
    one picture is unreadable. The seed POISON gives NaN. Each event in `stuck`
    makes one run wait for it.
    """

    def __init__(self, lane: DeviceLane) -> None:
        vars(self).update(vars(with_own_seats(lane)))
        self.reset()
        self.fault: Fault | None = None
        self.spoil_pictures = 0
        self.shortages = 0
        self.breaks_after_decoding = False
        self.breaks_on: int | None = None
        self.stuck: list[threading.Event] = []

    def reset(self) -> None:
        super().reset()
        self.seeds: dict[int, int] = {}

    def admit(
        self,
        newcomers: Mapping[int, Prepared],
        earlier: Sequence[Work] = (),
        waiting: Iterable[Prepared] = (),
    ) -> bool:
        self.seeds |= {seat: prepared.request.seed for seat, prepared in newcomers.items()}
        poisonous = {seat: poisoned(prepared) for seat, prepared in newcomers.items()}
        return super().admit(poisonous, earlier, waiting)

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> Run:
        fault, self.fault = self.fault, None
        if self.shortages:
            self.shortages -= 1
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate.")
        if self.breaks_on in {self.seeds[seat] for seat in spans}:
            fault = Fault.QUEUEING
        run = super().denoise(spans)
        if fault in (Fault.WAITING, Fault.BOTH):
            run.done.delete()
        if fault in (Fault.QUEUEING, Fault.BOTH):
            for array in jax.tree.leaves(self._state):
                array.delete()
        if fault is Fault.QUEUEING:
            raise RuntimeError("out of memory\nand what the devices have to say of it")
        return HangingRun(done=run.done, rows=run.rows, until=self.stuck.pop()) if self.stuck else run

    def decode(self, seats: Sequence[int]) -> dict[int, Picture]:
        pictures = super().decode(seats) if seats else {}
        if pictures and self.breaks_after_decoding:
            self.breaks_after_decoding, self.fault = False, Fault.QUEUEING
        if pictures and self.spoil_pictures:
            self.spoil_pictures -= 1
            seat, picture = next(iter(pictures.items()))
            unreadable = jax.numpy.array(picture.pixels)
            unreadable.delete()
            pictures[seat] = dataclasses.replace(picture, pixels=unreadable)
        return pictures


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HangingRun(Run):
    """A run that does not end before an event."""

    until: threading.Event

    def wait(self) -> None:
        self.until.wait()
        super().wait()


def poisoned(prepared: Prepared) -> Prepared:
    """Return the request; for the seed POISON, with a table of NaN."""
    if prepared.request.seed != POISON:
        return prepared
    return dataclasses.replace(prepared, rows=np.full_like(prepared.rows, np.nan))

"""A lane of the devices that fails where a test wants it to; all that it does is done by the real one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import Enum

import jax
import numpy as np

from sdjax_engine.lanes import DeviceLane, Picture, Run
from sdjax_engine.loaded import Prepared

POISON = 666


class Fault(Enum):
    """Where an error of the devices shows."""

    QUEUEING = "a run cannot be queued"
    WAITING = "a run cannot be waited for"
    BOTH = "a run cannot be waited for, nor the next one be queued"


class SabotagedLane(DeviceLane):
    """Has the programs of a compiled lane, and seats of its own.

    `fault` breaks the next run, and with it the seats until they are reset; `spoil_picture` makes one
    picture of the next decoding unreadable; the seed POISON paints what is not a number.
    """

    def __init__(self, lane: DeviceLane) -> None:
        vars(self).update(vars(lane))
        self.reset()
        self.fault: Fault | None = None
        self.spoil_picture = False

    def admit(self, newcomers: Mapping[int, Prepared]) -> None:
        super().admit({seat: poisoned(prepared) for seat, prepared in newcomers.items()})

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> Run:
        fault, self.fault = self.fault, None
        run = super().denoise(spans)
        if fault in (Fault.WAITING, Fault.BOTH):
            run.done.delete()
        if fault in (Fault.QUEUEING, Fault.BOTH):
            for array in jax.tree.leaves(self._state):
                array.delete()
        if fault is Fault.QUEUEING:
            raise RuntimeError("out of memory\nand what the devices have to say of it")
        return run

    def decode(self, seats: Sequence[int]) -> dict[int, Picture]:
        pictures = super().decode(seats) if seats else {}
        if pictures and self.spoil_picture:
            self.spoil_picture = False
            seat, picture = next(iter(pictures.items()))
            unreadable = jax.numpy.array(picture.pixels)
            unreadable.delete()
            pictures[seat] = dataclasses.replace(picture, pixels=unreadable)
        return pictures


def poisoned(prepared: Prepared) -> Prepared:
    """The same, or with the seed POISON a table of no numbers."""
    if prepared.request.seed != POISON:
        return prepared
    return dataclasses.replace(prepared, rows=np.full_like(prepared.rows, np.nan))

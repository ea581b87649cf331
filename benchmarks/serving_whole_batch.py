"""Seats that are taken by whole batches, for the comparison with the engine's seats."""

from __future__ import annotations

from enum import Enum

from sdjax_engine.scheduler.seats import Placement, Readiness, Request, RunLimits, Seats


class Seating(Enum):
    """The policy of seating: at the end of any run, as in the engine, or as a whole batch."""

    STEP = "step"
    WHOLE_BATCH = "whole_batch"


class WholeBatchSeats(Seats[Request]):
    """A batch starts when it is full or its oldest request has waited for `batch_wait` seconds.

    No request joins until the last image of the batch is finished, and no image is answered earlier: the run
    is as long as the longest image.
    """

    def __init__(self, *, devices: int, seats_per_device: int, batch_wait: float) -> None:
        super().__init__(devices=devices, seats_per_device=seats_per_device)
        self._batch_wait = batch_wait

    @property
    def open_to_newcomers(self) -> bool:
        """Whether every seat is empty."""
        return not self.seated and super().open_to_newcomers

    def readiness(self, now: float) -> Readiness | None:
        """Return the contents of a run now, or None until a batch is full or has waited long enough."""
        wake = self.wake_at()
        full = bool(self.seated) or len(self.line) >= len(self)
        return super().readiness(now) if full or (wake is not None and now >= wake) else None

    def wake_at(self) -> float | None:
        """Return the time at which the oldest request has waited long enough."""
        oldest = self._first_in_line()
        return None if oldest is None else oldest.since + self._batch_wait

    def take_seats(self, now: float) -> list[Placement[Request]]:
        """Seat a whole batch, or no request."""
        return [] if self.seated or self.readiness(now) is None else super().take_seats(now)

    def _run_length(self, limits: RunLimits) -> int:
        del limits
        return max((taken.left for _, taken in self._taken()), default=0)

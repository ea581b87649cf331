"""Seats that are taken by whole batches, for the comparison with the engine's seats."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from sdjax_engine.scheduler.lane_queue import AnyRequest, RunLimits, Seats


class Seating(Enum):
    """The policy of seating: at the end of any run, as in the engine, or as a whole batch."""

    STEP = "step"
    WHOLE_BATCH = "whole_batch"


class WholeBatchSeats(Seats[AnyRequest]):
    """A batch starts when it is full or its oldest request has waited for `batch_wait` seconds.

    No request joins until the last image of the batch is finished, and no image is answered earlier: the run
    is as long as the longest image. The scheduler must look again at the time `wake_at`:
    `wake` is told when each request will have waited long enough.
    """

    def __init__(
        self,
        *,
        devices: int,
        seats_per_device: int,
        batch_wait: float,
        clock: Callable[[], float],
        wake: Callable[[float], object] = lambda _at: None,
    ) -> None:
        super().__init__(devices=devices, seats_per_device=seats_per_device)
        self._batch_wait = batch_wait
        self._clock = clock
        self._wake = wake
        self._joined: dict[AnyRequest, float] = {}

    @property
    def open_to_newcomers(self) -> bool:
        """Whether every seat is empty."""
        return not self.seated and super().open_to_newcomers

    def join(self, request: AnyRequest, evaluations: int) -> None:
        """Put a request at the end of the line, and note when it came."""
        self._joined[request] = self._clock()
        super().join(request, evaluations)
        self._wake(self._joined[request] + self._batch_wait)

    @property
    def wanted(self) -> int:
        """How many seats a run would take now; 0 until a batch is full or has waited long enough."""
        wake = self.wake_at
        full = bool(self.seated) or len(self.line) >= len(self)
        return super().wanted if full or (wake is not None and self._clock() >= wake) else 0

    @property
    def wake_at(self) -> float | None:
        """The time at which the oldest request has waited long enough; None while a batch runs."""
        oldest = self._first_in_line()
        return None if oldest is None or self.seated else self._joined[oldest.request] + self._batch_wait

    def take_seats(self) -> dict[int, AnyRequest]:
        """Seat a whole batch, or no request."""
        return {} if self.seated or not self.wanted else super().take_seats()

    def _run_length(self, limits: RunLimits) -> int:
        del limits
        return max((taken.left for _, taken in self._taken()), default=0)

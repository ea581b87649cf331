"""Seating by whole batches: what step-level seating is compared with."""

from __future__ import annotations

from sdjax_engine.scheduler.seats import Placement, RunLimits, Seats, Ticket


class WholeBatchSeats(Seats[Ticket]):
    """Whole batches, for comparison: a batch begins when every seat can be taken, or its oldest has waited.

    Nobody joins until the last image of the batch is finished, and none of it is answered before: the run is
    as long as the longest takes. `batch_wait` is in seconds.
    """

    def __init__(
        self, *, devices: int, seats_per_device: int, pad_idle_devices: bool, batch_wait: float
    ) -> None:
        super().__init__(
            devices=devices, seats_per_device=seats_per_device, pad_idle_devices=pad_idle_devices
        )
        self._batch_wait = batch_wait

    @property
    def open_to_newcomers(self) -> bool:
        """Whether nobody sits yet."""
        return not self.seated and super().open_to_newcomers

    def ready(self, now: float) -> bool:
        """Whether a batch is full or has waited long enough."""
        wake = self.wake_at()
        return bool(self.seated) or self.in_line >= len(self) or (wake is not None and now >= wake)

    def wake_at(self) -> float | None:
        """When the oldest will have waited long enough."""
        oldest = self._first_in_line()
        return None if oldest is None else oldest.since + self._batch_wait

    def take_seats(self, now: float = 0.0) -> list[Placement[Ticket]]:
        """Seat a whole batch, or nobody."""
        return [] if self.seated or not self.ready(now) else super().take_seats(now)

    def _run_length(self, limits: RunLimits) -> int:
        del limits
        return max((person.left for _, person in self._people()), default=0)

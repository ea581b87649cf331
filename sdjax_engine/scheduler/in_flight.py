"""Work that the devices have been given and the host has not yet waited for."""

from __future__ import annotations

from dataclasses import dataclass, field

from sdjax_engine.scheduler.lane_queue import LaneQueue, Picture, Run
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.seats import Span


@dataclass(kw_only=True, eq=False)
class InFlightBatch:
    """A run with the pictures it finishes, or pictures alone whose latents were there already.

    `pictures` are those of people, by ticket, None until their decoding is queued; a ticket leaves them when
    it is answered or begins anew. `wanted` seats were counted
    against the lane, for `charged` seconds, when the flight was queued, at the time `queued_at`. It is
    `uneven` where some devices begin it later than others, having had pictures to decode.
    """

    queue: LaneQueue
    queued_at: float
    spans: list[Span[PendingRequest]] = field(default_factory=list)
    run: Run | None = None
    pictures: dict[PendingRequest, Picture | None] = field(default_factory=dict)
    wanted: int = 1
    charged: float = 0.0
    uneven: bool = False

    @property
    def evaluations(self) -> int:
        """How many evaluations the run has."""
        return max((span.stop - span.start for span in self.spans), default=0)

    @property
    def ready(self) -> bool:
        """Whether the devices have made the run."""
        return self.run is None or self.run.ready

    def wait(self) -> None:
        """Return when the devices have made the run; raises what broke it."""
        if self.run is not None:
            self.run.wait()

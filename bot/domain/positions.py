"""The position of a job in the queue, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Position:
    """The position of a job in the queue.

    `place` is 1 for the job whose image is claimed next, and 0 once no image of the job waits; `ahead` counts
    the images of its lane before it. It starts in `seconds`, 0 after the start, and ends in `end`; None while
    unknown. `taken` of its lane's `seats` are taken. `paused` is the moderator's text about the pause, None
    without one.
    """

    place: int
    ahead: int
    seconds: float | None
    end: float | None = None
    seats: int = 0
    taken: int = 0
    paused: str | None = None

    @property
    def is_unserved(self) -> bool:
        """Whether the job waits and no living worker has seats of its lane."""
        return self.place > 0 and self.seats == 0 and self.seconds is None and self.paused is None

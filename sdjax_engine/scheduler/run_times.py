"""How long the host takes to dispatch runs, beside how long the devices take to finish them.

A host that is made to wait while it dispatches cannot queue the next run before the last one ends: runs do
not overlap, and finished pictures arrive a run late.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from sdjax_engine.request import Lane

logger = logging.getLogger(__name__)

BLOCKING_SHARE = 0.5  # of a run's seconds, from which on its dispatching is taken for blocked
WINDOW = 32  # runs that are looked at together, most of which must be blocked
LEAST_SECONDS = 0.05  # other work on the machine can keep the host from dispatching for half of a shorter run


@dataclass(kw_only=True)
class Sums:
    """Some runs: their number, the seconds of dispatching and of finishing them, how many were blocked."""

    runs: int = 0
    dispatching: float = 0.0
    finishing: float = 0.0
    blocked: int = 0

    def add(self, dispatching: float, finishing: float) -> None:
        """Add one more run."""
        self.runs += 1
        self.dispatching += dispatching
        self.finishing += finishing
        self.blocked += finishing >= LEAST_SECONDS and dispatching > BLOCKING_SHARE * finishing


@dataclass(kw_only=True)
class RunTimes:
    """The runs of all lanes; a lane whose dispatching blocks is told to the log once."""

    all: Sums = field(default_factory=Sums)
    _windows: dict[Lane, Sums] = field(default_factory=dict)
    _told: set[Lane] = field(default_factory=set)

    def add(self, lane: Lane, dispatching: float, finishing: float) -> None:
        """Add one more run: seconds that the host took to dispatch it, seconds that the devices took."""
        self.all.add(dispatching, finishing)
        window = self._windows.setdefault(lane, Sums())
        window.add(dispatching, finishing)
        if window.runs < WINDOW:
            return
        del self._windows[lane]
        if 2 * window.blocked > WINDOW and lane not in self._told:
            self._told.add(lane)
            logger.warning(
                "dispatching a run of %s takes %.0f ms of the %.0f ms that it lasts: the host waits for the "
                "devices in it, so that runs do not overlap",
                lane,
                1e3 * window.dispatching / WINDOW,
                1e3 * window.finishing / WINDOW,
            )

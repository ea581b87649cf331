"""How long the host takes to dispatch runs, beside how long the devices take to finish them.

A host that is asked to wait while it dispatches cannot queue the next run before the last one ends: runs do
not overlap, and finished pictures arrive a run late.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from sdjax_engine.request import Lane

logger = logging.getLogger(__name__)

BLOCKING_SHARE = 0.5  # of a run's seconds, from which on its dispatching is taken for blocked
FEWEST_RUNS = 32
LEAST_SECONDS = 0.01  # shorter runs are hardly longer than their dispatching anyway


@dataclass(kw_only=True)
class Sums:
    """The runs of one lane: their number, and the seconds of dispatching and of finishing them."""

    runs: int = 0
    dispatching: float = 0.0
    finishing: float = 0.0

    def add(self, dispatching: float, finishing: float) -> None:
        """Add one more run."""
        self.runs += 1
        self.dispatching += dispatching
        self.finishing += finishing

    @property
    def blocks(self) -> bool:
        """Whether dispatching takes as long as though the host waited for the devices in it."""
        long = self.finishing >= LEAST_SECONDS * self.runs
        return self.runs >= FEWEST_RUNS and long and self.dispatching > BLOCKING_SHARE * self.finishing


@dataclass(kw_only=True)
class RunTimes:
    """The runs of all lanes; a lane whose dispatching blocks is told to the log once."""

    all: Sums = field(default_factory=Sums)
    _lately: dict[Lane, Sums] = field(default_factory=dict)
    _told: set[Lane] = field(default_factory=set)

    def add(self, lane: Lane, dispatching: float, finishing: float) -> None:
        """Add one more run: seconds that the host took to dispatch it, seconds that the devices took."""
        self.all.add(dispatching, finishing)
        lately = self._lately.setdefault(lane, Sums())
        lately.add(dispatching, finishing)
        if lately.runs < FEWEST_RUNS:
            return
        del self._lately[lane]
        if lately.blocks and lane not in self._told:
            self._told.add(lane)
            logger.warning(
                "dispatching a run of %s takes %.0f ms of the %.0f ms that it lasts: the host waits for the "
                "devices in it, so that runs do not overlap",
                lane,
                1e3 * lately.dispatching / lately.runs,
                1e3 * lately.finishing / lately.runs,
            )

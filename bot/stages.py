"""The stages of a piece of work and how long each took: measured once, for the log and for traces."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage; both times are in seconds since the epoch."""

    name: str
    began: float
    ended: float


class Stages:
    """The stages of one piece of work, one after the other; a stage may come again.

    `wall`, in seconds since the epoch, is read once. Only the `steady` clock counts after that: a jump of the
    system's clock changes no duration. Any thread may enter a stage.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.perf_counter
    ) -> None:
        self._steady = steady
        self._offset = wall() - steady()
        self._lock = threading.Lock()
        self._ended: list[Stage] = []
        self._running = ""
        self.began = self._running_since = self._now()

    def enter(self, name: str) -> None:
        """End the stage that runs, and begin another; nothing changes where it runs already."""
        with self._lock:
            if name == self._running:
                return
            now = self._now()
            if self._running:
                self._ended.append(Stage(name=self._running, began=self._running_since, ended=now))
            self._running, self._running_since = name, now

    def end(self) -> None:
        """End the stage that runs."""
        self.enter("")

    @property
    def all(self) -> tuple[Stage, ...]:
        """The stages that have ended, in order."""
        return tuple(self._ended)

    @property
    def ended(self) -> float:
        """When the last stage ended, in seconds since the epoch; the beginning, if none has."""
        return self._ended[-1].ended if self._ended else self.began

    @property
    def durations(self) -> Mapping[str, float]:
        """The seconds of each stage by its name, and of the whole as `total`; milliseconds are kept."""
        seconds: dict[str, float] = defaultdict(float)
        for stage in self._ended:
            seconds[stage.name] += stage.ended - stage.began
        seconds["total"] = self.ended - self.began
        return {name: round(value, 3) for name, value in seconds.items()}

    def _now(self) -> float:
        return self._offset + self._steady()

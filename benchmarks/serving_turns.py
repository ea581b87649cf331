"""Engines of one process that serve in turns, so that the speed of the machine affects all equally.

The speed of a shared machine varies from minute to minute by more than the measured differences. Here an
engine passes on its turn after a few pictures, when its devices have finished all queued work. Its clock
stops until its next turn.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Reading(NamedTuple):
    """A clock's reading in seconds: the running time, and the processor time of this process's threads."""

    seconds: float
    worked: float


def machine_time() -> Reading:
    """Return the reading of a clock that never stops."""
    return Reading(time.perf_counter(), time.process_time())


class StoppableClock:
    """A clock that can be stopped; it can be read from any thread."""

    def __init__(self, now: Callable[[], Reading] = machine_time) -> None:
        self._now = now
        self._goes = threading.Condition()
        self._missed = Reading(0.0, 0.0)
        self._stopped: Reading | None = None

    def __call__(self) -> float:
        """Return the seconds that the clock ran."""
        return self.read().seconds

    def read(self) -> Reading:
        """Return the reading."""
        with self._goes:
            return _less(self._stopped or self._now(), self._missed)

    def sleep_until(self, seconds: float) -> None:
        """Wait until the clock shows at least `seconds`."""
        with self._goes:
            while (left := seconds - self()) > 0:
                self._goes.wait(left if self._stopped is None else None)

    def stop(self) -> None:
        """Stop until `go`."""
        with self._goes:
            self._stopped = self._stopped or self._now()

    def go(self) -> None:
        """Continue, if stopped."""
        with self._goes:
            if self._stopped is not None:
                self._missed = _less(self._now(), _less(self._stopped, self._missed))
                self._stopped = None
                self._goes.notify_all()


class Turns:
    """The order in which engines take turns. An engine's clock stands still outside its turn."""

    def __init__(self, clocks: Mapping[Hashable, StoppableClock], order: Sequence[Hashable]) -> None:
        self._clocks = clocks
        self._line = deque(order)
        self._moved = threading.Condition()
        for later in order[1:]:
            clocks[later].stop()

    def wait(self, who: Hashable) -> None:
        """Wait until it is the turn of `who`, or `who` has left."""
        with self._moved:
            self._moved.wait_for(lambda: who not in self._line or self._line[0] == who)

    def pass_on(self, who: Hashable) -> None:
        """Pass the turn on, and wait until it is the turn of `who` again."""
        with self._moved:
            self._clocks[who].stop()
            self._line.rotate(-1)
            self._clocks[self._line[0]].go()
            self._moved.notify_all()
        self.wait(who)

    def leave(self, who: Hashable) -> None:
        """Take no more turns; the clock runs on."""
        with self._moved:
            self._line.remove(who)
            for each in (who, *list(self._line)[:1]):
                self._clocks[each].go()
            self._moved.notify_all()


class InTurns:
    """A lane's devices, used only in its engine's turns of `pictures` pictures each."""

    def __init__(self, device: Any, turns: Turns, who: Hashable, *, pictures: int) -> None:
        self._device = device
        self._turns = turns
        self._who = who
        self._pictures = pictures
        self._decoded: list[Any] = []
        self._run: Any = None
        self._begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def _begin(self) -> None:
        """Begin to queue a run; if this turn is used up, first wait for the next one."""
        if self._begun:
            return
        self._begun = True
        if len(self._decoded) < self._pictures:
            self._turns.wait(self._who)
        else:
            self._finish()
            self._decoded.clear()
            self._turns.pass_on(self._who)

    def admit(self, *arguments: Any) -> bool:
        """Queue the admission of newcomers."""
        self._begin()
        return bool(self._device.admit(*arguments))

    def take_moves(self) -> Any:
        """End the queueing of a run."""
        self._begun = False
        return self._device.take_moves()

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> Any:
        """Queue a run."""
        self._begin()
        self._run = self._device.denoise(spans)
        return self._run

    def decode(self, seats: Iterable[int]) -> Mapping[int, Any]:
        """Decode, and count the pictures."""
        pictures: Mapping[int, Any] = self._device.decode(seats)
        self._decoded += pictures.values()
        return pictures

    def _finish(self) -> None:
        """Wait for all queued work of the devices."""
        self._run.wait()
        for picture in self._decoded:
            picture.fetch()


def _less(one: Reading, other: Reading) -> Reading:
    return Reading(one.seconds - other.seconds, one.worked - other.worked)

"""The costs of an engine's lane, for the simulated devices; measured on an idle engine.

The devices' time of a call is the time that it adds to a run that it is queued behind, so that the host's
simultaneous work is not counted. The host's time is the time of the call alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

import jax
from serving_arrivals import TimedArrival
from serving_devices import Cost, Costs
from serving_engine import LONGEST, request_for

from sdjax_engine.engine import Engine
from sdjax_engine.model.prepare import Prepared

REPEATS = 7
BEFORE = 4
"""The evaluations of the run that a call is queued behind."""


class Probe:
    """The only lane of an idle engine, all of its seats taken."""

    def __init__(self, engine: Engine) -> None:
        [queue] = engine._thread.queues.values()
        [self._model] = engine._models.values()
        self._device: Any = queue.device
        self._numbers = count(10**6)
        self._seats = range(self._device.seats)
        self._wave = self._seats[:: len(self._seats) // jax.local_device_count()]
        self._device.reset()
        self._device.admit(self._newcomers(self._seats))
        self._ready = iter([self._newcomers(self._wave) for _ in range(3 * REPEATS)])

    def queue(self, evaluations: int) -> Any:
        """Queue a run of all seats."""
        return self._device.denoise(dict.fromkeys(self._seats, (0, evaluations)))

    def run(self, evaluations: int = 0) -> None:
        """Queue a run, and wait for it and for all earlier work."""
        self.queue(evaluations).wait()

    def admit(self) -> None:
        """Queue the admission of one request to each device, each with its own prompt."""
        self._device.admit(next(self._ready))

    def decode(self) -> dict[int, Any]:
        """Queue the decoding of one picture of each device."""
        return dict(self._device.decode(self._wave))

    def lengthens(self, call: Callable[[], Any]) -> float:
        """Return the seconds that a call adds to a run that it is queued behind."""

        def behind(call: Callable[[], Any]) -> None:
            self.queue(BEFORE)
            call()
            self.run()

        return max(0.0, seconds(partial(behind, call)) - seconds(partial(behind, lambda: None)))

    def leave(self) -> None:
        """Empty the seats."""
        self._device.reset()

    def _newcomers(self, seats: range) -> Mapping[int, Prepared]:
        wishes = {
            seat: TimedArrival(at=0.0, user=0, seed=next(self._numbers), steps=LONGEST) for seat in seats
        }
        return {
            seat: self._model.prepare(request_for(wish, self._device.lane)) for seat, wish in wishes.items()
        }


def measure_costs(engine: Engine) -> Costs:
    """Return the costs of the engine's only lane."""
    probe = Probe(engine)
    for warm in (probe.decode, probe.admit, probe.run):
        warm()
    evaluation = (seconds(partial(probe.run, 9)) - seconds(partial(probe.run, 1))) / 8
    queue = seconds(partial(probe.queue, 0), after=probe.run)
    picture = next(iter(probe.decode().values()))
    costs = Costs(
        admit=Cost(host=seconds(probe.admit, after=probe.run), device=probe.lengthens(probe.admit)),
        run=Cost(host=queue, device=max(0.0, seconds(probe.run) - queue)),
        evaluation=evaluation,
        decode=Cost(
            host=seconds(probe.decode, after=probe.run),
            device=probe.lengthens(lambda: [each.fetch() for each in probe.decode().values()]),
        ),
        deliver=seconds(picture.fetch),
    )
    probe.leave()
    return costs


def seconds(call: Callable[[], Any], *, after: Callable[[], Any] | None = None) -> float:
    """Return the seconds of a call; `after` is called after each repeat and not counted.

    The least of several repeats counts, because other work on the machine can only add time.
    """
    taken = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
        if after is not None:
            after()
    return min(taken)

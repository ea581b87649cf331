"""The measure of when a run ends: a wrong one does not keep devices idle, and a right one is kept."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from serving_arrivals import TimedArrival
from serving_devices import Cost, Costs, DeviceWork, SimulatedDevices, SimulatedRun, VirtualClock
from serving_simulation import Simulation, simulate

from sdjax_engine.scheduler.lane_queue import LaneQueue

COSTS = Costs(
    evaluation=1.0,
    admit=Cost(host=0.002, device=0.005),
    run=Cost(host=0.002),
    decode=Cost(host=0.001, device=0.8),
    deliver=0.0005,
)
LONG = TimedArrival(at=0.0, user=0, seed=0, steps=400)
VISITS = [TimedArrival(at=7.0 * turn, user=1, seed=turn + 1, steps=3) for turn in range(50)]


class Hurried(SimulatedDevices):
    """Devices that become quicker: from `quick_from` on, an evaluation takes `share` of its seconds."""

    quick_from, share = 40.0, 0.2

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> SimulatedRun:
        """Make the evaluations, with the cost of this moment."""
        if self._clock.now > self.quick_from and self._costs is COSTS:
            self._costs = Costs(evaluation=self.share, run=COSTS.run, admit=COSTS.admit, decode=COSTS.decode)
        return super().denoise(spans)


class OnHurried(Simulation):
    """A simulation on such a device."""

    def queue(self, clock: VirtualClock) -> LaneQueue:
        """Return its lane queue."""
        queue = super().queue(clock)
        queue.device = Hurried(clock, self.costs, devices=1, seats_per_device=self.seats_per_device)
        return queue


def idle(work: Sequence[DeviceWork], begin: float, end: float) -> float:
    """Return the share of this time in which the device did nothing."""
    worked = sum(max(0.0, min(end, each.end) - max(begin, each.begin)) for each in work)
    return 1 - worked / (end - begin)


def test_a_lone_picture_on_devices_that_become_quicker_is_painted_as_quickly() -> None:
    outcome = simulate(OnHurried(devices=1, seats_per_device=4, costs=COSTS), [LONG])
    assert idle(outcome.work, 50.0, 100.0) < 0.01


@pytest.mark.parametrize("steps", range(1, 8))
def test_a_lone_picture_is_not_slowed_down_by_one_slow_delivery(steps: int) -> None:
    """The delivery of a short picture takes half a minute, between two of the first runs of a long one."""
    costs = Costs(evaluation=1.0, deliver=30.0)
    short = TimedArrival(at=0.0, user=1, seed=1, steps=steps)
    outcome = simulate(Simulation(devices=1, seats_per_device=4, costs=costs), [LONG, short])
    assert idle(outcome.work, 120.0, 400.0) < 0.01


def test_decodings_between_the_runs_do_not_spoil_the_measure() -> None:
    one = Simulation(devices=1, seats_per_device=4, costs=COSTS)
    outcome = simulate(one, sorted([LONG, *VISITS], key=lambda arrival: arrival.at))
    assert idle(outcome.work, 0.0, 350.0) < 0.001
    assert outcome.runs.late == 0


def test_a_newcomer_waits_for_the_run_in_flight_only() -> None:
    """A run that is queued too early delays it by one evaluation; with a good measure that is rare."""
    one = Simulation(devices=1, seats_per_device=4, costs=COSTS)
    outcome = simulate(one, sorted([LONG, *VISITS], key=lambda arrival: arrival.at))
    waits = sorted(each.seated - each.arrival.at for each in outcome.served if each.arrival.user == 1)
    assert waits[len(waits) // 2] < 1.1

"""The engine's loop on simulated devices keeps the gain of step-level seating."""

import dataclasses
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from serving_arrivals import TimedArrival
from serving_devices import Cost, Costs, SimulatedDevices, VirtualClock
from serving_simulation import Outcome, Simulation, simulate

from sdjax_engine.scheduler.lane_queue import LaneQueue

EVALUATION = 0.05
COSTS = Costs(
    evaluation=EVALUATION,
    admit=Cost(host=0.002, device=0.005),
    run=Cost(host=0.002),
    decode=Cost(host=0.001, device=0.04),
    deliver=0.0005,
)
SIXTY = [TimedArrival(at=0.0, user=0, seed=seed, steps=4 + seed % 5) for seed in range(60)]
ONE_OF_EIGHT = Simulation(devices=1, seats_per_device=8, costs=COSTS)


def runs_waited_for(outcome: Outcome) -> int:
    """Count the runs, after the first, for which the device idled: before the run or before its admission."""
    waited, waits, until = False, list[bool](), 0.0
    for work in outcome.work:
        waited = waited or (work.kind != "decode" and work.begin > until)
        until = work.end
        if work.kind == "denoise":
            waits.append(waited)
            waited = False
    return sum(waits[1:])


@pytest.mark.parametrize("seed", range(20))
def test_a_run_is_late_exactly_where_the_device_was_idle_before_it(seed: int) -> None:
    """The costs are random: the host is too slow here and there, for one thing or another."""
    cost = np.random.default_rng(seed).uniform
    costs = Costs(
        admit=Cost(host=cost(0, 1.5), device=cost(0.01, 1)),
        evaluation=cost(0.1, 1),
        decode=Cost(host=cost(0, 0.5), device=cost(0.01, 3)),
        deliver=cost(0, 1),
    )
    outcome = simulate(Simulation(devices=1, seats_per_device=1 + seed % 5, costs=costs), SIXTY)
    assert outcome.runs.late == runs_waited_for(outcome)


class MovedIn(SimulatedDevices):
    """Devices whose model is moved in before their first run."""

    brought = False

    def bring(self) -> None:
        """Let the time pass that the move takes, the first time."""
        self._clock.now += 0.0 if self.brought else 2.0
        self.brought = True


class AfterAMove(Simulation):
    """A simulation on such devices."""

    def queue(self, clock: VirtualClock) -> LaneQueue:
        """Return an empty lane queue."""
        device = MovedIn(clock, self.costs, devices=1, seats_per_device=8)
        return dataclasses.replace(super().queue(clock), device=device)


@pytest.mark.parametrize(
    "simulation",
    [ONE_OF_EIGHT, AfterAMove(devices=1, seats_per_device=8, costs=COSTS)],
    ids=["model there", "model moved in"],
)
def test_with_free_seats_a_new_request_waits_only_for_the_queued_run_and_no_device_is_idle(
    simulation: Simulation,
) -> None:
    steps, host = 4, COSTS.admit.host + COSTS.run.host + COSTS.decode.host
    alone = COSTS.admit.device + steps * EVALUATION + COSTS.decode.device
    company = [TimedArrival(at=0.0, user=0, seed=0, steps=200)]
    comers = [
        TimedArrival(at=3.0 + 0.41 * number, user=1, seed=1 + number, steps=steps) for number in range(20)
    ]
    outcome = simulate(simulation, [*company, *comers])
    waits = [each.latency - alone for each in outcome.served if each.arrival in comers]
    assert max(waits) <= EVALUATION + 4 * host
    assert sum(waits) <= len(comers) * (EVALUATION / 2 + 3 * host)
    work = sorted(outcome.work, key=lambda work: work.begin)
    idle = sum(max(0.0, after.begin - before.end) for before, after in pairwise(work))
    assert idle <= 0.01 * (work[-1].end - work[0].begin)

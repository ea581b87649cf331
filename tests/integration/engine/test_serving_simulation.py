"""The engine's loop on simulated devices: it keeps what step-level seating can gain."""

import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from serving_arrivals import MIXES, backlog, poisson
from serving_comparison import compare, ideal, simulated
from serving_devices import Cost, Costs
from serving_simulation import Simulation, simulate

EVALUATION = 0.05
COSTS = Costs(
    evaluation=EVALUATION,
    admit=Cost(host=0.002, device=0.005),
    run=Cost(host=0.002),
    decode=Cost(host=0.001, device=0.04),
    deliver=0.0005,
)
EIGHT = Simulation(devices=8, seats_per_device=1, costs=COSTS)


@pytest.mark.parametrize(("mix", "gain", "latency"), [("4-50", 1.7, 0.5), ("20-30", 1.15, 0.6)])
def test_the_loop_keeps_what_step_level_seating_gains(mix: str, gain: float, latency: float) -> None:
    at_best = compare(ideal(8), seats=8, mix=mix, count=800, loads=(0.7,))
    kept = compare(simulated(EIGHT), seats=8, mix=mix, count=800, loads=(0.7,))
    assert kept.gain >= max(gain, 0.95 * at_best.gain)
    assert kept.left[0.7]["mean"] <= min(latency, at_best.left[0.7]["mean"] / 0.9)


def test_equal_steps_are_served_no_worse_in_anything() -> None:
    kept = compare(simulated(EIGHT), seats=8, mix="equal 20", count=400, loads=(0.3, 0.7, 0.95))
    assert kept.gain >= 0.995
    assert all(ratio <= 1.0 for left in kept.left.values() for ratio in left.values())


def test_a_device_does_one_thing_at_a_time_and_none_before_it_was_queued() -> None:
    arrivals = poisson(MIXES["4-50"], count=200, rate=4.0)
    outcome = simulate(EIGHT, arrivals)
    by_device = defaultdict(list)
    for work in outcome.work:
        by_device[work.device].append(work)
    assert len(by_device) == 8
    for done in by_device.values():
        assert all(first.end <= second.begin for first, second in pairwise(done))
    assert all(
        each.finished - each.seated > each.arrival.steps * EVALUATION - 1e-6 for each in outcome.served
    )
    assert sorted(each.arrival.seed for each in outcome.served) == list(range(200))


def test_with_a_full_queue_the_devices_are_hardly_ever_idle() -> None:
    outcome = simulate(EIGHT, backlog(MIXES["4-50"], count=400))
    assert sum(outcome.shares(8).values()) >= 0.97

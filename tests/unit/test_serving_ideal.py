"""The ideal gain of step-level seating, with which the engine is compared."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from serving_arrivals import MIXES, ServedArrival, backlog, poisson
from serving_comparison import compare, ideal
from serving_ideal import step_level, whole_batch
from serving_statistics import throughput

SEATS = 8


@pytest.mark.parametrize(
    ("mix", "gain", "latency"), [("4-50", 1.84, 0.37), ("20-30", 1.19, 0.57), ("equal 20", 1.0, 0.70)]
)
def test_the_ideal_gain_of_eight_seats(mix: str, gain: float, latency: float) -> None:
    compared = compare(ideal(SEATS), seats=SEATS, mix=mix, count=8000, loads=(0.7,))
    assert compared.gain == pytest.approx(gain, abs=0.02)
    assert compared.left[0.7]["mean"] == pytest.approx(latency, abs=0.01)


@pytest.mark.parametrize(
    ("mix", "slices", "gain"), [("4-50", 2, 1.65), ("20-30", 2, 1.16), ("equal 20", 2, 1.0), ("4-50", 8, 1.0)]
)
def test_slices_that_share_cores_gain_less(mix: str, slices: int, gain: float) -> None:
    """Two slices of four seats take the mean of their longest: 43.0 evaluations for 26 of each seat."""
    compared = compare(ideal(SEATS, slices=slices), seats=SEATS, mix=mix, count=8000, loads=())
    assert compared.gain == pytest.approx(gain, abs=0.02)


def test_both_policies_serve_every_request_once_after_its_arrival() -> None:
    arrivals = poisson(MIXES["4-50"], count=500, rate=0.12)
    by_step = step_level(arrivals, seats=SEATS)
    by_batch = whole_batch(arrivals, seats=SEATS, batch_wait=10)
    for served in (by_step, by_batch):
        assert sorted(each.arrival.seed for each in served) == list(range(500))
        assert all(each.waited >= 0 and each.latency > each.arrival.steps - 1e-6 for each in served)


def test_another_rate_changes_only_the_arrival_times() -> None:
    slow, fast = (poisson(MIXES["20-30"], count=50, rate=rate) for rate in (1.0, 4.0))
    assert [each.at for each in slow] == pytest.approx([4 * each.at for each in fast])
    assert [(each.user, each.steps) for each in slow] == [(each.user, each.steps) for each in fast]


def test_throughput_counts_whole_rounds_with_all_seats_taken() -> None:
    served = whole_batch(backlog((20,), count=48), seats=SEATS, batch_wait=10)
    assert throughput(served, seats=SEATS).pictures == pytest.approx(SEATS / 20)
    straggler = [
        ServedArrival(arrival=each.arrival, seated=0, finished=each.finished) for each in served[:-1]
    ]
    straggler.append(ServedArrival(arrival=served[-1].arrival, seated=0, finished=10_000))
    assert throughput(straggler, seats=SEATS).pictures == pytest.approx(SEATS / 20)

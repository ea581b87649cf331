"""The whole batches with which the engine's own seats are compared."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from serving_whole_batch import WholeBatchSeats


def test_a_whole_batch_waits_for_every_seat_or_for_its_oldest_request() -> None:
    seats: WholeBatchSeats[str] = WholeBatchSeats(devices=2, seats_per_device=1, batch_wait=8.0)
    seats.join("a", 20, now=100.0)
    assert (seats.readiness(107.9), seats.wake_at(), seats.take_seats(107.9)) == (None, 108.0, [])
    seats.join("b", 4, now=101.0)
    assert [each.request for each in seats.take_seats(101.0)] == ["a", "b"]
    seats.join("c", 4, now=101.0)
    assert [(span.request, span.stop, span.last) for span in seats.plan_run()] == [
        ("a", 20, True),
        ("b", 4, True),
    ]
    assert [each.request for each in seats.take_seats(109.0)] == ["c"]

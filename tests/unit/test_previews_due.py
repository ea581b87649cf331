"""When a lane's previews are due: every few seconds, within a share of the lane's time."""

from __future__ import annotations

import numpy as np
import pytest
from scripted_devices import prepared

from sdjax_engine.scheduler.lane_queue import Previews, Span
from sdjax_engine.scheduler.pending import PendingRequest

RUN = 0.5  # seconds


def span(*, seat: int = 0, wants: bool = True, last: bool = False) -> Span[PendingRequest]:
    request = PendingRequest(prepared=prepared(evaluations=4), previews=wants)
    return Span(request=request, seat=seat, start=1, stop=4 if last else 2, last=last)


def previews(**values: float) -> Previews:
    return Previews(**{"seconds": 3.0, "most_share": 0.02} | values)


def made_at(each: Previews, *, cost: float, runs: int, begun: int = 0) -> list[int]:
    """The runs after which previews were due; each preview takes `cost` seconds."""
    numbers = []
    for run in range(begun, begun + runs):
        each.worked(RUN)
        if each.due([span()], run * RUN, decoded=True):
            numbers.append(run)
            each.took(cost)
    return numbers


def test_previews_come_every_few_seconds() -> None:
    assert made_at(previews(), cost=0.001, runs=20) == [0, 6, 12, 18]


def test_previews_that_take_long_come_less_often() -> None:
    """The first two show that one takes 0.1 s: then one is due every 5 s, 2 % of the time."""
    assert made_at(previews(), cost=0.1, runs=40) == [0, 6, 16, 26, 36]


def test_one_slow_preview_changes_nothing() -> None:
    each = previews(seconds=0.0)
    made_at(each, cost=0.001, runs=6)
    each.took(60.0)
    assert made_at(each, cost=0.001, runs=3, begun=6) == [6, 7, 8]


@pytest.mark.parametrize("decoded", [False, True])
def test_without_known_colours_only_decoded_previews_are_due(decoded: bool) -> None:
    due = previews().due([span(seat=2)], 0.0, decoded=decoded)
    assert due == ({2: (0.0, 1.0)} if decoded else {})


def test_only_requests_that_want_previews_and_are_not_finished_get_them() -> None:
    spans = [span(seat=0), span(seat=1, wants=False), span(seat=2, last=True)]
    each = previews()
    assert each.due(spans[1:], 0.0, decoded=True) == {}
    assert list(each.due(spans, 0.0, decoded=True)) == [0], "a run without previews does not put them off"


def test_pixels_of_the_devices_are_the_previews() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
    shown = previews().pixels(pixels, [2, 0])
    assert list(shown) == [2, 0]
    for seat, each in shown.items():
        assert np.array_equal(each, pixels[seat])
        assert each.base is None, "a preview keeps the pixels of all seats in memory"

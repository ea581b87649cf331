"""Each picture's part of the devices' time: the parts of all pictures are the whole time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scripted_devices import Script, ScriptedDevices, prepared

from sdjax_engine.request import Image, Progress
from sdjax_engine.scheduler.lane_queue import LaneQueue, Seats
from sdjax_engine.scheduler.loop import Scheduler
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.thread import Watchdog

RUN, FETCH = 4.0, 0.25  # seconds
DEVICES = 2


class Lane:
    """One lane whose runs take RUN seconds, and whose last decoding takes FETCH."""

    def __init__(self, *, not_numbers: frozenset[int] = frozenset()) -> None:
        self.now = 0.0
        script = Script(on_call=self._on_call, not_numbers=not_numbers)
        queue = LaneQueue(
            device=ScriptedDevices(script, devices=DEVICES, seats_per_device=2),
            seats=Seats(devices=DEVICES, seats_per_device=2),
        )
        watchdog = Watchdog(clock=self._clock, stuck_after=0.0)
        self.scheduler = Scheduler(
            {queue.lane: queue},
            clock=self._clock,
            watchdog=watchdog,
            on_first_pass=self._begin_second_pass,
        )
        self._second_passes: list[PendingRequest] = []

    def paint(self, *requests: PendingRequest) -> list[Image]:
        for request in requests:
            self.scheduler.table.join(request)
        while self.scheduler.table.present:
            self.now = max(self.now, self.scheduler.next_turn_at or self.now)  # the devices are at work
            self.scheduler.turn()
            for pending in self._second_passes:
                self.scheduler.table.join(pending)
            self._second_passes.clear()
        return [request.future.result() for request in requests]

    def _begin_second_pass(self, pending: PendingRequest, image: Image) -> None:
        pending.begin_second_pass(image)
        self._second_passes.append(pending)

    def _clock(self) -> float:
        return self.now

    def _on_call(self, name: str) -> None:
        self.now += {"wait": RUN, "fetch": FETCH}.get(name, 0.0)


def test_one_picture_has_the_time_of_its_runs_and_of_its_decoding_on_all_devices() -> None:
    told: list[Progress] = []
    (image,) = Lane().paint(PendingRequest(prepared=prepared(evaluations=4), on_progress=told.append))
    assert image.device_seconds == pytest.approx((RUN + FETCH) * DEVICES)
    assert told[-1].device_seconds == pytest.approx(RUN * DEVICES)


def test_pictures_share_a_run_by_their_evaluations_and_empty_seats_are_shared_too() -> None:
    lane = Lane()
    long, short = (
        PendingRequest(prepared=prepared(seed=seed, evaluations=e)) for seed, e in ((1, 4), (2, 2))
    )
    images = lane.paint(long, short)
    assert images[0].device_seconds > images[1].device_seconds > 0
    assert sum(image.device_seconds for image in images) == pytest.approx(lane.now * DEVICES)


def test_a_guided_evaluation_counts_twice_beside_one_without_guidance() -> None:
    guided = replace(prepared(seed=1, evaluations=4), guided=np.ones(4, np.bool_))
    pictures = [PendingRequest(prepared=each) for each in (guided, prepared(seed=2, evaluations=4))]
    lane = Lane()
    both = lane.paint(*pictures)
    assert sum(image.device_seconds for image in both) == pytest.approx(lane.now * DEVICES)
    decoding = FETCH * DEVICES
    assert both[0].device_seconds - both[1].device_seconds == pytest.approx(RUN * DEVICES / 3, abs=decoding)


def test_the_parts_of_many_pictures_are_the_whole_time() -> None:
    lane = Lane()
    images = lane.paint(
        *(PendingRequest(prepared=prepared(seed=seed, evaluations=4)) for seed in range(1, 9))
    )
    assert sum(image.device_seconds for image in images) == pytest.approx(lane.now * DEVICES)


def test_both_passes_and_a_second_decoding_count() -> None:
    lane = Lane(not_numbers=frozenset({1}))
    (image,) = lane.paint(PendingRequest(prepared=prepared(seed=1, evaluations=4, second=4)))
    assert image.device_seconds == pytest.approx(lane.now * DEVICES)
    assert lane.now >= 2 * RUN

"""Every future ends with the right picture or a reason, wherever devices fail or lack memory."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_devices import SHORTAGE, Script, ScriptedDevices, pixels_of, prepared

from sdjax_engine.errors import PaintingFailed
from sdjax_engine.model.prepare import Prepared
from sdjax_engine.request import Image, Progress, Trouble
from sdjax_engine.scheduler.lane_queue import LaneQueue, Previews, Seats
from sdjax_engine.scheduler.loop import MOST_ATTEMPTS, Scheduler
from sdjax_engine.scheduler.pending import PendingRequest, State
from sdjax_engine.scheduler.thread import Watchdog

BROKEN = 13  # the seed of a picture that is no number until it is decoded again
HALVINGS = 2  # of four seats on a device


@pytest.fixture(scope="module", autouse=True)
def without_log() -> Iterator[None]:
    """Keep the log's thousands of tracebacks out of the way."""
    logger = logging.getLogger("sdjax_engine.scheduler.loop")
    logger.disabled = True
    yield
    logger.disabled = False


@dataclass(frozen=True)
class Fail:
    """The call fails."""

    shortage: bool = False


@dataclass(frozen=True)
class Unjudged:
    """The picture's scores are no numbers."""


@dataclass(frozen=True)
class Cancel:
    """A request is cancelled during the call."""

    number: int


@dataclass(frozen=True)
class Come:
    """Another request comes during the call."""

    wanted: Prepared


Event = Fail | Unjudged | Cancel | Come


COLOURS = np.array([[1 / (4 * 127.5)] * 3] * 4 + [[-1.0] * 3])
"""The map from the latents of scripted pictures to their pixels."""


class Evening:
    """A loop on scripted devices; `events` has the event of a call by its number."""

    def __init__(self, events: Mapping[int, Event]) -> None:
        self.now = 0.0
        self.calls: list[str] = []
        self.events = events
        self.requests: list[PendingRequest] = []
        self.told: dict[PendingRequest, list[Progress]] = {}
        self.cancelled: list[PendingRequest] = []
        self.coming: list[PendingRequest] = []
        self.script = Script(on_call=self.on_call, not_numbers=frozenset({BROKEN}))
        queue = LaneQueue(
            device=ScriptedDevices(self.script, devices=1, seats_per_device=4),
            seats=Seats(devices=1, seats_per_device=4),
            previews=Previews(seconds=0.0, most_share=1e6, colours=COLOURS),
        )
        self.scheduler = Scheduler(
            {queue.lane: queue},
            clock=self.clock,
            watchdog=Watchdog(clock=self.clock, stuck_after=0.0),
            on_first_pass=self.begin_second_pass,
        )

    def clock(self) -> float:
        return self.now

    def come(self, wanted: Prepared) -> None:
        told: list[Progress] = []
        pending = PendingRequest(prepared=wanted, on_progress=told.append, previews=True)
        self.told[pending] = told
        self.requests.append(pending)
        self.coming.append(pending)

    def begin_second_pass(self, pending: PendingRequest, image: Image) -> None:
        pending.begin_second_pass(image)
        self.coming.append(pending)

    def on_call(self, name: str) -> None:
        self.now += 0.001
        check_places(self.scheduler)
        event = self.events.get(len(self.calls))
        self.calls.append(name)
        if isinstance(event, Fail):
            raise SHORTAGE if event.shortage else RuntimeError("the devices broke")
        if isinstance(event, Unjudged):
            raise PaintingFailed("no numbers")
        if isinstance(event, Cancel):
            pending = self.requests[event.number % len(self.requests)]
            pending.future.cancel()
            self.cancelled.append(pending)
        elif isinstance(event, Come):
            self.come(event.wanted)

    def turn(self) -> None:
        for pending in self.coming:
            self.scheduler.table.join(pending)
        for pending in self.cancelled:
            self.scheduler.table.remove(pending)
        self.coming, self.cancelled = [], []
        self.now = max(self.now, self.scheduler.next_turn_at or self.now)
        self.scheduler.turn()

    def serve(self, wanted: Sequence[Prepared]) -> None:
        for each in wanted:
            self.come(each)
        turns = 0
        while self.coming or self.scheduler.table.present:
            self.turn()
            turns += 1
            assert turns < 1000, "somebody waits for ever"
        self.scheduler.land_everything()


def check_places(scheduler: Scheduler) -> None:
    """Every request is in one place, and its state names that."""
    table = scheduler.table
    places: dict[PendingRequest, list[set[State]]] = {pending: [] for pending in table.present}
    for queue in table.queues.values():
        for pending in queue.seats.waiting:
            places[pending].append({State.WAITING})
        for pending in queue.seats.seated:
            places[pending].append({State.SEATED})
    for batch in table.every_batch():
        for pending in batch.pictures:
            places[pending].append({State.IN_FLIGHT, State.DECODED})
    for pending, found in places.items():
        if not pending.answered:
            [states] = found
            assert pending.state in states


def check_answers(evening: Evening) -> None:
    assert evening.script.mistakes == []
    asked = Counter(pending.request for pending in evening.requests)
    for pending in evening.requests:
        assert pending.future.done()
        check_previews(pending, evening.told[pending])
        request = pending.request
        try:
            image = pending.future.result(0)
        except CancelledError:
            continue
        except PaintingFailed:
            assert pending.failures + 1 == MOST_ATTEMPTS
        else:
            assert image.request == request
            assert np.array_equal(image.pixels, pixels_of(request.seed))
        troubles = [progress for progress in evening.told[pending] if progress.trouble]
        in_second_pass = pending.seconds_of_first_pass is not None
        failures = [each for each in troubles if each.trouble is Trouble.FAILED]
        assert pending.failures == sum(each.in_second_pass == in_second_pass for each in failures)
        if asked[request] == 1:
            assert evening.script.admitted[request] <= 1 + len(troubles), "painted without need"


def check_previews(pending: PendingRequest, told: Sequence[Progress]) -> None:
    """Each preview shows the request's own picture, before its last step."""
    seed = pending.prepared.request.seed
    for progress in told:
        if progress.preview is not None:
            assert np.array_equal(progress.preview, pixels_of(seed))
            assert 0 < progress.step < progress.steps


CROWD = (
    prepared(seed=BROKEN, evaluations=3),
    prepared(seed=20, evaluations=2),
    prepared(seed=21, evaluations=5),
    prepared(seed=40, evaluations=1),
    prepared(seed=40, evaluations=1),
    prepared(seed=50, evaluations=5),
    prepared(seed=70, evaluations=2, second=3),
)
ALONE = prepared(seed=60, evaluations=5)
LATER: Mapping[int, Event] = {
    20: Come(prepared(seed=22, evaluations=5)),
    40: Come(prepared(seed=51, evaluations=5)),
}


def spend(events: Mapping[int, Event], *parts: Sequence[Prepared]) -> Evening:
    """Serve the requests, each part once the part before is answered, and check the answers."""
    evening = Evening({**LATER, **events})
    for wanted in parts or ([ALONE], CROWD):
        evening.serve(wanted)
    check_answers(evening)
    return evening


def test_an_undisturbed_evening_makes_every_call_of_the_devices_and_everybody_has_their_picture() -> None:
    evening = spend({})
    assert all(pending.future.exception(0) is None for pending in evening.requests)
    made = {"admit", "denoise", "decode", "decode again", "wait", "estimate", "fetch estimates"}
    assert {*made, "fetch", "fetch verdicts", "fetch latents"} <= set(evening.calls)


@pytest.mark.parametrize("call", ["estimate", "fetch estimates"])
def test_previews_that_cannot_be_made_cost_nobody_a_second_start(call: str) -> None:
    calls = spend({}, CROWD[1:]).calls
    evening = spend({calls.index(call): Fail()}, CROWD[1:])
    assert not any(progress.trouble for told in evening.told.values() for progress in told)
    assert evening.calls.count(call) == 1, "previews go on after an error"


events = st.one_of(
    st.builds(Fail, shortage=st.booleans()),
    st.builds(Cancel, st.integers(0, 9)),
    st.builds(
        Come,
        st.builds(
            prepared,
            seed=st.sampled_from([BROKEN, 20, 21, 22]),
            evaluations=st.integers(1, 9),
            second=st.none() | st.integers(1, 5),
        ),
    ),
)


@settings(max_examples=60)
@given(events=st.dictionaries(st.integers(0, 90), events, max_size=8))
def test_every_future_ends_whatever_becomes_of_the_devices(events: Mapping[int, Event]) -> None:
    spend(events)


def test_an_error_of_each_pass_has_a_retry() -> None:
    two_passes = prepared(seed=70, evaluations=2, second=3)
    calls = spend({}, [two_passes]).calls
    first_read, last_read = (place for place, name in enumerate(calls) if name == "fetch")
    for error in (first_read, first_read - 1):
        failed = spend({error: Fail()}, [two_passes]).calls
        again = len(failed) - len(calls) + last_read
        evening = spend({error: Fail(), again: Fail()}, [two_passes])
        assert all(pending.future.exception(0) is None for pending in evening.requests), (error, again)


def test_memory_that_is_short_where_a_picture_is_read_halves_the_seats() -> None:
    calls = spend({}).calls
    evening = spend({calls.index("fetch"): Fail(shortage=True)})
    [queue] = evening.scheduler.table.queues.values()
    assert len(queue.seats) == 2
    assert all(pending.future.exception(0) is None for pending in evening.requests)
    told = {progress.trouble for told in evening.told.values() for progress in told if progress.trouble}
    assert told == {Trouble.OUT_OF_MEMORY}


def test_a_picture_that_cannot_be_judged_fails_at_once_and_no_other() -> None:
    calls = spend({}).calls
    evening = Evening({**LATER, calls.index("fetch verdicts"): Unjudged()})
    for wanted in ([ALONE], CROWD):
        evening.serve(wanted)
    assert evening.script.mistakes == []
    [unjudged] = [pending for pending in evening.requests if pending.future.exception(0) is not None]
    assert (unjudged.failures, str(unjudged.future.exception(0))) == (0, "no numbers")

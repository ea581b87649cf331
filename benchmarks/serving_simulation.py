"""The engine's own loop and seats on simulated devices, in virtual time.

All decisions are the engine's: `Scheduler`, `LaneQueue`, the seats. Nothing is timed, so the figures do not
depend on the machine that runs the simulation.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from serving_arrivals import ServedArrival, TimedArrival
from serving_devices import LANE, Costs, DeviceWork, SimulatedDevices, VirtualClock
from serving_whole_batch import Seating, WholeBatchSeats

from sdjax_engine.model.prepare import Prepared, Text
from sdjax_engine.request import Image, PromptFacts, Request, Sampler
from sdjax_engine.scheduler.lane_queue import LaneQueue, Seats, Sums
from sdjax_engine.scheduler.loop import Scheduler
from sdjax_engine.scheduler.pending import PendingRequest
from sdjax_engine.scheduler.thread import Watchdog

TEXT = Text(read="")
FACTS = PromptFacts(tokens=3, limit=75)
ROWS = np.zeros((1, 1), np.float32)


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The devices, their costs, and the policy of seating."""

    devices: int
    seats_per_device: int
    seating: Seating = Seating.STEP
    costs: Costs
    batch_wait: float = 0.0

    @property
    def seats(self) -> int:
        """The number of seats on all devices."""
        return self.devices * self.seats_per_device

    def seated(self, seating: Seating, *, batch_wait: float) -> Simulation:
        """Return this simulation with another policy of seating."""
        return replace(self, seating=seating, batch_wait=batch_wait)

    def queue(self, clock: VirtualClock) -> LaneQueue:
        """Return an empty lane queue. Whole batches are run by all devices in step, as one padded batch."""
        whole = self.seating is Seating.WHOLE_BATCH
        shape = {"devices": self.devices, "seats_per_device": self.seats_per_device}
        seats: Seats[PendingRequest] = (
            WholeBatchSeats(**shape, batch_wait=self.batch_wait, clock=clock) if whole else Seats(**shape)
        )
        return LaneQueue(device=SimulatedDevices(clock, self.costs, **shape, in_step=whole), seats=seats)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All served arrivals, the devices' work until `ended`, and the sums of the runs."""

    served: list[ServedArrival]
    work: list[DeviceWork]
    ended: float
    runs: Sums

    def shares(self, devices: int) -> dict[str, float]:
        """Return the devices' shares of time by the kind of work, until the last image took a seat."""
        until = max(each.seated for each in self.served)
        spent = Counter[str]()
        for work in self.work:
            spent[work.kind] += max(0.0, min(until, work.end) - work.begin)
        return {kind: seconds / until / devices for kind, seconds in spent.items()}


def simulate(simulation: Simulation, arrivals: Sequence[TimedArrival]) -> Outcome:
    """Serve these arrivals with the engine's loop."""
    clock = VirtualClock()
    queue = simulation.queue(clock)
    scheduler = Scheduler(
        {LANE: queue},
        clock=clock,
        watchdog=Watchdog(clock=clock, stuck_after=0.0),
        on_first_pass=PendingRequest.begin_second_pass,  # no request of the simulation has one
    )
    coming, served = deque(arrivals), list[ServedArrival]()
    while coming or scheduler.table.present:
        while coming and coming[0].at <= clock.now:
            scheduler.table.join(_ticket(coming.popleft(), served, clock))
        turn_at = scheduler.next_turn_at
        if turn_at is None and isinstance(queue.seats, WholeBatchSeats):
            turn_at = queue.seats.wake_at
        if turn_at is not None and turn_at <= clock.now:
            scheduler.turn()
        else:
            times = [arrival.at for arrival in list(coming)[:1]]
            times += [] if turn_at is None else [turn_at]
            clock.wait_until(min(times))
    assert isinstance(queue.device, SimulatedDevices)
    return Outcome(served=served, work=queue.device.work, ended=clock.now, runs=scheduler.run_sums)


def _ticket(arrival: TimedArrival, served: list[ServedArrival], clock: VirtualClock) -> PendingRequest:
    request = Request(
        prompt="anything",
        seed=arrival.seed,
        num_inference_steps=arrival.steps,
        guidance_scale=5.0,
        sampler=Sampler.DDIM,
        height=LANE.height,
        width=LANE.width,
        model=LANE.model,
    )
    prepared = Prepared(
        request=request,
        texts=(TEXT, TEXT),
        facts=(FACTS, FACTS),
        picture=None,
        rows=ROWS,
        estimates=ROWS,
        evaluations=arrival.steps,
        init_noise_sigma=1.0,
        init_latent_scale=0.0,
        loras=(ROWS, ROWS),
    )
    pending = PendingRequest(prepared=prepared)
    pending.future.add_done_callback(partial(_write_down, arrival, served, clock))
    return pending


def _write_down(
    arrival: TimedArrival, served: list[ServedArrival], clock: VirtualClock, future: Future[Image]
) -> None:
    finished = clock.now
    seated = finished - future.result().seconds
    served.append(ServedArrival(arrival=arrival, seated=seated, finished=finished))

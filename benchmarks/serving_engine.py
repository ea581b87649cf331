"""Serving the arrivals with the real engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from serving_arrivals import ServedArrival, TimedArrival
from serving_turns import InTurns, StoppableClock, Turns
from serving_whole_batch import Seating, WholeBatchSeats

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.request import Image, Lane, Offer, Request, Sampler

MODEL = "model"
GUIDANCE = 2.2
LONGEST = 50

ROUNDS_IN_TURN = 3
"""The rounds of a turn; in a round an engine finishes as many pictures as it has seats. Turns are shorter if
there would be fewer than four turns of each engine.

With shorter turns, the engines see more equal speeds of a shared machine. But at the end of a turn the last
pictures are decoded without a run beside them, and a whole batch has more last pictures. With mixed steps,
turns of two rounds make whole batches half a per cent slower than turns of six.
"""


def open_engine(
    *,
    checkpoint: str,
    size: tuple[int, int],
    cpu_devices: int,
    seats_per_device: int,
    cache_dir: Path,
    clock: Callable[[], float] = time.perf_counter,
) -> Engine:
    """Open an engine with one lane of guided pictures of `size`."""
    width, height = size
    offer = Offer(
        model=MODEL,
        sizes=(size,),
        num_inference_steps=LONGEST,
        guidance_scale=GUIDANCE,
        sampler=Sampler.DDIM,
    )
    config = EngineConfig(
        models=(ModelSpec(offer=offer, source=checkpoint),),
        seats_per_device=seats_per_device,
        cpu_devices=cpu_devices,
        cache_dir=cache_dir,
        lanes=(Lane(model=MODEL, height=height, width=width, guided=True),),
        start_pictures=False,
    )
    return Engine.open(config, report=lambda _line: None, clock=clock)


def use_whole_batches(engine: Engine, batch_wait: float, clock: StoppableClock) -> None:
    """Seat the requests of an idle engine's only lane as whole batches; `clock` is the engine's clock."""
    [queue] = engine._thread.queues.values()
    wakes = SimpleQueue[float]()
    queue.seats = WholeBatchSeats(
        devices=queue.devices,
        seats_per_device=queue.device.seats_per_device,
        batch_wait=batch_wait,
        clock=clock,
        wake=wakes.put,
    )

    def look_again() -> None:
        while True:
            clock.sleep_until(wakes.get())
            engine._thread.intake.look_again()

    threading.Thread(target=look_again, daemon=True).start()


def request_for(arrival: TimedArrival, lane: Lane) -> Request:
    """Return the request of an arrival: each user has a prompt, each picture a seed."""
    return Request(
        prompt=f"a red circle on a white background, number {arrival.seed} of user {arrival.user}",
        seed=arrival.seed,
        num_inference_steps=arrival.steps,
        guidance_scale=GUIDANCE,
        sampler=Sampler.DDIM,
        height=lane.height,
        width=lane.width,
        model=lane.model,
    )


def serve(engine: Engine, arrivals: Sequence[TimedArrival], clock: StoppableClock) -> list[ServedArrival]:
    """Submit each arrival at its time, and return when all are answered.

    `clock` is the engine's clock.
    """
    [lane] = engine.lanes
    requests = [request_for(arrival, lane) for arrival in arrivals]
    served: list[ServedArrival] = []
    every = threading.Semaphore(0)
    begun = clock()

    def write_down(arrival: TimedArrival, future: Future[Image]) -> None:
        now = clock.read()
        finished = now.seconds - begun
        try:
            seated = finished - future.result().seconds
            served.append(ServedArrival(arrival=arrival, seated=seated, finished=finished, worked=now.worked))
        finally:
            every.release()

    for arrival, request in zip(arrivals, requests, strict=True):
        clock.sleep_until(begun + arrival.at)
        future = engine.submit(request)
        future.add_done_callback(partial(write_down, arrival))
    for _ in arrivals:
        every.acquire()
    return served


def serve_in_turns(
    engines: Mapping[Seating, Engine],
    clocks: Mapping[Seating, StoppableClock],
    arrivals: Sequence[TimedArrival],
    order: Sequence[Seating],
) -> dict[Seating, list[ServedArrival]]:
    """Serve the arrivals with each engine, in turns of some pictures, and return when all are served.

    `clocks` are the engines' clocks.
    """
    turns, turns_of_each = Turns(clocks, order), 4

    def one(seating: Seating) -> list[ServedArrival]:
        [queue] = engines[seating]._thread.queues.values()
        device: Any = queue.device
        pictures = max(1, min(ROUNDS_IN_TURN * device.seats, len(arrivals) // turns_of_each))
        queue.device = InTurns(device, turns, seating, pictures=pictures)
        try:
            return serve(engines[seating], arrivals, clocks[seating])
        finally:
            queue.device = device
            turns.leave(seating)

    with ThreadPoolExecutor(len(engines)) as pool:
        return dict(zip(order, pool.map(one, order), strict=True))

"""The real engine under the arrivals."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from serving_arrivals import Arrival, Served

from sdjax_engine.config import EngineConfig, ModelSpec, Seating
from sdjax_engine.engine import Engine
from sdjax_engine.request import Image, Lane, Offer, Request, Sampler

MODEL = "model"
GUIDANCE = 2.2
LONGEST = 50


def open_engine(
    *,
    checkpoint: str,
    size: tuple[int, int],
    cpu_devices: int,
    seats_per_device: int,
    cache_dir: Path,
    seating: Seating = Seating.STEP,
    batch_wait: float = 0.0,
) -> Engine:
    """Open an engine with one lane of guided pictures of `size`, width and height; it paints no spares."""
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
        seating=seating,
        batch_wait=batch_wait,
        spares=0,
    )
    return Engine.open(config, report=lambda _line: None)


def request_for(arrival: Arrival, lane: Lane) -> Request:
    """What this user asks for: each user has their own words, each picture its own seed."""
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


def serve(engine: Engine, arrivals: Sequence[Arrival]) -> list[Served]:
    """Submit each arrival at its time, whatever became of the others, and return when all are answered."""
    [lane] = engine.lanes
    requests = [request_for(arrival, lane) for arrival in arrivals]
    served: list[Served] = []
    every = threading.Semaphore(0)
    begun = time.perf_counter()
    for arrival, request in zip(arrivals, requests, strict=True):
        time.sleep(max(0.0, begun + arrival.at - time.perf_counter()))
        future = engine.submit(request)
        future.add_done_callback(partial(_write_down, arrival, served, begun, every))
    for _ in arrivals:
        every.acquire()
    return served


def _write_down(
    arrival: Arrival,
    served: list[Served],
    begun: float,
    every: threading.Semaphore,
    future: Future[Image],
) -> None:
    finished, worked = time.perf_counter() - begun, time.process_time()
    try:
        seated = finished - future.result().seconds
        served.append(Served(arrival=arrival, seated=seated, finished=finished, worked=worked))
    finally:
        every.release()

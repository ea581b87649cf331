"""Paints the same requests in several ways and prints the different pictures of each, as JSON.

A separate program, because the number of devices is fixed per process. It reads lines of JSON: the value of
XLA_FLAGS, and the arguments of `paint`. For each line it forks a process, which needs no time for imports.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from compilations import counted_compilations
from engines import PART, PLAIN, VARIED, like, tiny_config

from sdjax_engine.config import Dtype
from sdjax_engine.engine import Engine
from sdjax_engine.request import Image, Request

DEADLINE = 120.0
PAINTED = (*VARIED, PART)


def alone(engine: Engine) -> list[Image]:
    """Paint each request by itself."""
    return [engine.submit(request).result(DEADLINE) for request in PAINTED]


def in_company(engine: Engine) -> list[Image]:
    """Paint all requests at once, each of them twice."""
    futures = [engine.submit(request) for request in PAINTED * 2]
    return [future.result(DEADLINE) for future in futures]


def in_every_seat(engine: Engine) -> list[Image]:
    """Paint PLAIN after 0, 1, 2 … other requests, which are still in their seats."""
    images = []
    for others in range(engine.capacity(PLAIN.lane)):
        futures = [engine.submit(like(seed=seed, num_inference_steps=40)) for seed in range(others)]
        images.append(engine.submit(PLAIN).result(DEADLINE))
        for future in futures:
            engine.cancel(future)
    return images


def joined_late(engine: Engine) -> list[Image]:
    """Submit each request while a longer image is half painted."""
    images = []
    for request in PAINTED:
        begun = threading.Event()
        first = engine.submit(
            like(num_inference_steps=150), on_progress=lambda _told, begun=begun: begun.set()
        )
        assert begun.wait(DEADLINE)
        late: Future[Image] = engine.submit(request)
        images.append(late.result(DEADLINE))
        engine.cancel(first)
    return images


def between_lanes(engine: Engine) -> list[Image]:
    """Paint each request while the devices serve two lanes in turn."""
    others = [
        engine.submit(like(guidance_scale=scale, seed=seed, num_inference_steps=150))
        for seed in range(2)
        for scale in (1.0, 5.0)
    ]
    images = [engine.submit(request).result(DEADLINE) for request in PAINTED]
    for other in others:
        engine.cancel(other)
    return images


WAYS = {way.__name__: way for way in (alone, in_company, in_every_seat, joined_late, between_lanes)}


def main() -> None:
    """Paint as each line says."""
    for line in sys.stdin:
        flags, *arguments = json.loads(line)
        worker = os.fork()
        if not worker:
            os.environ["XLA_FLAGS"] = flags
            print(json.dumps(paint(*arguments)), flush=True)
            os._exit(0)
        if status := os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]):
            sys.exit(f"It ended with status {status}.")


def paint(  # noqa: PLR0917 – the arguments of a line
    checkpoint: str,
    devices: str,
    seats_per_device: str,
    dtype: str,
    fitted_programs: str,
    cache_dir: str,
    *ways: str,
) -> dict[str, Any]:
    """Paint on so many devices, and return the pictures and what was told and compiled meanwhile."""
    said: list[str] = []
    config = tiny_config(
        Path(checkpoint),
        cache_dir=Path(cache_dir),
        cpu_devices=int(devices),
        seats_per_device=int(seats_per_device),
        dtype=Dtype(dtype),
        fitted_programs=fitted_programs == "True",
    )
    found: dict[Request, set[str]] = {request: set() for request in PAINTED}
    with counted_compilations() as made, Engine.open(config, report=said.append) as engine:
        engine.wait_until_ready()
        until_ready = len(made)
        for way in ways:
            for image in WAYS[way](engine):
                found[image.request].add(image.pixels.tobytes().hex())
        capacity, lanes = engine.capacity(PLAIN.lane), list(map(str, engine.lanes))
    pictures = [sorted(found[request]) for request in PAINTED]
    answer = {"capacity": capacity, "said": said, "pictures": pictures, "made": made}
    answer |= {"lanes": lanes, "made_once_ready": made[until_ready:], "imported_flax": "flax" in sys.modules}
    return answer


if __name__ == "__main__":
    main()

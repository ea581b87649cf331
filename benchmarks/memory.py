"""Memory: the need of more seats, and whether memory grows over many pictures.

    python benchmarks/memory.py [--checkpoint demo] [--size 128x128] [--seats 1 2 4 8] [--pictures 2000]

The first table opens one guided lane in its own process for each number of seats, and paints a full batch
twice. The need of a device is the engine's count: parameters, arrays of the seats, and the largest temporary
memory of a compiled program. The device's own peak, if it reports one, and the process's largest resident set
are printed too. The second table paints many pictures in one engine, with different prompts and seeds, two
lanes, mixed samplers and steps; every 25th picture is cancelled. After every 100 pictures it measures the
process's resident set and JAX's arrays. Free heap memory is returned to the system before each measurement,
as the engine does at times. Growth is the slope of the second half. `--seats` without a number, or
`--pictures 0`, leaves a table out. `--help` names every option.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
from conditions import print_conditions

from bot.process import memory
from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.compiling.executables import Executables
from sdjax_engine.config import Dtype, EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.memory import devices
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Image, Offer, Request, Sampler
from sdjax_engine.weights import load_checkpoint

Figures = dict[str, float]
ROOT = Path(__file__).parents[1]
MIB = 2**20
SAMPLED_EVERY = 100
GIVEN_UP_EVERY = 25
SAMPLERS = (Sampler.DDIM, Sampler.EULER, Sampler.DPMPP_2M, Sampler.EULER_ANCESTRAL)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", default="demo")
    parser.add_argument("--size", default="128x128")
    parser.add_argument("--seats", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--picture-size", default="64x64", help="of the many pictures")
    parser.add_argument("--cpu-devices", type=int, default=0)
    parser.add_argument("--measure-seats", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--cache", help=argparse.SUPPRESS)
    return parser.parse_args()


def offer_of(size: str) -> Offer:
    width, height = map(int, size.split("x"))
    return Offer(
        model="model",
        sizes=((width, height),),
        num_inference_steps=4,
        guidance_scale=2.2,
        sampler=Sampler.DDIM,
    )


def request_of(offer: Offer, number: int, steps: int) -> Request:
    [(width, height)] = offer.sizes
    return Request(
        prompt=f"a red circle and {number} blue stars",
        seed=number,
        num_inference_steps=steps,
        guidance_scale=1.0 if number % 3 == 0 else 2.2,
        sampler=SAMPLERS[number % len(SAMPLERS)],
        width=width,
        height=height,
        model=offer.model,
    )


def measure_seats(options: argparse.Namespace) -> Figures:
    """Open a lane with this number of seats on each device, and paint a full batch twice."""
    devices.setup_cpu(options.cpu_devices)
    mesh = devices.open_mesh()
    residency = Residency(mesh)
    arrival = residency.arrival("demo")
    checkpoint = load_checkpoint(
        options.checkpoint, dtype=options.dtype, expect=arrival.expect, put=arrival.put
    )
    executables = Executables(Path(options.cache))
    compiler = Compiler(mesh=mesh, report=lambda _line: None, executables=executables)
    offer = offer_of(options.size)
    model = LoadedModel(offer, checkpoint, compiler, residency=residency, arrival=arrival.owner)
    request = request_of(offer, 1, options.steps)
    lane = DeviceLane(
        request.lane,
        model,
        seats_per_device=options.measure_seats,
        compiler=compiler,
        start_pictures=False,
    )
    lane.reset()
    parameters = residency.taken
    for _ in range(2):
        prepared = model.prepare(request)
        lane.admit(dict.fromkeys(range(lane.seats), prepared))
        lane.denoise(dict.fromkeys(range(lane.seats), (0, prepared.evaluations)))
        assert all(picture.fetch() is not None for picture in lane.decode(range(lane.seats)).values())
    peaks = [each.memory_stats() or {} for each in mesh.devices.flat]
    return {
        "seats": lane.seats,
        "parameters": parameters / MIB,
        "held": lane.need.held / MIB,
        "working": lane.need.working / MIB,
        "together": (parameters + lane.need.held + lane.need.working) / MIB,
        "device": max(each.get("peak_bytes_in_use", 0) for each in peaks) / MIB,
        "process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def print_seats(options: argparse.Namespace) -> None:
    print(f"\n{options.checkpoint}, {options.size}, guided, {options.dtype}; MiB, of each device, and in all")
    names = ("seats", "parameters", "held", "working", "together", "device", "process")
    print(f"{'on each':>8}" + "".join(f"{name:>12}" for name in names))
    with tempfile.TemporaryDirectory() as cache:
        for seats in options.seats:
            hidden = ["--measure-seats", str(seats), "--cache", cache]
            command = [sys.executable, __file__, *sys.argv[1:], *hidden]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
            figures: Figures = json.loads(done.stdout.splitlines()[-1])
            row = "".join(f"{figures[name]:12.1f}" for name in names)
            print(f"{seats:8d}{row}", flush=True)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The memory of the process after a number of pictures."""

    pictures: int
    resident: float  # MiB
    arrays: int
    array_memory: float  # MiB


def sample(pictures: int) -> Sample:
    memory.trim()
    alive = [array for array in jax.live_arrays() if not array.is_deleted()]
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(
        pictures=pictures,
        resident=pages * os.sysconf("SC_PAGE_SIZE") / MIB,
        arrays=len(alive),
        array_memory=sum(array.nbytes for array in alive) / MIB,
    )


def paint_many(engine: Engine, offer: Offer, count: int) -> Iterator[Sample]:
    """Keep the queue full until `count` pictures have been submitted; yield a sample at intervals."""
    most = 2 * sum(engine.capacity(lane) for lane in engine.lanes)
    waiting: list[Future[Image]] = []
    for number in range(count):
        waiting.append(engine.submit(request_of(offer, number, 1 + number % 4)))
        if number % GIVEN_UP_EVERY == 0:
            engine.cancel(waiting[-1])
        if len(waiting) >= most:
            wait_for(waiting.pop(0))
        if (number + 1) % SAMPLED_EVERY == 0:
            yield sample(number + 1)
    for future in waiting:
        wait_for(future)


def wait_for(future: Future[Image]) -> None:
    try:
        future.result()
    except CancelledError:
        return


def print_growth(options: argparse.Namespace) -> None:
    offer = offer_of(options.picture_size)
    config = EngineConfig(
        models=(ModelSpec(offer=offer, source=options.checkpoint),),
        dtype=Dtype(options.dtype),
        cpu_devices=options.cpu_devices,
        start_pictures=False,
    )
    print(f"\n{options.pictures} pictures of {options.picture_size}, 1 to 4 steps, guided and not")
    print(f"{'pictures':>10}{'resident, MiB':>16}{'arrays':>10}{'arrays, MiB':>14}{'seconds':>10}")
    with Engine.open(config, report=lambda _line: None) as engine:
        engine.wait_until_ready()
        started = time.perf_counter()
        samples = []
        for each in paint_many(engine, offer, options.pictures):
            samples.append(each)
            if each.pictures % (5 * SAMPLED_EVERY) == 0 or each.pictures == SAMPLED_EVERY:
                seconds = time.perf_counter() - started
                figures = f"{each.resident:16.1f}{each.arrays:10d}{each.array_memory:14.2f}{seconds:10.0f}"
                print(f"{each.pictures:10d}{figures}", flush=True)
    later = samples[len(samples) // 2 :]
    thousands = [each.pictures / 1000 for each in later]
    slopes = {
        name: np.polyfit(thousands, [getattr(each, name) for each in later], 1)[0]
        for name in ("resident", "arrays", "array_memory")
    }
    print(
        f"growth in the later half, for each 1,000 pictures: {slopes['resident']:+.2f} MiB resident, "
        f"{slopes['arrays']:+.1f} arrays, {slopes['array_memory']:+.3f} MiB of arrays"
    )


def main() -> None:
    options = arguments()
    if options.measure_seats:
        print(json.dumps(measure_seats(options)))
        return
    print_conditions("jax", "jaxlib", "flax")
    devices.setup_cpu(options.cpu_devices)
    print(devices.report()[0])
    if options.seats:
        print_seats(options)
    if options.pictures:
        print_growth(options)


if __name__ == "__main__":
    main()

"""How often the devices wait for the host: runs that are dispatched late, and the seconds of dispatching.

    python benchmarks/accelerator_dispatch.py [--checkpoint demo] [--size 128] [--dtype bfloat16]

The figures are the engine's own, those of its metrics (`sdjax_engine_late_runs` and others). They cover waves
of requests for every seat; a first wave is not counted. A run is late if the devices had finished all earlier
work before the run or its admission was queued; the status is 1 if more than one run in ten is late. A GPU
takes a thousand launches ahead: if a run has more, the host waits for room, and dispatching lasts nearly as
long as the run. A CPU's programs count their own loops, and are dispatched by threads. A picture alone is
timed too: the first, which may be the first to use its programs, and the median of the later ones.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from conditions import print_conditions
from engine_checkpoints import checkpoint

from sdjax_engine import Dtype, Engine, EngineConfig, ModelSpec, Offer, Request, Sampler
from sdjax_engine.request import Lane

MOST_LATE = 0.1  # of all runs
LONE = 5


def main() -> None:
    options = options_given()
    print_conditions("jax", "jaxlib")
    with tempfile.TemporaryDirectory() as own:
        source = checkpoint(options.checkpoint, Path(options.room or own))
        with opened(options, source) as engine:
            engine.wait_until_ready()
            seats = engine.capacity(lane_of(options))
            paint(options, engine, seats)
            before = replace(engine.run_sums)
            begun = time.perf_counter()
            paint(options, engine, options.waves * seats)
            rate = options.waves * seats / (time.perf_counter() - begun)
            after = replace(engine.run_sums)
            first, *alone = (seconds_of_one(options, engine) for _ in range(1 + LONE))
    runs, late = after.runs - before.runs, after.late - before.late
    seconds = after.dispatching - before.dispatching, after.finishing - before.finishing
    print(f"\n{options.checkpoint}, {options.size}², {options.steps} steps, {options.dtype}, {seats} seats")
    print("\n| pictures/s | dispatching, s | running, s | runs | late | alone: first, others, s |")
    print("|---|---|---|---|---|---|")
    told = f"{seconds[0]:.3f} | {seconds[1]:.3f} | {runs} | {late} | {first:.3f}, {median(alone):.3f}"
    print(f"| {rate:.3f} | {told} |")
    if late > MOST_LATE * runs:
        raise SystemExit("the devices wait for the host: they finish a run before the next is dispatched")


def seconds_of_one(options: argparse.Namespace, engine: Engine) -> float:
    """Return the seconds of a picture that is painted alone."""
    begun = time.perf_counter()
    paint(options, engine, 1)
    return time.perf_counter() - begun


def options_given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", default="demo", help="a name of engine_checkpoints.py")
    parser.add_argument("--room", help="a folder that keeps the random checkpoints and the programs")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=5.0)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--waves", type=int, default=4)
    return parser.parse_args()


def lane_of(options: argparse.Namespace) -> Lane:
    return Lane(model="model", width=options.size, height=options.size, guided=options.guidance > 1)


def opened(options: argparse.Namespace, source: Path) -> Engine:
    """Open an engine with the one lane."""
    offer = Offer(
        model="model",
        sizes=((options.size, options.size),),
        num_inference_steps=options.steps,
        guidance_scale=options.guidance,
        sampler=Sampler.DDIM,
        prompt_chunks=1,
    )
    config = EngineConfig(
        models=(ModelSpec(offer=offer, source=str(source), safety_checker=False),),
        dtype=Dtype(options.dtype),
        lanes=(lane_of(options),),
        start_pictures=False,
        cache_dir=Path(options.room) / "cache" if options.room else None,
    )
    return Engine.open(config, report=lambda line: print(f"  {line}", flush=True))


def paint(options: argparse.Namespace, engine: Engine, pictures: int) -> None:
    """Paint so many pictures, all submitted at once."""
    requests = [
        Request(
            prompt="a red circle on a white background",
            seed=seed,
            num_inference_steps=options.steps,
            guidance_scale=options.guidance,
            sampler=Sampler.DDIM,
            width=options.size,
            height=options.size,
            model="model",
        )
        for seed in range(pictures)
    ]
    for future in [engine.submit(request) for request in requests]:
        future.result()


if __name__ == "__main__":
    main()

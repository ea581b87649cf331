"""From nothing to the first picture: a cold start, a second one with the compiled programs kept, and memory.

    python benchmarks/startup.py [--checkpoint demo] [--size 128x128] [--steps 20] [--guidance 5] [--pairs 1]

Each start is a process of its own; its time counts from before Python starts. A pair is a start with
an empty cache folder and one more with the folder as the first left it; figures are medians over pairs.
Peak memory is the process's largest resident set. `--help` names every option.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from conditions import print_conditions

from sdjax_engine.request import Offer, Request, Sampler

Figures = dict[str, float]
ROOT = Path(__file__).parents[1]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", default="demo")
    parser.add_argument("--size", default="128x128")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=5.0)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--cpu-devices", type=int, default=0)
    parser.add_argument("--seats-per-device", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--start", nargs=2, metavar=("CACHE", "BEGUN"), help=argparse.SUPPRESS)
    return parser.parse_args()


def request_of(options: argparse.Namespace) -> Request:
    width, height = map(int, options.size.split("x"))
    return Request(
        prompt="a red circle on a white background",
        seed=7,
        num_inference_steps=options.steps,
        guidance_scale=options.guidance,
        sampler=Sampler.DDIM,
        width=width,
        height=height,
        model="model",
    )


def start(options: argparse.Namespace, *, cache_dir: Path, begun: float) -> Figures:
    """Start an engine in this process and paint; seconds are counted from `begun`."""
    # The engine is loaded here, so that its loading counts, and only where it is wanted.
    from sdjax_engine.config import Dtype, EngineConfig, ModelSpec  # noqa: PLC0415
    from sdjax_engine.engine import Engine  # noqa: PLC0415

    imported = time.time()
    request = request_of(options)
    offer = Offer(
        model=request.model,
        sizes=((request.width, request.height),),
        num_inference_steps=request.num_inference_steps,
        guidance_scale=request.guidance_scale,
        sampler=request.sampler,
    )
    config = EngineConfig(
        models=(ModelSpec(offer=offer, source=options.checkpoint),),
        dtype=Dtype(options.dtype),
        seats_per_device=options.seats_per_device,
        cpu_devices=options.cpu_devices,
        cache_dir=cache_dir,
    )
    with Engine.open(config, report=tell(begun)) as engine:
        ready = time.time()
        engine.submit(request).result()
        first = time.time()
        engine.submit(request).result()
        second = time.time()
    return {
        "imported, s": imported - begun,
        "ready, s": ready - begun,
        "first picture, s": first - begun,
        "a picture alone afterwards, s": second - first,
        "processor time, s": time.process_time(),
        "peak memory, MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def tell(begun: float) -> Callable[[str], None]:
    """Prints the engine's lines with the seconds since `begun`."""
    return lambda line: print(f"  {time.time() - begun:6.1f} s  {line}", file=sys.stderr, flush=True)


def start_apart(cache_dir: Path) -> Figures:
    """Do the same in a fresh process and return its figures."""
    command = [sys.executable, __file__, *sys.argv[1:], "--start", str(cache_dir), repr(time.time())]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    figures: Figures = json.loads(finished.stdout.splitlines()[-1])
    return figures


def main() -> None:
    options = arguments()
    if options.start:
        cache, begun = options.start
        print(json.dumps(start(options, cache_dir=Path(cache), begun=float(begun))))
        return
    print_conditions("jax", "jaxlib", "flax")
    print(f"conditions: {', '.join(f'{name} {value}' for name, value in vars(options).items() if value)}")
    pairs = []
    for _ in range(options.pairs):
        with tempfile.TemporaryDirectory() as folder:
            pairs.append((start_apart(Path(folder)), start_apart(Path(folder))))
    print(f"{'':32}{'cold':>10}{'again':>10}")
    for name in pairs[0][0]:
        cold, again = (statistics.median(pair[which][name] for pair in pairs) for which in (0, 1))
        print(f"{name:32}{cold:10.2f}{again:10.2f}")


if __name__ == "__main__":
    main()

"""The time from process start to the first picture: cold, second start, after an upgrade; and memory.

    python benchmarks/startup.py [--checkpoint demo] [--size 128x128] [--steps 20] [--guidance 5] [--rounds 1]
    python benchmarks/startup.py --removed [--rounds 1]

Each start is a new process; its time counts from before Python starts. A round is

cold     a start with an empty cache folder
second   a start with the cache folder of the first: weights and executables are cached
upgrade  a start that finds executables only by their lowered programs, as after a change of the code
removed  with `--removed`: the removed Flax pipeline, from its process's start to its first picture

and figures are medians over rounds. The removed pipeline supports only norms of 32 groups; for the comparison
all paint with a random checkpoint of the demo's form and size with such norms. The removed pipeline runs in
the environment that `legacy_flax.py` builds. Peak memory is the process's largest resident set. `--help`
names every option.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import legacy_flax
from conditions import print_conditions

from bot.process.memory import collect_rarely
from sdjax_engine.request import Offer, Request, Sampler

Figures = dict[str, float]
HERE, ROOT = Path(__file__).parent, Path(__file__).parents[1]
FIRST = "first picture, s"


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
    parser.add_argument("--fitted-programs", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--removed", action="store_true", help="the removed Flax pipeline too")
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
    # The engine is imported here, so that its import counts, and only in the process that starts it.
    collect_rarely()  # as in the command line
    from sdjax_engine import Dtype, Engine, EngineConfig, ModelSpec  # noqa: PLC0415

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
        fitted_programs=options.fitted_programs,
    )
    with Engine.open(config, report=tell(begun)) as engine:
        ready = time.time()
        engine.submit(request).result()
        first, worked = time.time(), time.process_time()
        engine.wait_until_ready()
        everything = time.time()
        engine.submit(request).result()
        again = time.time() - everything
    return {
        "imported, s": imported - begun,
        "ready for that picture, s": ready - begun,
        FIRST: first - begun,
        "processor time until then, s": worked,
        "everything ready, s": everything - begun,
        "a picture alone afterwards, s": again,
        "processor time of it all, s": time.process_time(),
        "peak memory, MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def tell(begun: float) -> Callable[[str], None]:
    """Return a function that prints the engine's lines with the seconds since `begun`."""
    return lambda line: print(f"  {time.time() - begun:6.1f} s  {line}", file=sys.stderr, flush=True)


def start_apart(cache_dir: Path, checkpoint: str) -> Figures:
    """Run `start` in a new process and return its figures."""
    begun = repr(time.time())
    own = ["--checkpoint", checkpoint, "--start", str(cache_dir), begun]
    finished = subprocess.run(
        [sys.executable, __file__, *sys.argv[1:], *own],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    )
    figures: Figures = json.loads(finished.stdout.splitlines()[-1])
    return figures


def start_removed(options: argparse.Namespace, folder: Path) -> Figures:
    """Return the figures of the removed pipeline's first picture, in a new process of its environment."""
    arguments = {"num_inference_steps": options.steps, "guidance_scale": options.guidance}
    case = legacy_flax.Case(checkpoint="demo", scheduler="DDIM", arguments=arguments)
    begun = time.time()
    painter = legacy_flax.PainterProcess(legacy_flax.environment(), "diffusers", folder)
    painter.paint(case, {"demo": options.checkpoint})
    seconds = time.time() - begun
    painter.close()
    return {FIRST: seconds}


def play_round(options: argparse.Namespace, folder: Path) -> dict[str, Figures]:
    """Make each kind of start once."""
    cache = folder / "cache"
    figures = {name: start_apart(cache, options.checkpoint) for name in ("cold", "second")}
    for file in (cache / "programs").iterdir():
        if not file.name.startswith("lowered-"):
            file.unlink()
    figures["upgrade"] = start_apart(cache, options.checkpoint)
    if options.removed:
        figures["removed"] = start_removed(options, folder)
    return figures


def main() -> None:
    options = arguments()
    if options.start:
        cache, begun = options.start
        print(json.dumps(start(options, cache_dir=Path(cache), begun=float(begun))))
        return
    print_conditions("jax", "jaxlib", "flax")
    with tempfile.TemporaryDirectory() as name:
        if options.removed:
            options.checkpoint = legacy_flax.make_checkpoints(Path(name), {"demo"})["demo"]
            convert = HERE / "legacy_flax_convert.py"
            subprocess.run([legacy_flax.environment(), convert, options.checkpoint], check=True)
        told = {key: value for key, value in vars(options).items() if value}
        print(f"conditions: {', '.join(f'{key} {value}' for key, value in told.items())}")
        print(f"load {os.getloadavg()[0]:.1f} at the start")
        rounds = []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                rounds.append(play_round(options, Path(folder)))
    show(rounds)


def show(rounds: Sequence[dict[str, Figures]]) -> None:
    """Print the medians, and the second start's ratios to the cold start and to the removed pipeline."""
    ways = list(rounds[0])
    print(f"{'':32}" + "".join(f"{way:>10}" for way in ways))
    medians = {
        (way, name): statistics.median(each[way][name] for each in rounds)
        for way in ways
        for name in rounds[0][way]
    }
    for name in rounds[0]["cold"]:
        cells = (f"{medians[way, name]:10.2f}" if (way, name) in medians else f"{'':10}" for way in ways)
        print(f"{name:32}" + "".join(cells))
    for way in ("cold", "removed"):
        if (way, FIRST) in medians:
            print(f"second to {way}, first picture: {medians['second', FIRST] / medians[way, FIRST]:.3f}")


if __name__ == "__main__":
    main()

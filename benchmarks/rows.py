"""What programs that fit their runs gain: pictures in a lane, full or not, with fitted programs and without.

    python benchmarks/rows.py [--seats 4] [--fills 1 2 3 4] [--size 128] [--steps 20] [--rounds 5]
                              [--kinds guided unguided interval mixed lora] [--folder FOLDER]

Two engines are open in one process, on one CPU device of `--seats` seats, with the same weights and settings
but `fitted_programs`. They paint in turns, as many pictures at once as a fill says. “Times” is the median of
the seconds without ÷ the seconds with fitted programs, of the clock and of the processor; above 1 the fitted
programs are faster. “Differ” is the largest difference of a picture's values, of 255, and how many pictures
are bit-equal. The kinds of pictures: with guidance, without, with guidance in the first 60 % of the steps,
with and without in turns, and with guidance where the first picture uses a random LoRA of rank 16 for the
attention. The model offers the LoRA only with the last kind.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from conditions import Stolen, print_conditions
from engine_checkpoints import checkpoint
from safetensors.numpy import save_file

from sdjax_engine import Dtype, Engine, EngineConfig, ModelSpec, Offer, Request, Sampler
from sdjax_engine.model.loras import components_of, shapes_of
from sdjax_engine.request import WHOLE, Lora
from sdjax_engine.weights import load_checkpoint

RANK = 16
ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")
NAME = "random"
INTERVAL = (0.0, 0.6)
KINDS = ("guided", "unguided", "interval", "mixed", "lora")


@dataclass(frozen=True, kw_only=True)
class Painted:
    """Some pictures that were painted at once: pixels, and seconds of the clock and of the processor."""

    clock: float
    processor: float
    pixels: Sequence[npt.NDArray[np.uint8]] = field(repr=False)


def main() -> None:
    options = options_given()
    print_conditions("jax", "jaxlib")
    print(f"medians of {options.rounds} rounds; load {os.getloadavg()[0]:.1f} at the start")
    stolen = Stolen()
    with (
        tempfile.TemporaryDirectory() as room,
        opened(options, Path(options.folder or room), fitted=True) as fitted,
        opened(options, Path(options.folder or room)) as one,
    ):
        for engine in (fitted, one):
            engine.wait_until_ready()
        print("\n| pictures | kind | clock, s | times | processor, s | times | differ, bit-equal |")
        print("|---|---|---|---|---|---|---|")
        for kind in options.kinds:
            for fill in options.fills if kind != "mixed" else [each for each in options.fills if each > 1]:
                print(compared(options, fitted, one, fill, kind), flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end; others took {stolen.share():.1%}")


def options_given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", default="demo", help="a name of engine_checkpoints.py")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--seats", type=int, default=4)
    parser.add_argument("--fills", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=2.2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where compiled programs are kept for the next call")
    parser.add_argument("--kinds", nargs="+", default=KINDS[:-1], choices=KINDS)
    return parser.parse_args()


def opened(options: argparse.Namespace, room: Path, *, fitted: bool = False) -> Engine:
    """Open an engine; the second one finds the programs of the first on the disk."""
    source = checkpoint(options.checkpoint, room)
    loras = {NAME: random_lora(source, room)} if "lora" in options.kinds else {}
    offer = Offer(
        model="model",
        sizes=((options.size, options.size),),
        num_inference_steps=options.steps,
        guidance_scale=options.guidance,
        sampler=Sampler.DDIM,
        loras=tuple(loras),
    )
    config = EngineConfig(
        models=(ModelSpec(offer=offer, source=str(source), loras=loras, lora_rank=RANK),),
        dtype=Dtype(options.dtype),
        cpu_devices=1,
        seats_per_device=options.seats,
        cache_dir=room / "cache",
        lanes=tuple({request_of(options, 1, kind).lane: None for kind in ("guided", *options.kinds)}),
        start_pictures=False,
        fitted_programs=fitted,
    )
    return Engine.open(config, report=lambda line: print(f"  {line}", flush=True))


def random_lora(source: Path, room: Path) -> Path:
    """Write a LoRA with random factors for the UNet's attention."""
    chance, tensors = np.random.default_rng(0), dict[str, npt.NDArray[np.float32]]()
    shapes = shapes_of(components_of(load_checkpoint(str(source))))
    for place, shape in shapes.items():
        if place.component == "unet" and place.path.endswith(ATTENTION):
            for name, (high, wide) in (("A", (RANK, shape.width_in)), ("B", (shape.width_out, RANK))):
                values = chance.normal(0.0, 0.02, (high, wide)).astype(np.float32)
                tensors[f"unet.{place.path}.lora_{name}.weight"] = values
    save_file(tensors, room / "random.safetensors")
    return room / "random.safetensors"


def request_of(options: argparse.Namespace, seed: int, kind: str, *, first: bool = False) -> Request:
    """Return a request of a kind; of mixed pictures, those with even seeds are guided."""
    guided = kind != "unguided" and (kind != "mixed" or seed % 2 == 0)
    return Request(
        prompt="a red circle on a white background",
        seed=seed,
        num_inference_steps=options.steps,
        guidance_scale=options.guidance if guided else 1.0,
        guidance_interval=INTERVAL if kind == "interval" else WHOLE,
        sampler=Sampler.DDIM,
        width=options.size,
        height=options.size,
        model="model",
        loras=(Lora(name=NAME),) if kind == "lora" and first else (),
    )


def compared(options: argparse.Namespace, fitted: Engine, one: Engine, fill: int, kind: str) -> str:
    """Return the line of the table for so many pictures of a kind at once."""
    rounds = []
    for number in range(options.rounds + 1):
        requests = [
            request_of(options, 2 * number * fill + index, kind, first=not index) for index in range(fill)
        ]
        both = {}
        for engine in (fitted, one) if number % 2 else (one, fitted):
            both[engine] = painted(engine, requests)
        rounds.append((both[fitted], both[one]))
    pairs = [pair for ours, theirs in rounds for pair in zip(ours.pixels, theirs.pixels, strict=True)]
    differ = max(int(np.abs(ours.astype(int) - theirs.astype(int)).max()) for ours, theirs in pairs)
    equal = sum(np.array_equal(ours, theirs) for ours, theirs in pairs)
    del rounds[0]  # the first call of anything takes longer
    clock = median_of([(ours.clock, theirs.clock) for ours, theirs in rounds])
    processor = median_of([(ours.processor, theirs.processor) for ours, theirs in rounds])
    return (
        f"| {fill} of {options.seats} | {kind} "
        f"| {clock[0]:.3f} beside {clock[1]:.3f} | **{clock[2]:.2f}** "
        f"| {processor[0]:.3f} beside {processor[1]:.3f} | {processor[2]:.2f} "
        f"| {differ}, {equal} of {len(pairs)} |"
    )


def painted(engine: Engine, requests: Sequence[Request]) -> Painted:
    """Paint these pictures at once."""
    clock, processor = time.perf_counter(), time.process_time()
    pictures = [future.result() for future in [engine.submit(request) for request in requests]]
    return Painted(
        clock=time.perf_counter() - clock,
        processor=time.process_time() - processor,
        pixels=[picture.pixels for picture in pictures],
    )


def median_of(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the medians of the seconds with and without fitted programs, and of their ratio."""
    ours, theirs = zip(*pairs, strict=True)
    ratio = statistics.median(other / own for own, other in pairs)
    return statistics.median(ours), statistics.median(theirs), ratio


if __name__ == "__main__":
    main()

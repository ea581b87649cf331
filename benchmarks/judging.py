"""What judging adds to a picture: a ViT classifier on the engine's devices, and the perceptual hash.

    python benchmarks/judging.py [--checkpoint mid] [--side 512] [--steps 20 2] [--pictures 2] [--rounds 3]

The classifier has the size of common classifiers of harmful pictures, ViT-B/16 at 224² with 86 M parameters,
and random weights. `mid` is the network of the CPU's table in `engine.py`. Two engines with the same model
take turns, one of them with the classifier; its pictures are hashed in addition, as a worker does. Printed
are the ratios of the pairs, of the clock and of the processor's time of all threads, and the time of each
part alone. The classifier and the hash cost the same for any number of steps: fewer steps, a larger share.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from conditions import Stolen, print_conditions
from engine_checkpoints import checkpoint
from loading import write_tensors
from preview import spread

from bot.domain.hashes import hash_of_pixels
from sdjax_engine import Engine, EngineConfig, ModelSpec, Offer, Request, Sampler
from sdjax_engine.models.config import CLASSIFIER as VIT
from sdjax_engine.models.config import LABELS
from sdjax_engine.request import Lane
from sdjax_engine.weights.networks import Part, settle_config
from sdjax_engine.weights.tensors import reference_shape

MODEL = "model"
GUIDANCE = 7.5
NAMES = ("normal", "suggestive", "explicit", "gore")
SEVERAL = 9
GOAL = 1.03


@dataclass(frozen=True, kw_only=True)
class JudgedWork:
    """The pictures of half a pair."""

    side: int
    steps: int
    pictures: int

    def request(self, seed: int) -> Request:
        """Return the request of one picture."""
        return Request(
            prompt="a red circle on a white background",
            seed=seed,
            num_inference_steps=self.steps,
            guidance_scale=GUIDANCE,
            sampler=Sampler.DDIM,
            height=self.side,
            width=self.side,
            model=MODEL,
        )


@dataclass(frozen=True, kw_only=True)
class JudgedTime:
    """Seconds of the clock and of the processor, of one picture."""

    clock: float
    processor: float


def write_classifier(folder: Path) -> Path:
    """Write a ViT-B/16 of random weights and return its folder."""
    folder.mkdir()
    config = {
        "architectures": [VIT],
        "model_type": "vit",
        LABELS: {str(number): name for number, name in enumerate(NAMES)},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps({"size": {"height": 224, "width": 224}}))
    part = Part(model=VIT, config=settle_config(VIT, config, origin=VIT), stored={}, origin=VIT)
    wanted = part.wanted
    shapes = {key: reference_shape(each.shape, each.leaf) for key, each in wanted.items()}
    write_tensors(folder / "model.safetensors", shapes, "float32", np.random.default_rng(0))
    return folder


def opened(source: Path, work: JudgedWork, *, cache: Path, classifier: Path | None) -> Engine:
    """Open an engine with one model and one lane."""
    offer = Offer(
        model=MODEL,
        sizes=((work.side, work.side),),
        num_inference_steps=work.steps,
        guidance_scale=GUIDANCE,
        sampler=Sampler.DDIM,
        prompt_chunks=1,
    )
    spec = ModelSpec(
        offer=offer,
        source=str(source),
        safety_checker=False,
        picture_classifier=None if classifier is None else str(classifier),
    )
    lane = Lane(model=MODEL, width=work.side, height=work.side, guided=True)
    config = EngineConfig(models=(spec,), lanes=(lane,), start_pictures=False, cache_dir=cache)
    return Engine.open(config, report=lambda _line: None)


def paint(engine: Engine, work: JudgedWork, *, judged: bool) -> JudgedTime:
    """Paint the pictures; those that are judged are hashed too."""
    began, worked = time.perf_counter(), time.process_time()
    for future in [engine.submit(work.request(seed)) for seed in range(work.pictures)]:
        image = future.result()
        if judged != (image.classified is not None):
            raise RuntimeError("the classifier judged pictures of the wrong engine")
        if judged:
            hash_of_pixels(image.pixels)
    return JudgedTime(
        clock=(time.perf_counter() - began) / work.pictures,
        processor=(time.process_time() - worked) / work.pictures,
    )


def compare(plain: Engine, judging: Engine, work: JudgedWork, rounds: int) -> None:
    """Print the ratios of the pairs; in every second pair the engine with the classifier is first."""
    engines = {False: plain, True: judging}
    for judged, engine in engines.items():
        paint(engine, work, judged=judged)
    pairs: list[dict[bool, JudgedTime]] = []
    for turn in range(rounds):
        order = (False, True) if turn % 2 == 0 else (True, False)
        pairs.append({judged: paint(engines[judged], work, judged=judged) for judged in order})
        print(
            f"{work.steps} steps, pair {turn + 1}: "
            + "; ".join(told(pairs[-1][judged], judged) for judged in (False, True)),
            flush=True,
        )
    clock = [pair[True].clock / pair[False].clock for pair in pairs]
    processor = [pair[True].processor / pair[False].processor for pair in pairs]
    met = "met" if statistics.median(processor) <= GOAL else "missed"
    print(
        f"{work.side}², {work.steps} steps: {spread(clock)} of the clock, "
        f"{spread(processor)} of the processor's time; goal {GOAL}: {met}",
        flush=True,
    )


def told(measured: JudgedTime, judged: bool) -> str:
    name = "judged" if judged else "plain"
    return f"{name} {measured.clock:.2f} s, processor {measured.processor:.2f} s a picture"


def print_parts(judging: Engine, side: int) -> None:
    """Print the time of the classifier and of the hash alone."""
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    parts: dict[str, Callable[[], object]] = {
        "the classifier, a picture alone": lambda: judging.judge(MODEL, pixels),
        "the hash": lambda: hash_of_pixels(pixels),
    }
    for name, part in parts.items():
        part()
        clock, processor = [], []
        for _ in range(SEVERAL):
            began, worked = time.perf_counter(), time.process_time()
            part()
            clock.append(1000 * (time.perf_counter() - began))
            processor.append(1000 * (time.process_time() - worked))
        print(
            f"{name}, {side}²: {statistics.median(clock):.0f} ms, "
            f"processor {statistics.median(processor):.0f} ms"
        )


def main() -> None:
    """Print the conditions, the ratios and the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkpoint", default="mid", help="mid, demo, sd15, or a folder")
    parser.add_argument("--side", type=int, default=512, help="of the pictures, in pixels")
    parser.add_argument("--steps", type=int, nargs="+", default=[20, 2])
    parser.add_argument("--pictures", type=int, default=2, help="of half a pair")
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    print_conditions("jax", "jaxlib", "imagehash")
    stolen = Stolen()
    works = [JudgedWork(side=wanted.side, steps=steps, pictures=wanted.pictures) for steps in wanted.steps]
    work = works[0]
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        named = wanted.checkpoint in ("mid", "demo", "sd15")
        source = checkpoint(wanted.checkpoint, room) if named else Path(wanted.checkpoint)
        classifier = write_classifier(room / "classifier")
        with (
            opened(source, work, cache=room / "cache", classifier=None) as plain,
            opened(source, work, cache=room / "cache", classifier=classifier) as judging,
        ):
            print(f"{wanted.checkpoint}, {work.side}², {work.pictures} pictures in half a pair", flush=True)
            print_parts(judging, work.side)
            for each in works:
                compare(plain, judging, each, wanted.rounds)
    print(f"{stolen.share():.0%} of the processors was stolen by other machines")


if __name__ == "__main__":
    main()

"""How often the demo checkpoint paints its captions: 300 captions that the training never used.

    python benchmarks/demo_checkpoint.py [--captions 300] [--sampler ddim] [--steps 20] [--sheet FILE]

The engine paints with the demo's default settings unless options change them. `sdjax_engine.demo.checker`
checks the pictures. It also checks the drawn pictures of the same captions: that score is the upper bound.
`--help` names every option.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from conditions import print_conditions
from PIL import Image

from bot.config import ModelConfig
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.demo.checker import Finding, Pixels, check
from sdjax_engine.demo.scenes import Scene, draw, sample_scene
from sdjax_engine.engine import Engine
from sdjax_engine.images import make_grid
from sdjax_engine.request import Request
from sdjax_engine.sampler_aliases import parse_sampler

GOALS = {"background": 0.97, "colour in its place": 0.90, "shape": 0.80}


@dataclass(frozen=True, kw_only=True)
class Score:
    """The fractions of right backgrounds, of things of right colour or shape, and of all-right pictures."""

    background: float
    colour: float
    shape: float
    everything: float

    @classmethod
    def of(cls, findings: list[Finding]) -> Score:
        """Return the score of these findings."""
        return cls(
            background=float(np.mean([finding.background for finding in findings])),
            colour=float(np.mean([right for finding in findings for right in finding.colours])),
            shape=float(np.mean([right for finding in findings for right in finding.shapes])),
            everything=float(np.mean([finding.all_right for finding in findings])),
        )


def held_out_scenes(count: int, seed: int) -> list[Scene]:
    """Return `count` different scenes that the training never used."""
    rng = np.random.default_rng(seed)
    scenes: dict[str, Scene] = {}
    while len(scenes) < count:
        scene = sample_scene(rng, held_out=True)
        scenes.setdefault(scene.caption, scene)
    return list(scenes.values())


def painted(scenes: list[Scene], options: argparse.Namespace) -> list[Pixels]:
    """Paint every scene's caption, each with its own seed."""
    offer = ModelConfig().offer
    width, height = offer.sizes[0]
    requests = [
        Request(
            prompt=scene.caption,
            seed=options.seed + index,
            num_inference_steps=options.steps or offer.num_inference_steps,
            guidance_scale=options.guidance or offer.guidance_scale,
            sampler=parse_sampler(options.sampler) if options.sampler else offer.sampler,
            width=width,
            height=height,
            model=offer.model,
        )
        for index, scene in enumerate(scenes)
    ]
    shown = requests[0]
    print(
        f"{len(scenes)} held-out captions, seeds {options.seed}..{options.seed + len(scenes) - 1}, "
        f"{shown.sampler}, {shown.num_inference_steps} steps, guidance {shown.guidance_scale}"
    )
    config = EngineConfig(models=(ModelSpec(offer=offer, source=options.checkpoint),))
    with Engine.open(config, report=print) as engine:
        engine.wait_until_ready()
        start = time.perf_counter()
        pictures = [future.result().pixels for future in [engine.submit(request) for request in requests]]
        print(f"{(time.perf_counter() - start) / len(scenes):.3f} s a picture")
    return pictures


def main() -> None:
    """Print the scores, and whether each goal is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", default="demo")
    parser.add_argument("--captions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--guidance", type=float)
    parser.add_argument("--sampler")
    parser.add_argument("--sheet", type=Path, help="write the first 40 pictures to this file")
    options = parser.parse_args()
    print_conditions("jax", "jaxlib", "flax")
    scenes = held_out_scenes(options.captions, options.seed)
    pictures = painted(scenes, options)
    rng = np.random.default_rng(options.seed)
    score = Score.of([check(picture, scene) for picture, scene in zip(pictures, scenes, strict=True)])
    best = Score.of([check(np.asarray(draw(scene, rng)), scene) for scene in scenes])
    print("right               painted   drawn   goal")
    reached = zip(GOALS.items(), (score.background, score.colour, score.shape), strict=True)
    drawn = (best.background, best.colour, best.shape)
    for ((name, goal), value), limit in zip(reached, drawn, strict=True):
        verdict = "met" if value >= goal else "NOT MET"
        print(f"{name:20}{value:7.1%} {limit:7.1%} {goal:6.0%}  {verdict}")
    print(f"{'everything':20}{score.everything:7.1%} {best.everything:7.1%}")
    if options.sheet:
        make_grid([Image.fromarray(picture) for picture in pictures[:40]], 5, 8).save(options.sheet)


if __name__ == "__main__":
    main()

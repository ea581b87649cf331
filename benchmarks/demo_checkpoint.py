"""How often the demo checkpoint paints its captions: 500 captions that the training never used.

    python benchmarks/demo_checkpoint.py --sprites FOLDER [--checkpoint FOLDER] [--languages en,ko,zh,ar]
    python benchmarks/demo_checkpoint.py --kind shapes

The engine paints with the demo's default settings unless options change them. `sdjax_engine.demo.checker`
checks the pictures. It also checks the drawn pictures of the same captions: that score is the upper bound.
The pictures of the objects lie in FOLDER/sprites of a training; `--kind shapes` needs none. `--card FOLDER`
writes pictures for the card: drawn beside painted, and the ten worst. `--help` names every option.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from conditions import print_conditions
from PIL import Image

from bot.config import ModelConfig
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.demo.captions import caption
from sdjax_engine.demo.checker import Finding, check
from sdjax_engine.demo.drawing import Pixels, Size, Sprites, draw
from sdjax_engine.demo.objects import LANGUAGES, Language
from sdjax_engine.demo.scenes import Scene, sample_scene
from sdjax_engine.engine import Engine
from sdjax_engine.images import make_grid
from sdjax_engine.request import Offer, Request
from sdjax_engine.sampler_names import parse_sampler

GOALS = {"all": 0.90, "one thing": 0.97}
LANGUAGE_GOAL = 0.85
SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A painted scene and its drawn picture, each with what the checker found."""

    scene: Scene
    painted: Pixels
    drawn: Pixels
    found: Finding
    bound: Finding

    @property
    def badness(self) -> tuple[int, float]:
        """How many parts are wrong, then how far the picture is from the drawn one."""
        wrong = [self.found.ground, self.found.style, *self.found.things].count(False)
        return wrong, float(np.square(self.painted.astype(float) - self.drawn).mean())


def held_out_scenes(count: int, seed: int, *, shapes: bool) -> list[Scene]:
    """Return `count` different scenes that the training never used."""
    rng = np.random.default_rng(seed)
    scenes: dict[Scene, None] = {}
    while len(scenes) < count:
        scene = sample_scene(rng, held_out=True, shapes_only=shapes)
        if not shapes or scene.of_plain_shapes:
            scenes.setdefault(scene)
    return list(scenes)


def painted(engine: Engine, prompts: list[str], offer: Offer, options: argparse.Namespace) -> list[Pixels]:
    """Paint every prompt, each with its own seed."""
    width, height = offer.sizes[0]
    requests = [
        Request(
            prompt=prompt,
            seed=options.seed + index,
            num_inference_steps=options.steps or offer.num_inference_steps,
            guidance_scale=options.guidance or offer.guidance_scale,
            sampler=parse_sampler(options.sampler) if options.sampler else offer.sampler,
            width=width,
            height=height,
            model=offer.model,
        )
        for index, prompt in enumerate(prompts)
    ]
    shown = requests[0]
    print(
        f"{len(prompts)} held-out captions, seeds {options.seed}..{options.seed + len(prompts) - 1}, "
        f"{width}x{height}, {shown.sampler}, {shown.num_inference_steps} steps, "
        f"guidance {shown.guidance_scale}"
    )
    start, worked = time.perf_counter(), time.process_time()
    pictures = [future.result().pixels for future in [engine.submit(request) for request in requests]]
    each = (time.perf_counter() - start) / len(prompts)
    print(f"{each:.3f} s a picture, {(time.process_time() - worked) / len(prompts):.3f} s of a core")
    return pictures


def drawn_and_checked(scenes: list[Scene], sprites: Sprites, size: Size) -> list[tuple[Pixels, Finding]]:
    """Draw every scene, and check the drawn picture."""
    rng = np.random.default_rng(0)
    drawn = [np.asarray(draw(scene, sprites, rng, size=size)) for scene in scenes]
    return [(picture, check(picture, scene, sprites)) for picture, scene in zip(drawn, scenes, strict=True)]


def judged(
    scenes: list[Scene], pictures: list[Pixels], bounds: list[tuple[Pixels, Finding]], sprites: Sprites
) -> list[Judged]:
    """Check every painted picture; `bounds` are the drawn ones."""
    return [
        Judged(scene=scene, painted=picture, drawn=drawn, found=check(picture, scene, sprites), bound=bound)
        for scene, picture, (drawn, bound) in zip(scenes, pictures, bounds, strict=True)
    ]


KINDS: dict[str, Callable[[Scene], bool]] = {
    "all": lambda _: True,
    "one thing": lambda scene: len(scene.placed) == 1,
    "two things": lambda scene: len(scene.placed) == 2,
    "three things": lambda scene: len(scene.placed) == 3,
    "no style": lambda scene: not scene.style,
    "black and white": lambda scene: scene.style == "black and white",
    "pixel art": lambda scene: scene.style == "pixel art",
    "pencil sketch": lambda scene: scene.style == "pencil sketch",
    "blueprint": lambda scene: scene.style == "blueprint",
}


def print_table(language: Language, done: list[Judged]) -> None:
    """Print a table in Markdown: how many pictures of each kind are right in everything."""
    print(f"\n| {language}: everything right | captions | painted | drawn | goal |\n|---|---|---|---|---|")
    for kind, is_of_kind in KINDS.items():
        of_kind = [each for each in done if is_of_kind(each.scene)]
        if of_kind:
            right = np.mean([each.found.all_right for each in of_kind])
            most = np.mean([each.bound.all_right for each in of_kind])
            goal = GOALS.get(kind) if language == "en" else LANGUAGE_GOAL if kind == "all" else None
            verdict = f"{goal:.0%}, {'met' if right >= goal else 'NOT MET'}" if goal else ""
            print(f"| {kind} | {len(of_kind)} | {right:.1%} | {most:.1%} | {verdict} |")
    for part in ("ground", "style"):
        right = np.mean([getattr(each.found, part) for each in done])
        print(f"| {part} alone | {len(done)} | {right:.1%} | | |")
    things = [right for each in done for right in each.found.things]
    print(f"| each thing alone | {len(things)} | {np.mean(things):.1%} | | |")


def write_card(folder: Path, done: list[Judged]) -> None:
    """Write the first pictures, each beside its drawn one, and the worst ones."""
    folder.mkdir(parents=True, exist_ok=True)
    worst = sorted(done, key=lambda each: each.badness, reverse=True)[:10]
    for name, chosen in (("drawn_beside_painted", done[:SHOWN]), ("worst", worst)):
        pairs = [Image.fromarray(np.hstack([each.drawn, each.painted])) for each in chosen]
        make_grid(pairs, -(-len(pairs) // 5), 5).save(folder / f"{name}.webp", quality=80)
        lines = [f"{caption(each.scene)}: {each.found}" for each in chosen]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Print the scores, and whether each goal is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", default="demo")
    parser.add_argument("--sprites", type=Path, help="the folder with the pictures of the objects")
    parser.add_argument("--kind", choices=("all", "shapes"), default="all")
    parser.add_argument("--languages", default="en", help=f"some of {','.join(LANGUAGES)}")
    parser.add_argument("--captions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--size", help="width x height, such as 128x128")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--guidance", type=float)
    parser.add_argument("--sampler")
    parser.add_argument("--card", type=Path, help="write pictures for the card into this folder")
    options = parser.parse_args()
    if options.kind == "all" and options.sprites is None:
        parser.error("--sprites is needed: only --kind shapes can be judged without the objects' pictures")
    print_conditions("jax", "jaxlib", "flax")
    scenes = held_out_scenes(options.captions, options.seed, shapes=options.kind == "shapes")
    offer = ModelConfig(sizes=(options.size or ModelConfig().sizes[0],)).offer
    sprites = Sprites(options.sprites)
    bounds = drawn_and_checked(scenes, sprites, offer.sizes[0])
    config = EngineConfig(models=(ModelSpec(offer=offer, source=options.checkpoint),))
    with Engine.open(config, report=print) as engine:
        engine.wait_until_ready()
        for language in [each for each in LANGUAGES if each in options.languages.split(",")]:
            pictures = painted(engine, [caption(scene, language) for scene in scenes], offer, options)
            done = judged(scenes, pictures, bounds, sprites)
            print_table(language, done)
            if options.card and language == "en":
                write_card(options.card, done)


if __name__ == "__main__":
    main()

"""`sdjax-bot imagine`: one checkpoint, one recipe, one file; no Discord, no queue."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bot.config import ModelConfig
from bot.delivery.pictures import combine
from bot.jobs import MAX_VARIANTS, Recipe
from sdjax_engine.config import Dtype, EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png
from sdjax_engine.request import (
    MAX_SEED,
    Image,
    InvalidRequest,
    Offer,
    Request,
    Sampler,
    UnreadableCheckpoint,
    parse_sampler,
)
from sdjax_engine.samplers import default_sampler
from sdjax_engine.weights.files import DEMO, find_folder, read_json

REFERENCE_STEPS = 50  # the defaults of the reference pipeline's call
REFERENCE_GUIDANCE = 7.5
LATENT_SIDE = 64  # the reference UNet's `sample_size` where its config names none
WORST_FILE_NUMBER = 10_000


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the command line asks for; None is the checkpoint's default."""

    prompt: str
    negative_prompt: str = ""
    seed: int | None = None
    variants: int = 1
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    sampler: str | None = None
    size: tuple[int, int] | None = None
    source: str = DEMO
    revision: str | None = None
    variant: str | None = None


@dataclass(frozen=True, kw_only=True)
class Painted:
    """The file that was written, what is in it, and the seconds that each part took."""

    file: Path
    recipe: Recipe
    timings: dict[str, float]

    def as_json(self) -> str:
        """The account for other programs."""
        recipe = asdict(self.recipe)
        seeds = [self.recipe.request(index).seed for index in range(self.recipe.variants)]
        answer = {"files": [str(self.file)], "seeds": seeds, "recipe": recipe, "timings": self.timings}
        return json.dumps(answer, ensure_ascii=False, indent=2)


def imagine(
    wish: Wish, *, output: Path | None, cache_dir: Path | None, report: Callable[[str], None]
) -> Painted:
    """Paint `wish` into `output`, or into a file named after model and seed in the current folder.

    Raises InvalidRequest, UnreadableCheckpoint, PaintingFailed, or OSError for a file that cannot be
    written, which is found out before anything is painted.
    """
    started = time.perf_counter()
    offer = offer_of(wish)
    recipe = recipe_of(wish, offer)
    if output is not None:
        check_writable(output)
    spec = ModelSpec(offer=offer, source=wish.source, revision=wish.revision, variant=wish.variant)
    config = EngineConfig(models=(spec,), dtype=Dtype.FLOAT32, cache_dir=cache_dir, lanes=(recipe.lane,))
    engine = Engine.open(config, report=report)
    try:
        ready = time.perf_counter()
        images = paint(engine, [recipe.request(index) for index in range(recipe.variants)])
        painted = time.perf_counter()
    finally:
        engine.close(drain=False)
    pngs = [encode_png(image.pixels, image.request) for image in images]
    data = combine(pngs, recipe.request(0), {})
    file = output or free_name(recipe, data)
    file.write_bytes(data)
    timings = {"load": ready - started, "paint": painted - ready, "total": time.perf_counter() - started}
    return Painted(
        file=file, recipe=recipe, timings={name: round(seconds, 3) for name, seconds in timings.items()}
    )


def offer_of(wish: Wish) -> Offer:
    """What the checkpoint takes: of the demo its own settings, of others what their configs say.

    `sizes` holds only the wanted size, since every size offered is compiled.
    """
    if wish.source == DEMO:
        offer = ModelConfig().offer
        if wish.size is not None and wish.size not in offer.sizes:
            choices = ", ".join(f"{width}x{height}" for width, height in offer.sizes)
            raise InvalidRequest("size", model=DEMO, value=f"{wish.size[0]}x{wish.size[1]}", choices=choices)
        return offer
    folder = find_folder(wish.source, revision=wish.revision, variant=wish.variant)
    return Offer(
        model=Path(wish.source).name or folder.name,
        sizes=(wish.size or native_size(folder),),
        num_inference_steps=REFERENCE_STEPS,
        guidance_scale=REFERENCE_GUIDANCE,
        sampler=default_sampler(read_json(folder / "scheduler" / "scheduler_config.json")),
    )


def native_size(folder: Path) -> tuple[int, int]:
    """The (width, height) in pixels that the checkpoint in `folder` was trained for."""
    side = read_json(folder / "unet" / "config.json").get("sample_size") or LATENT_SIDE
    blocks = read_json(folder / "vae" / "config.json").get("block_out_channels") or (64,)
    try:
        height, width = side if isinstance(side, list) else (side, side)
        factor = 2 ** (len(blocks) - 1)
        return int(width) * factor, int(height) * factor
    except (TypeError, ValueError):
        raise UnreadableCheckpoint(
            f"The configurations in {folder} name no size: give one with --size."
        ) from None


def recipe_of(wish: Wish, offer: Offer) -> Recipe:
    """The recipe with every default filled in; raises InvalidRequest."""
    if not 1 <= wish.variants <= MAX_VARIANTS:
        raise InvalidRequest("variants", value=wish.variants, limit=MAX_VARIANTS)
    steps, guidance = wish.num_inference_steps, wish.guidance_scale
    sampler: Sampler = parse_sampler(wish.sampler) if wish.sampler else offer.sampler
    width, height = wish.size or offer.sizes[0]
    recipe = Recipe(
        prompt=wish.prompt,
        negative_prompt=wish.negative_prompt,
        seed=secrets.randbelow(MAX_SEED + 1) if wish.seed is None else wish.seed,
        variants=wish.variants,
        num_inference_steps=offer.num_inference_steps if steps is None else steps,
        guidance_scale=offer.guidance_scale if guidance is None else guidance,
        sampler=sampler,
        width=width,
        height=height,
        model=offer.model,
    )
    if not 0 <= recipe.seed <= MAX_SEED:
        raise InvalidRequest("seed", value=recipe.seed, limit=MAX_SEED)
    offer.check(recipe.request(0))
    return recipe


def paint(engine: Engine, requests: Sequence[Request]) -> list[Image]:
    """All pictures, in order; the first that fails raises."""
    futures = [engine.submit(request) for request in requests]
    return [future.result() for future in futures]


def check_writable(file: Path) -> None:
    """Raise the OSError that writing `file` would meet, leaving nothing behind that was not there."""
    existed = file.exists()
    with file.open("ab"):
        pass
    if not existed:
        file.unlink()


def free_name(recipe: Recipe, data: bytes) -> Path:
    """`model-seed.png`, numbered where that name is taken by another picture."""
    stem = f"{recipe.model}-{recipe.seed}"
    if recipe.variants > 1:
        stem += f"-x{recipe.variants}"
    for number in range(1, WORST_FILE_NUMBER):
        file = Path(f"{stem}.png" if number == 1 else f"{stem}-{number}.png")
        if not file.exists() or file.read_bytes() == data:
            return file
    raise FileExistsError(f"there are {WORST_FILE_NUMBER} pictures called {stem} already")

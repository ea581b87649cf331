"""Painting a wish into a file."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bot.delivery.pictures import combine
from bot.jobs import Recipe
from bot.oneshot.wish import STRENGTH_OF_ENLARGEMENT, Wish, offer_of, recipe_of
from sdjax_engine.config import EngineConfig
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png
from sdjax_engine.model.pictures import enlarged
from sdjax_engine.request import Image, Progress, Request

WORST_FILE_NUMBER = 10_000
OnSteps = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Painted:
    """The file that was written, what is in it, and the seconds that each part took."""

    file: Path
    recipe: Recipe
    images: tuple[Image, ...]
    timings: dict[str, float]

    def as_json(self) -> str:
        """The account for other programs."""
        answer = {
            "files": [str(self.file)],
            "seeds": [image.request.seed for image in self.images],
            "recipe": asdict(self.recipe),
            "prompts": [_account(self.images[0].prompt), _account(self.images[0].negative_prompt)],
            "safety": [_account(image.safety) for image in self.images],
            "timings": self.timings,
        }
        return json.dumps(answer, ensure_ascii=False, indent=2)

    @property
    def cut(self) -> list[str]:
        """What of the prompt and the negative prompt had no room."""
        facts = (self.images[0].prompt, self.images[0].negative_prompt)
        return [text.cut for text in facts if text is not None and text.cut]


def _account(facts: Any) -> dict[str, Any] | None:
    return None if facts is None else asdict(facts)


def imagine(
    wish: Wish,
    *,
    output: Path | None,
    cache_dir: Path | None,
    report: Callable[[str], None],
    on_steps: OnSteps = lambda _done, _steps: None,
) -> Painted:
    """Paint `wish` into `output`, or into a file named after model and seed in the current folder.

    `on_steps` is told the steps done and all steps of all pictures, from the thread that calls.
    Raises InvalidRequest, UnreadableCheckpoint, PaintingFailed, or OSError for a file that cannot be read
    or written, which is found out before anything is painted.
    """
    started = time.perf_counter()
    offer = offer_of(wish, report=report)
    recipe = recipe_of(wish, offer)
    requests = [_with_pictures(recipe.request(index), wish) for index in range(recipe.variants)]
    if output is not None:
        check_writable(output)
    lane = recipe.lane
    larger = replace(lane, width=wish.enlarge[0], height=wish.enlarge[1]) if wish.enlarge else lane
    config = EngineConfig(
        models=(wish.spec(offer),),
        dtype=wish.dtype,
        cache_dir=cache_dir,
        lanes=tuple(dict.fromkeys((lane, larger))),
        start_pictures=bool(wish.image or wish.enlarge),
    )
    engine = Engine.open(config, report=report)
    try:
        ready = time.perf_counter()
        images = paint(engine, requests, on_steps)
        if wish.enlarge:
            strength = STRENGTH_OF_ENLARGEMENT if wish.image or wish.strength is None else wish.strength
            larger_requests = [_larger(image, wish.enlarge, strength) for image in images]
            images = paint(engine, larger_requests, on_steps)
        painted = time.perf_counter()
    finally:
        engine.close(drain=False)
    data = combine([encode_png(image.pixels, image.request) for image in images])
    file = output or free_name(recipe, data)
    file.write_bytes(data)
    timings = {"load": ready - started, "paint": painted - ready, "total": time.perf_counter() - started}
    rounded = {name: round(seconds, 3) for name, seconds in timings.items()}
    return Painted(file=file, recipe=recipe, images=tuple(images), timings=rounded)


def _with_pictures(request: Request, wish: Wish) -> Request:
    init_image, mask_image = (file.read_bytes() if file else None for file in (wish.image, wish.mask))
    return replace(request, init_image=init_image, mask_image=mask_image)


def _larger(image: Image, size: tuple[int, int], strength: float) -> Request:
    return enlarged(image, width=size[0], height=size[1], strength=strength)


def paint(engine: Engine, requests: Sequence[Request], on_steps: OnSteps) -> list[Image]:
    """All pictures, in order; the first that fails raises.

    The engine tells of steps from its own thread: they are passed on from this one.
    """
    told: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
    futures = []
    for number, request in enumerate(requests):
        futures.append(engine.submit(request, on_progress=partial(_tell, told, number)))
    for future in futures:
        future.add_done_callback(lambda _future: told.put(None))
    every = sum(request.num_inference_steps for request in requests)
    steps, waiting = [0] * len(requests), len(futures)
    while waiting:
        if (news := told.get()) is None:
            waiting -= 1
        else:
            number, step = news
            steps[number] = max(steps[number], step)
            on_steps(sum(steps), every)
    images = [future.result() for future in futures]
    on_steps(every, every)
    return images


def _tell(told: queue.SimpleQueue[tuple[int, int] | None], number: int, progress: Progress) -> None:
    told.put((number, progress.step))


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

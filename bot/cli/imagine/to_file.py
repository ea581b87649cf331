"""Paints the pictures of the options into a file."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bot.cli.imagine.options import Options, recipe_of, spec_and_offer
from bot.delivery.pictures import combine
from bot.domain.errors import PictureUnsigned
from bot.domain.jobs import Recipe
from bot.provenance.manifests import unmarked
from bot.provenance.signing import Signing
from sdjax_engine.config import Dtype, EngineConfig
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png
from sdjax_engine.request import Image, Progress, Request

MAX_FILE_NUMBER = 10_000
OnSteps = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Painted:
    """The written file, its recipe and pictures, and the seconds of loading, of painting, and in total."""

    file: Path
    recipe: Recipe
    images: tuple[Image, ...]
    timings: dict[str, float]

    def as_json(self) -> str:
        """Return everything as JSON, for other programs."""
        answer = {
            "files": [str(self.file)],
            "seeds": [image.request.seed for image in self.images],
            "recipe": asdict(self.recipe),
            "prompts": [_as_dict(self.images[0].prompt), _as_dict(self.images[0].negative_prompt)],
            "safety": [_as_dict(image.safety) for image in self.images],
            "classified": [_as_dict(image.classified) for image in self.images],
            "timings": self.timings,
        }
        return json.dumps(answer, ensure_ascii=False, indent=2)

    @property
    def cut(self) -> list[str]:
        """The ends of the prompt and the negative prompt that did not fit."""
        facts = (self.images[0].prompt, self.images[0].negative_prompt)
        return [text.cut for text in facts if text is not None and text.cut]


def _as_dict(facts: Any) -> dict[str, Any] | None:
    return None if facts is None else asdict(facts)


def imagine(
    options: Options,
    *,
    output: Path | None,
    signing: Signing,
    report: Callable[[str], None],
    on_steps: OnSteps = lambda _done, _steps: None,
) -> Painted:
    """Paint into `output`, by default a file in the current folder named after model and seed, and sign it.

    `on_steps` is called in the calling thread with the steps done and all steps of all pictures. Raises
    InvalidRequest, UnreadableCheckpoint, PaintingFailed, PictureUnsigned, or OSError for a file that cannot
    be read or written. Files are checked before anything is painted.
    """
    started = time.perf_counter()
    spec, offer = spec_and_offer(options, report=report)
    recipe = recipe_of(options, offer)
    requests = [_with_pictures(recipe.request(index), options) for index in range(recipe.variants)]
    spec.offer.check(requests[0])
    if output is not None:
        check_writable(output)
    section = options.engine
    config = EngineConfig(
        models=(spec,),
        dtype=Dtype(section.dtype),
        cpu_devices=section.cpu_devices,
        cache_dir=Path(section.cache_dir) if section.cache_dir else None,
        cache_group=section.cache_group,
        device_memory=int(section.device_memory_gib * 2**30),
        lanes=requests[0].lanes,
        start_pictures=bool(options.image or options.enlarge),
    )
    engine = Engine.open(config, report=report)
    try:
        ready = time.perf_counter()
        images = paint_all(engine, requests, on_steps)
        painted = time.perf_counter()
    finally:
        engine.close(drain=False)
    data = combine([encode_png(image.pixels, image.request, int8=image.int8) for image in images])
    file = output or free_name(recipe, data)
    try:
        file.write_bytes(signing.signed(data))
    except PictureUnsigned as error:
        raise PictureUnsigned(f"{error} --no-sign writes it without marks.") from error
    timings = {"load": ready - started, "paint": painted - ready, "total": time.perf_counter() - started}
    rounded = {name: round(seconds, 3) for name, seconds in timings.items()}
    return Painted(file=file, recipe=recipe, images=tuple(images), timings=rounded)


def _with_pictures(request: Request, options: Options) -> Request:
    files = {
        "init_image": options.image,
        "mask_image": options.mask,
        "control_image": options.control,
        "image_prompt": options.image_prompt,
    }
    given: dict[str, Any] = {field: file.read_bytes() for field, file in files.items() if file}
    return replace(request, **given, references=tuple(file.read_bytes() for file in options.references))


def paint_all(engine: Engine, requests: Sequence[Request], on_steps: OnSteps) -> list[Image]:
    """Return all pictures in order; raises the error of the first failed one.

    The engine reports steps in its own thread. A queue passes them to the calling thread.
    """
    reports: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
    futures = []
    for number, request in enumerate(requests):
        futures.append(engine.submit(request, on_progress=partial(_report, reports, number)))
    for future in futures:
        future.add_done_callback(lambda _future: reports.put(None))
    passes = [each for request in requests for each in (request, request.second_pass) if each is not None]
    all_steps = sum(each.num_inference_steps for each in passes)
    steps, waiting = [0] * len(requests), len(futures)
    while waiting:
        if (step_of_one := reports.get()) is None:
            waiting -= 1
        else:
            number, step = step_of_one
            steps[number] = max(steps[number], step)
            on_steps(sum(steps), all_steps)
    images = [future.result() for future in futures]
    on_steps(all_steps, all_steps)
    return images


def _report(reports: queue.SimpleQueue[tuple[int, int] | None], number: int, progress: Progress) -> None:
    reports.put((number, progress.step))


def check_writable(file: Path) -> None:
    """Raise OSError if `file` cannot be written; leaves no new file behind."""
    existed = file.exists()
    with file.open("ab"):
        pass
    if not existed:
        file.unlink()


def free_name(recipe: Recipe, data: bytes) -> Path:
    """Return `model-seed.png`, with a number if another picture has that name. `data` is not signed yet."""
    stem = f"{recipe.model}-{recipe.seed}"
    if recipe.variants > 1:
        stem += f"-x{recipe.variants}"
    for number in range(1, MAX_FILE_NUMBER):
        file = Path(f"{stem}.png" if number == 1 else f"{stem}-{number}.png")
        if not file.exists() or unmarked(file.read_bytes()) == data:
            return file
    raise FileExistsError(f"there are {MAX_FILE_NUMBER} pictures called {stem} already")

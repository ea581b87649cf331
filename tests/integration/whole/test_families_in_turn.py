"""One worker paints checkpoints of all families, with memory for two of them on the devices."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from checkpoints import FAMILIES, make_tiny_checkpoint
from flux2_klein_files import make_tiny_flux2_klein
from recipes import origin, recipe
from sd3_files import make_tiny_sd3
from serving import working
from z_image_files import make_tiny_z_image

from bot.domain.jobs import Job, State
from bot.files.artifacts import Artifacts
from bot.store import Store
from bot.worker.worker import Worker
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.request import Lane, Offer, Sampler
from sdjax_engine.weights import load_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DEADLINE = 300.0
SIDE, GUIDANCE = 32, 4.0
STEPS = 20
"""A model is served for four times the seconds of a move: pictures take longer, on a busy machine too."""
MAKERS: Mapping[str, tuple[Callable[[Path], Path], Sampler]] = {
    "SD 1": (make_tiny_checkpoint, Sampler.DDIM),
    "SDXL": (lambda folder: make_tiny_checkpoint(folder, **FAMILIES["SDXL"]), Sampler.EULER),
    "Z-Image": (make_tiny_z_image, Sampler.FLOW_EULER),
    "FLUX.2 klein": (lambda folder: make_tiny_flux2_klein(folder, distilled=False), Sampler.FLOW_EULER),
    "SD 3.5": (make_tiny_sd3, Sampler.FLOW_EULER),
}
EACH = 6
"""The pictures of each model. They wait model by model, and each model's are one person's."""
RECIPES = tuple(
    recipe(
        model=model,
        sampler=sampler,
        prompt=f"a red star {number}",
        seed=number,
        num_inference_steps=STEPS,
        guidance_scale=GUIDANCE,
        width=SIDE,
        height=SIDE,
    )
    for model, (_, sampler) in MAKERS.items()
    for number in range(EACH)
)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> EngineConfig:
    """An engine of all five models that has memory for all."""
    folder = tmp_path_factory.mktemp("families")
    specs = tuple(
        ModelSpec(
            offer=Offer(
                model=model,
                sizes=((SIDE, SIDE),),
                num_inference_steps=STEPS,
                guidance_scale=GUIDANCE,
                sampler=sampler,
            ),
            source=str(make(folder / model)),
        )
        for model, (make, sampler) in MAKERS.items()
    )
    return EngineConfig(
        models=specs,
        lanes=tuple(Lane(model=model, width=SIDE, height=SIDE, guided=True) for model in MAKERS),
        cpu_devices=2,
        seats_per_device=1,
        cache_dir=tmp_path_factory.mktemp("cache"),
    )


@contextmanager
def opened(config: EngineConfig) -> Iterator[tuple[Engine, list[str]]]:
    """An engine, ready, and the lines of its start."""
    told: list[str] = []
    with Engine.open(config, report=told.append) as engine:
        engine.wait_until_ready()
        yield engine, told


async def test_a_queue_of_all_families_is_painted_fairly_with_memory_for_two_and_each_picture_as_if_alone(
    config: EngineConfig, store: Store, tmp_path: Path
) -> None:
    """Nobody waits until all other queues are empty: all models begin in three quarters of the pictures."""
    sizes = [size_of(spec.source) for spec in config.models]
    with opened(config) as (roomy, _):
        budget = roomy.memory_in_use - sum(sizes) + sum(sorted(sizes)[-2:])
        alone = [roomy.submit(each.request(0)).result(DEADLINE).pixels for each in RECIPES]
    people = {model: number for number, model in enumerate(MAKERS, 1)}
    jobs = [
        await store.jobs.enqueue(each, origin(number, user_id=people[each.model]))
        for number, each in enumerate(RECIPES, 1)
    ]
    with opened(replace(config, device_memory=budget)) as (narrow, told):
        for each in RECIPES[::EACH]:  # a model's first run takes long, which would count for its share
            narrow.submit(each.request(0)).result(DEADLINE)
        worker = Worker(narrow, store, Artifacts(str(tmp_path)), name="worker", lease_seconds=30.0)
        async with asyncio.timeout(DEADLINE), working(worker):
            files = [tmp_path / await file_of(job, store) for job in jobs]
        assert narrow.memory_in_use <= budget
    assert any("in the host's memory until used" in line for line in told)
    for file, pixels in zip(files, alone, strict=True):
        np.testing.assert_array_equal(np.asarray(PIL.Image.open(io.BytesIO(file.read_bytes()))), pixels)
    assert len({pixels.tobytes() for pixels in alone}) == len(RECIPES)
    written = sorted(range(len(files)), key=lambda number: files[number].stat().st_mtime_ns)
    order = [RECIPES[number].model for number in written]
    assert max(order.index(model) for model in MAKERS) < len(order) * 3 // 4, order


async def file_of(job: Job, store: Store) -> str:
    """The name of a job's only file, once it is painted."""
    while not (now := await store.jobs.get(job.id)).state.final:  # noqa: ASYNC110 - no event is set
        await asyncio.sleep(0.1)
    assert now.state is State.DONE
    [image] = now.images
    assert image.artifact is not None
    return image.artifact


def size_of(source: str) -> int:
    """The bytes of a checkpoint's parameters."""
    components = load_checkpoint(source).components.values()
    return sum(array.nbytes for each in components for array in each.parameters.values())

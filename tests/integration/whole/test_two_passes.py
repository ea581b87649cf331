"""Pictures of two passes, from the queue to the file, with the real engine."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator

import PIL.Image
import pytest
from checkpoints import make_tiny_checkpoint
from engines import SMALLEST, TINY
from recipes import origin, recipe
from serving import until, working
from test_worker import make_worker

from bot.domain.jobs import Job, Recipe, State
from bot.files.artifacts import Artifacts
from bot.generation_data import fit, read_picture
from bot.store import Store
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.request import SecondPass

OFFER = dataclasses.replace(TINY, sizes=((16, 16), (32, 32)))
SECOND = SecondPass(width=32, height=32, num_inference_steps=4, strength=0.5)
LARGE = recipe(width=16, height=16, model="tiny", num_inference_steps=4, variants=3, second_pass=SECOND)


@pytest.fixture(scope="module")
def two_sizes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    checkpoint = make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny", **SMALLEST)
    spec = ModelSpec(offer=OFFER, source=str(checkpoint))
    config = EngineConfig(models=(spec,), lanes=LARGE.request(0).lanes, seats_per_device=2)
    with Engine.open(config, report=lambda _line: None) as engine:
        engine.wait_until_ready()
        yield engine


async def painted(store: Store, wanted: Recipe, number: int) -> Job:
    job = await store.jobs.enqueue(wanted, origin(number))

    async def ended() -> bool:
        return (await store.jobs.get(job.id)).state.final

    await until(ended)
    return await store.jobs.get(job.id)


async def test_a_job_of_two_passes_ends_with_large_pictures_whose_files_paint_them_again(
    two_sizes: Engine, store: Store, artifacts: Artifacts
) -> None:
    async with working(make_worker(two_sizes, store, artifacts)):
        job = await painted(store, LARGE, 1)
        assert job.state is State.DONE
        assert job.work.step == job.work.steps == 3 * (4 + 2 * 4)
        for image in job.images:
            file = await artifacts.get(str(image.artifact))
            assert PIL.Image.open(io.BytesIO(file)).size == (32, 32)
        first = str(job.images[0].artifact)
        read = fit(read_picture(await artifacts.get(first)), [OFFER])
        assert read.options["hires"] == "32x32 0.5 4"
        assert read.differences == ()


async def test_a_lost_file_of_two_passes_is_repainted_bit_for_bit(
    two_sizes: Engine, store: Store, artifacts: Artifacts
) -> None:
    async with working(make_worker(two_sizes, store, artifacts)):
        job = await painted(store, dataclasses.replace(LARGE, variants=1), 1)
        name = str(job.images[0].artifact)
        before = await artifacts.get(name)
        await artifacts.delete(name)
        child = dataclasses.replace(
            LARGE, width=32, height=32, second_pass=None, init_image=name, strength=0.5, variants=1
        )
        assert (await painted(store, child, 2)).state is State.DONE
        assert await artifacts.get(name) == before

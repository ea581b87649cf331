"""Reference pictures from a command to the painted file, with the engine and a tiny FLUX.2 klein."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import PIL.Image
import pytest
from flux2_klein_files import make_tiny_flux2_klein
from results import text_of
from serving import Served, serving, working

from bot.config import Config
from bot.domain.hashes import hash_of_file
from bot.domain.jobs import State, with_pictures
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.worker.opening import open_engine, read_defaults
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png, read_recipe


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> Config:
    """The configuration of a tiny FLUX.2 klein that takes one reference picture."""
    folder = make_tiny_flux2_klein(tmp_path_factory.mktemp("checkpoint") / "klein")
    model = {"name": "klein", "checkpoint": str(folder), "sizes": ["64x64"], "references": 1}
    engine = {"cache_dir": str(compile_cache), "seats_per_device": 1, "cpu_devices": 1}
    model |= {"num_inference_steps": 2}
    return read_defaults(Config.parse({"models": [model], "engine": engine}), lambda _: None)


@pytest.fixture(scope="module")
def klein(config: Config) -> Iterator[Engine]:
    with open_engine(config, lambda _: None) as engine:
        engine.wait_until_ready()
        yield engine


@pytest.fixture
async def referred(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, config: Config
) -> AsyncIterator[Served]:
    async with serving(sandbox, store, artifacts, config) as served:
        yield served


def picture() -> bytes:
    drawn = PIL.Image.new("RGB", (90, 60), "white")
    drawn.paste("navy", (20, 10, 70, 50))
    file = io.BytesIO()
    drawn.save(file, "PNG")
    return file.getvalue()


async def test_a_picture_with_a_reference_is_painted_beside_one_without(
    referred: Served, klein: Engine, ravi: Member
) -> None:
    store, artifacts = referred.store, referred.artifacts
    assert {lane.references for lane in klein.lanes} == {0, 1}
    asked = {
        1: await ravi.imagine(prompt="a boat", seed=7, reference=picture()),
        0: await ravi.imagine(prompt="a boat", seed=7),
    }
    for each in asked.values():
        await ravi.message_of(each)
    jobs = {job.recipe.lane.references: job for job in await store.jobs.active()}
    async with working(Worker(klein, store, artifacts, name="worker", lease_seconds=30.0)):
        for count, interaction in asked.items():
            said = await ravi.message_of(interaction, lambda message: "again:" in json.dumps(message))
            assert ("with 1 reference picture" in text_of(said)) is bool(count)
    files = {}
    for count, job in jobs.items():
        done = await store.jobs.get(job.id)
        assert done.state is State.DONE
        given = {field: await artifacts.get(name) for field, name in done.recipe.given.items()}
        request = with_pictures(done.recipe.request(0), given)
        assert done.images[0].artifact is not None
        files[count] = await artifacts.get(done.images[0].artifact)
        painted = klein.submit(request).result().pixels
        assert files[count] == encode_png(painted, request, extra={"job": job.id})
        assert read_recipe(io.BytesIO(files[count]), pictures=list(given.values())) == request
    pixels = {PIL.Image.open(io.BytesIO(file)).tobytes() for file in files.values()}
    assert len(pixels) == 2
    hashed = hash_of_file(await artifacts.get(jobs[1].recipe.given["reference"]))
    found = await store.known.whose(GUILD_ID, hashed, limit=9)
    assert [(match.job.id, match.is_given) for match in found] == [(jobs[1].id, True)]

"""Image prompts from a command to the painted file, with the real engine and worker."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from checkpoints import make_tiny_image_prompt
from results import text_of
from serving import Served, serving, working

from bot.config import Config
from bot.domain.hashes import hash_of_file
from bot.domain.jobs import State
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.worker.opening import open_engine, read_defaults
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path, compile_cache: Path) -> Config:
    """The configuration of the tiny checkpoint with an IP-Adapter."""
    unet = json.loads((tiny_checkpoint / "unet" / "config.json").read_text())
    known = {key: value for key, value in unet.items() if not key.startswith("_")}
    adapter = make_tiny_image_prompt(tmp_path_factory.mktemp("adapter"), unet=known, plus=True)
    model = {"name": "tiny", "checkpoint": str(tiny_checkpoint), "sizes": ["64x64"], "num_inference_steps": 4}
    engine = {"cache_dir": str(compile_cache), "seats_per_device": 2, "cpu_devices": 2}
    model |= {"guidance_scale": 5.0, "image_prompt": str(adapter)}
    return read_defaults(Config.parse({"models": [model], "engine": engine}), lambda _: None)


@pytest.fixture(scope="module")
def prompted_engine(config: Config) -> Iterator[Engine]:
    with open_engine(config, lambda _: None) as engine:
        engine.wait_until_ready()
        yield engine


@pytest.fixture
async def prompted(
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


async def test_a_picture_with_an_image_prompt_is_painted_beside_one_without(
    prompted: Served, prompted_engine: Engine, ravi: Member
) -> None:
    engine, store, artifacts = prompted_engine, prompted.store, prompted.artifacts
    shown, plain = (
        await ravi.imagine(prompt="a boat", seed=7, image_prompt=picture()),
        await ravi.imagine(prompt="boats", seed=7),
    )
    for each in (shown, plain):
        await ravi.message_of(each)
    first, second = sorted(await store.jobs.active(), key=lambda job: job.recipe.prompt)
    async with working(Worker(engine, store, artifacts, name="worker", lease_seconds=30.0)):
        for interaction, like in ((shown, True), (plain, False)):
            said = await ravi.message_of(interaction, lambda message: "again:" in json.dumps(message))
            assert ("like a picture, strength 0.6" in text_of(said)) is like
    for job in (first, second):
        done = await store.jobs.get(job.id)
        assert done.state is State.DONE
        given: dict[str, Any] = {
            field: await artifacts.get(name) for field, name in done.recipe.given.items()
        }
        request = replace(done.recipe.request(0), **given)
        expected = encode_png(engine.submit(request).result().pixels, request, extra={"job": job.id})
        assert done.images[0].artifact is not None
        file = await artifacts.get(done.images[0].artifact)
        assert file == expected
        told = PIL.Image.open(io.BytesIO(file)).info["parameters"]
        assert ("Image prompt strength: 0.6" in told) is (job is first)
    hashed = hash_of_file(await artifacts.get(first.recipe.given["image_prompt"]))
    found = await store.known.whose(GUILD_ID, hashed, limit=9)
    assert [(match.job.id, match.is_given) for match in found] == [(first.id, True)]


async def test_a_worker_whose_model_takes_no_image_prompt_says_so(
    prompted: Served, tiny_engine: Engine, ravi: Member
) -> None:
    asked = await ravi.imagine(prompt="a boat", seed=7, image_prompt=picture())
    await ravi.message_of(asked)
    worker = Worker(tiny_engine, prompted.store, prompted.artifacts, name="worker", lease_seconds=30.0)
    async with working(worker):
        lost = "tiny takes no picture as a prompt: leave the image prompt out."
        await ravi.message_of(asked, lambda message: lost in text_of(message))

"""Control pictures from a member's command to the picture, painted by the engine of a configuration."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from checkpoints import make_tiny_controlnet
from results import text_of
from serving import Served, serving, working

from bot.config import Config
from bot.domain.hashes import hash_of_file
from bot.domain.jobs import Job, State
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.rows.audit import By
from bot.worker.opening import open_engine, read_defaults
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path, compile_cache: Path) -> Config:
    """The configuration of the tiny checkpoint with two ControlNets."""
    unet, vae = (json.loads((tiny_checkpoint / part / "config.json").read_text()) for part in ("unet", "vae"))
    widths = [8] * len(vae["block_out_channels"])
    folder = tmp_path_factory.mktemp("controlnets")
    nets = {
        name: {
            "source": str(
                make_tiny_controlnet(
                    folder / name, unet=unet, seed=seed, conditioning_embedding_out_channels=widths
                )
            ),
            "types": types,
        }
        for seed, (name, types) in enumerate({"canny": ["edges"], "tile": ["tile", "picture"]}.items())
    }
    model = {"name": "tiny", "checkpoint": str(tiny_checkpoint), "sizes": ["64x64"], "num_inference_steps": 4}
    engine = {"cache_dir": str(compile_cache), "seats_per_device": 2, "cpu_devices": 2}
    config = Config.parse(
        {"models": [model | {"guidance_scale": 5.0, "controlnets": nets}], "engine": engine}
    )
    return read_defaults(config, lambda _: None)


@pytest.fixture(scope="module")
def controlled_engine(config: Config) -> Iterator[Engine]:
    with open_engine(config, lambda _: None) as engine:
        engine.wait_until_ready()
        yield engine


@pytest.fixture
async def controlled(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, config: Config
) -> AsyncIterator[Served]:
    async with serving(sandbox, store, artifacts, config) as served:
        yield served


def picture() -> bytes:
    drawn = PIL.Image.new("RGB", (90, 90), "white")
    drawn.paste("navy", (20, 30, 70, 60))
    file = io.BytesIO()
    drawn.save(file, "PNG")
    return file.getvalue()


async def asked(store: Store, member: Member, prompt: str, **options: Any) -> tuple[str, Job]:
    """The interaction and the job of a command, once it is in the queue."""
    interaction = await member.imagine(prompt=prompt, seed=7, **options)
    await member.message_of(interaction)
    (job,) = [job for job in await store.jobs.active() if job.recipe.prompt == prompt]
    return interaction, job


async def test_a_picture_with_control_is_painted_beside_one_without(
    controlled: Served, controlled_engine: Engine, ravi: Member
) -> None:
    engine, store, artifacts = controlled_engine, controlled.store, controlled.artifacts
    held, first = await asked(store, ravi, "a boat", control=picture(), control_type="tile")
    plain, second = await asked(store, ravi, "boats")
    worker = Worker(engine, store, artifacts, name="worker", lease_seconds=30.0)
    async with working(worker):
        for interaction, kept in ((held, True), (plain, False)):
            said = await ravi.message_of(interaction, lambda message: "again:" in json.dumps(message))
            assert ("composition kept (tile), strength 1" in text_of(said)) is kept
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
        assert ("ControlNet 0" in told) is (job is first)
    hashed = hash_of_file(await artifacts.get(first.recipe.given["control_image"]))
    found = await store.known.whose(GUILD_ID, hashed, limit=9)
    assert [(match.job.id, match.is_given) for match in found] == [(first.id, True)]


async def test_a_worker_without_the_network_says_so_and_one_blocked_since_is_not_used(
    controlled: Served, controlled_engine: Engine, tiny_engine: Engine, ravi: Member
) -> None:
    store, artifacts = controlled.store, controlled.artifacts
    held, _ = await asked(store, ravi, "a boat", control=picture(), control_type="tile")
    async with working(Worker(tiny_engine, store, artifacts, name="worker", lease_seconds=30.0)):
        lost = "tiny has no ControlNets: leave the control picture out."
        await ravi.message_of(held, lambda message: lost in text_of(message))
    late, job = await asked(store, ravi, "boats", control=picture(), control_type="edges")
    number = hash_of_file(await artifacts.get(job.recipe.given["control_image"]))
    await store.known.block(number, By(actor_id=1, guild_id=GUILD_ID))
    async with working(Worker(controlled_engine, store, artifacts, name="worker", lease_seconds=30.0)):
        await ravi.message_of(
            late, lambda message: "A picture given with this request is blocked here" in text_of(message)
        )

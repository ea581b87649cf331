"""Lost files, repainted by the real engine with the same bytes and so the same name."""

from __future__ import annotations

import asyncio
import io
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import sqlalchemy as sa
from recipes import origin, recipe
from serving import Served, until, working
from test_worker import make_worker

from bot.domain.errors import MissingArtifact
from bot.domain.file_states import FileState
from bot.domain.jobs import Job, Recipe, State
from bot.files import Files
from bot.files.artifacts import Artifacts
from bot.files.sweeper import DAY_SECONDS as DAY
from bot.files.sweeper import Bounds, Sweeper
from bot.sandbox.client import Member
from bot.store import Store
from bot.store.tables.queue import files
from bot.worker import repaint
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png
from sdjax_engine.request import Image, Request

SMALL = recipe(width=64, height=64, model="tiny", num_inference_steps=3)


async def painted(store: Store, recipe: Recipe, number: int) -> Job:
    job = await store.jobs.enqueue(recipe, origin(number))

    async def ended() -> bool:
        return (await store.jobs.get(job.id)).state.final

    await until(ended)
    return await store.jobs.get(job.id)


def name_of(job: Job, index: int = 0) -> str:
    return str(job.images[index].artifact)


async def finished(member: Member, interaction: str) -> dict[str, Any]:
    return await member.message_of(interaction, lambda message: bool(message["attachments"]), timeout=60.0)


async def pixels(artifacts: Artifacts, name: str) -> bytes:
    return PIL.Image.open(io.BytesIO(await artifacts.get(name))).convert("RGB").tobytes()


async def test_a_chain_of_lost_start_pictures_is_repainted_bit_for_bit(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        first = await painted(store, replace(SMALL, variants=2), 1)
        start = name_of(first, 1)
        second = await painted(store, replace(SMALL, init_image=start, strength=0.5), 2)
        whole = {name: await artifacts.get(name) for name in (start, name_of(second))}
        for name in whole:
            await artifacts.delete(name)
        third = await painted(store, replace(SMALL, init_image=name_of(second), seed=99, strength=0.7), 3)
    assert third.state is State.DONE
    assert {name: await artifacts.get(name) for name in whole} == whole
    again = replace(third.recipe.request(0), init_image=whole[name_of(second)])
    assert tiny_engine.submit(again).result().pixels.tobytes() == await pixels(artifacts, name_of(third))


async def test_a_picture_is_repainted_with_its_programs_once_they_are_there(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first the engine is without them, and paints a picture with other bits."""
    submit, asked, ready = tiny_engine.submit, list[object](), iter([False, True, True])

    def with_other_programs(request: Request, *, programs: object = None, **how: Any) -> Future[Image]:
        asked.append(programs)
        if len(asked) > 1:
            return submit(request, programs=programs, **how)
        early: Future[Image] = Future()
        image = submit(request, **how).result()
        early.set_result(replace(image, pixels=image.pixels ^ 1, programs=("3x1",)))
        return early

    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        job = await painted(store, SMALL, 1)
        lost = name_of(job)
        whole = await artifacts.get(lost)
        await artifacts.delete(lost)
        with monkeypatch.context() as patch:
            patch.setattr(tiny_engine, "submit", with_other_programs)
            patch.setattr(tiny_engine, "wait_until_ready", lambda _timeout: next(ready))
            await store.files.want([lost])

            async def back() -> bool:
                with suppress(MissingArtifact):
                    return await artifacts.get(lost) == whole
                return False

            await until(back)
    assert job.images[0].notes.programs == ("3x4-",)
    assert asked == [("3x4-",)] * 2


async def test_a_file_whose_programs_an_engine_is_without_is_left_to_other_workers(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, painted_otherwise = tiny_engine.submit, asyncio.Event()

    def with_other_programs(request: Request, *, programs: object = None, **how: Any) -> Future[Image]:
        other: Future[Image] = Future()
        image = submit(request, **how).result()
        other.set_result(replace(image, pixels=image.pixels ^ 1, programs=("3x1",)))
        painted_otherwise.set()
        return other

    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        job = await painted(store, SMALL, 1)
        lost = name_of(job)
        whole = await artifacts.get(lost)
        await artifacts.delete(lost)
        monkeypatch.setattr(tiny_engine, "submit", with_other_programs)
        monkeypatch.setattr("bot.worker.repaint.POLL_SECONDS", 0.02)
        await store.files.want([lost])
        await painted_otherwise.wait()
        await artifacts.put(whole, ".png")  # as another worker does

        async def ended() -> bool:
            async with store.shared.database.read() as connection:
                found = (await connection.execute(sa.select(files.c.state, files.c.failure))).one()
            return tuple(found) == (FileState.KEPT, None)

        await until(ended)


async def test_a_damaged_picture_is_repainted(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, tmp_path: Path
) -> None:
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        first = await painted(store, SMALL, 1)
        path = tmp_path / "artifacts" / name_of(first)
        whole = path.read_bytes()
        path.write_bytes(whole[:100])
        second = await painted(store, replace(SMALL, init_image=name_of(first), strength=0.5), 2)
    assert second.state is State.DONE
    assert path.read_bytes() == whole


async def test_a_lost_upload_is_not_repainted_and_fails_the_image(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    upload = await Files(store.files, artifacts).keep(b"what a person sent", ".png")
    await artifacts.delete(upload)
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        failed = await painted(store, replace(SMALL, init_image=upload), 1)
    assert failed.images[0].failure == "start_missing"


async def test_a_lost_picture_of_a_size_that_is_no_longer_offered_is_not_repainted(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    old = await store.jobs.enqueue(replace(SMALL, width=128), origin(1))
    (claim,) = await store.leases.claim("another", limit=1, ttl=60.0)
    lost = await Files(store.files, artifacts).keep(b"a picture of that size", ".png")
    await store.leases.complete(claim, artifact=lost, seconds=1.0)
    await artifacts.delete(lost)
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        failed = await painted(store, replace(SMALL, init_image=lost), 2)
    assert (await store.jobs.get(old.id)).state is State.DONE
    assert failed.images[0].failure == "start_not_offered"


async def test_an_image_waits_for_a_lost_picture_that_only_another_worker_repaints(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    other = replace(SMALL, width=128)
    await store.offers.announce("another", lanes=[other.lane], seats=1, ttl=60.0)
    await store.jobs.enqueue(other, origin(1))
    (claim,) = await store.leases.claim("another", limit=1, ttl=60.0)
    png = encode_png(np.zeros((64, 128, 3), np.uint8), other.request(0))
    lost = await Files(store.files, artifacts).keep(png, ".png")
    await store.leases.complete(claim, artifact=lost, seconds=1.0)
    await artifacts.delete(lost)

    async def paint_again() -> bool:
        if not await store.files.claim_lost([other.lane], limit=1, ttl=60.0):
            return False
        await Files(store.files, artifacts).keep(png, ".png")
        await store.files.end_wait(lost)
        return True

    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        job = await store.jobs.enqueue(replace(SMALL, init_image=lost, strength=0.5), origin(2))
        await until(paint_again)

        async def ended() -> bool:
            return (await store.jobs.get(job.id)).state.final

        await until(ended)
    assert (await store.jobs.get(job.id)).state is State.DONE


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repaint, "LEASE_SECONDS", 1.0)


@pytest.mark.usefixtures("short_leases")
async def test_a_repaint_is_retried_while_its_file_cannot_be_written(
    tiny_engine: Engine,
    store: Store,
    artifacts: Artifacts,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=0.2)):
        name = name_of(await painted(store, SMALL, 1))
        whole = await artifacts.get(name)
        await artifacts.delete(name)
        folder = (tmp_path / "artifacts" / name).parent
        folder.rmdir()
        folder.symlink_to(tmp_path / "a disk that is not mounted")

        async def put_off_twice() -> bool:
            assert (await store.files.want([name])).failure is None  # as the delivery asks
            return caplog.text.count("is tried again with the next lease: Results in") > 1

        await until(put_off_twice)
        folder.unlink()

        async def back() -> bool:
            await store.files.want([name])
            with suppress(MissingArtifact):
                return await artifacts.get(name) == whole
            return False

        await until(back)


async def test_a_recipe_that_now_gives_another_picture_does_not_replace_the_lost_one(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    await store.jobs.enqueue(SMALL, origin(1))
    (claim,) = await store.leases.claim("another", limit=1, ttl=60.0)
    lost = await Files(store.files, artifacts).keep(b"painted by earlier weights", ".png")
    await store.leases.complete(claim, artifact=lost, seconds=1.0)
    await artifacts.delete(lost)
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        failed = await painted(store, replace(SMALL, init_image=lost), 2)
    assert failed.images[0].failure == "start_changed"
    with pytest.raises(MissingArtifact):
        await artifacts.get(lost)


async def test_a_button_works_under_a_picture_whose_file_was_swept(
    painting: Served, mina: Member, ravi: Member
) -> None:
    first = await finished(mina, await mina.imagine(prompt="a red circle", seed=5))
    job = await painting.store.jobs.get(first["attachments"][0]["filename"].removesuffix(".png"))
    later = time.time() + 31 * DAY
    sweeper = Sweeper(painting.store, painting.artifacts, Bounds(file_seconds=30 * DAY), clock=lambda: later)
    await sweeper.sweep()
    with pytest.raises(MissingArtifact):
        await painting.artifacts.get(name_of(job))
    varied = await finished(ravi, await ravi.press(first, "Vary"))
    assert varied["attachments"][0]["content_type"] == "image/png"
    assert await painting.artifacts.get(name_of(job)) == await mina.attachment_bytes(first)


async def test_a_result_whose_files_are_lost_before_its_delivery_is_repainted_and_delivered(
    painting: Served, mina: Member
) -> None:
    """The first read of each file finds it deleted."""
    get, lost = painting.artifacts.get, set()

    async def get_later(name: str) -> bytes:
        if name not in lost:
            lost.add(name)
            await painting.artifacts.delete(name)
        return await get(name)

    painting.artifacts.get = get_later  # type: ignore[method-assign]
    message = await finished(mina, await mina.imagine(prompt="a red circle", seed=5, variants=2))
    assert message["attachments"][0]["filename"].endswith("-grid.png")
    assert len(lost) == 2

"""Lost files, repainted by the real engine: with the same name where its programs are the same."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from recipes import origin, recipe
from results import shows_result
from serving import Served, until, working
from test_worker import make_worker

from bot.domain.errors import MissingArtifact
from bot.domain.jobs import Job, Recipe, State
from bot.domain.time_units import DAY_SECONDS as DAY
from bot.files import Files
from bot.files.artifacts import Artifacts
from bot.files.sweeper import Bounds, Sweeper
from bot.sandbox.client import Member
from bot.store import Store
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
    return await member.message_of(interaction, shows_result, timeout=60.0)


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


def painting(engine: Engine, change: Callable[[Image], Image]) -> Callable[..., Future[Image]]:
    """Return the engine's `submit`, of which each picture is changed."""
    submit = engine.submit

    def submit_changed(request: Request, **how: Any) -> Future[Image]:
        changed: Future[Image] = Future()
        changed.set_result(change(submit(request, **how).result()))
        return changed

    return submit_changed


def rounded_otherwise(image: Image) -> Image:
    """The picture as other programs paint it."""
    return replace(image, pixels=image.pixels ^ 1)


def of_other_weights(image: Image) -> Image:
    rows, columns = np.mgrid[0:64, 0:64]
    return replace(image, pixels=np.stack([rows * columns % 251] * 3, -1).astype(np.uint8))


async def test_a_picture_that_other_programs_repaint_takes_the_place_of_the_lost_one(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        first = await painted(store, SMALL, 1)
        lost = name_of(first)
        second = await painted(store, replace(SMALL, init_image=lost, strength=0.5), 2)
        whole = np.frombuffer(await pixels(artifacts, lost), np.uint8)
        await artifacts.delete(lost)
        monkeypatch.setattr(tiny_engine, "submit", painting(tiny_engine, rounded_otherwise))
        await store.files.want([lost])

        async def back() -> bool:
            return name_of(await store.jobs.get(first.id)) != lost

        await until(back)
        other = name_of(await store.jobs.get(first.id))
        again = np.frombuffer(await pixels(artifacts, other), np.uint8)
        assert np.abs(again.astype(int) - whole).max() == 1
        assert (await store.jobs.get(second.id)).recipe.init_image == other
        assert await store.files.painter(lost) is None


async def test_every_image_finds_a_lost_start_picture_that_is_repainted_under_another_name(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        lost = name_of(await painted(store, SMALL, 1))
        middle = name_of(await painted(store, replace(SMALL, init_image=lost, strength=0.5), 2))
        for name in (lost, middle):
            await artifacts.delete(name)
        monkeypatch.setattr(tiny_engine, "submit", painting(tiny_engine, rounded_otherwise))
        for number, start in enumerate((lost, middle), 3):
            both = await painted(store, replace(SMALL, init_image=start, strength=0.5, variants=2), number)
            assert [image.failure for image in both.images] == [None, None]


async def test_a_lost_picture_that_other_weights_paint_otherwise_is_not_replaced(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=5.0)):
        lost = name_of(await painted(store, SMALL, 1))
        await artifacts.delete(lost)
        monkeypatch.setattr(tiny_engine, "submit", painting(tiny_engine, of_other_weights))
        await store.files.want([lost])

        async def failed() -> bool:
            return (await store.files.want([lost])).failure == "start_changed"

        await until(failed)


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

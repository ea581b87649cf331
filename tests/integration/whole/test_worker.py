"""The worker with a real queue and a real engine."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from recipes import ORIGIN, origin, recipe
from serving import until, working
from stores import undelivered

from bot.domain.errors import StoreUnavailable
from bot.domain.holds import Cause, Hold, Outcome
from bot.domain.jobs import ImageRecord, Job, Showing, State
from bot.files.artifacts import Artifacts
from bot.store import Store
from bot.store.rows.audit import By
from bot.store.rows.device_time import Grouping
from bot.telemetry.metrics import Metrics
from bot.worker.held_image import HeldImage
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png, read_recipe
from sdjax_engine.model import pictures

DEADLINE = 60.0
LONG_STEPS = 40  # of pictures on slow devices: they take more than a heartbeat
SMALL = recipe(width=64, height=64, model="tiny", num_inference_steps=3)


def make_worker(engine: Engine, store: Store, artifacts: Artifacts, *, lease_seconds: float = 30.0) -> Worker:
    return Worker(engine, store, artifacts, name="worker", lease_seconds=lease_seconds)


async def ended(store: Store, *jobs: Job) -> list[Job]:
    async def all_final() -> bool:
        return all([(await store.jobs.get(job.id)).state.final for job in jobs])

    await until(all_final)
    return [await store.jobs.get(job.id) for job in jobs]


async def enqueue_much(store: Store) -> list[Job]:
    """Enqueue jobs that take many heartbeats."""
    long = replace(SMALL, num_inference_steps=LONG_STEPS, variants=9)
    return [await store.jobs.enqueue(long, origin(number)) for number in range(1, 13)]


async def images_of(store: Store, jobs: Sequence[Job]) -> list[ImageRecord]:
    return [image for job in jobs for image in (await store.jobs.get(job.id)).images]


async def test_every_waiting_image_is_painted_into_a_file_that_holds_its_recipe(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    jobs = [
        await store.jobs.enqueue(replace(SMALL, seed=seed, variants=3), origin(seed)) for seed in (1, 2, 3)
    ]

    async def told() -> bool:
        (worker,) = await store.workers.now()
        return worker.hourly == 9 and worker.memory > 0

    async with working(make_worker(tiny_engine, store, artifacts)):
        painted = await ended(store, *jobs)
        await until(told)
    for job in painted:
        assert job.state is State.DONE
        for image in job.images:
            assert image.artifact is not None
            file = io.BytesIO(await artifacts.get(image.artifact))
            assert read_recipe(file) == job.recipe.request(image.index)
    assert len(await undelivered(store, limit=10)) == 3
    (spent,) = await store.device_time.sums([Grouping.PERSON])
    assert (spent.group, spent.pictures) == ((ORIGIN.user_id,), 9)
    assert spent.seconds > 0


@pytest.mark.usefixtures("slow_devices")
async def test_a_cancelled_image_is_stopped_and_makes_room(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    long = await store.jobs.enqueue(replace(SMALL, num_inference_steps=LONG_STEPS, variants=9), origin(1))

    async def painting() -> bool:
        return (await store.jobs.get(long.id)).state is State.RUNNING

    async with working(make_worker(tiny_engine, store, artifacts)):
        await until(painting)
        await store.jobs.cancel(long.id, user_id=ORIGIN.user_id)
        short = await store.jobs.enqueue(SMALL, origin(2))
        (done,) = await ended(store, short)
    assert done.state is State.DONE
    assert State.RUNNING not in {image.state for image in (await store.jobs.get(long.id)).images}
    assert (await store.jobs.get(long.id)).state is State.CANCELLED


async def test_an_image_that_is_lost_before_the_engine_has_it_is_counted_as_lost(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.worker.worker.HeldImage", partial(HeldImage, lost=True))
    metrics = Metrics()
    await store.jobs.enqueue(SMALL, origin(1))

    async def counted() -> bool:
        return metrics.registry.get_sample_value("sdjax_images_total", {"event": "lost"}) == 1.0

    worker = Worker(tiny_engine, store, artifacts, name="worker", lease_seconds=30.0, metrics=metrics.worker)
    async with working(worker):
        await until(counted)


async def test_images_whose_files_cannot_be_written_wait_until_they_can(
    tiny_engine: Engine, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.worker.worker.UNKEPT_SECONDS", 0.1)
    place = tmp_path / "place"
    place.write_text("not a folder")
    jobs = [await store.jobs.enqueue(SMALL, origin(number)) for number in (1, 2, 3)]
    worker = make_worker(tiny_engine, store, Artifacts(str(place)), lease_seconds=2.0)

    async def is_told() -> bool:
        return "cannot be written" in await worker.health()

    async with working(worker):
        await until(is_told)
        assert [(await store.jobs.get(job.id)).state.final for job in jobs] == [False] * 3
        place.unlink()
        place.mkdir()
        painted = await ended(store, *jobs)
        assert {job.state for job in painted} == {State.DONE}
        assert not await is_told()


async def test_an_outage_of_the_queue_beside_painting_fails_no_image(
    tiny_engine: Engine,
    store: Store,
    artifacts: Artifacts,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def blocking(_guild_id: int | None, _number: int) -> None:
        if "is given back: The queue cannot be reached." not in caplog.text:
            raise StoreUnavailable("The queue cannot be reached.")

    monkeypatch.setattr(store.known, "blocking", blocking)
    job = await store.jobs.enqueue(SMALL, origin(1))
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=0.5)):
        (done,) = await ended(store, job)
    assert (done.state, done.images[0].failure) == (State.DONE, None)
    assert "Traceback" not in caplog.text


async def test_an_image_that_cannot_be_judged_is_not_painted_for_ever(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blocking(_guild_id: int | None, _number: int) -> None:
        raise StoreUnavailable("The table cannot be read.")

    monkeypatch.setattr(store.known, "blocking", blocking)
    job = await store.jobs.enqueue(SMALL, origin(1))
    async with working(make_worker(tiny_engine, store, artifacts, lease_seconds=0.5)):
        (failed,) = await ended(store, job)
    assert failed.images[0].failure == "painting_failed"


async def test_a_rejected_picture_is_withheld_when_it_is_painted_again(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    here = replace(origin(1), guild_id=21)
    by = By(actor_id=91, guild_id=21)
    async with working(make_worker(tiny_engine, store, artifacts)):
        await ended(store, await store.jobs.enqueue(SMALL, here, hold=Hold(cause=Cause.MODE)))
        (review,) = await store.reviews.waiting(21, limit=9)
        await store.reviews.decide(review.id, Outcome.REJECTED, by)
        (again,) = await ended(store, await store.jobs.enqueue(SMALL, replace(here, interaction_id=2)))
    assert again.images[0].showing is Showing.WITHHOLD
    assert again.images[0].notes.known


async def test_an_image_of_a_size_that_no_worker_offers_any_more_fails(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, caplog: pytest.LogCaptureFixture
) -> None:
    gone = await store.jobs.enqueue(replace(SMALL, width=512), origin(1))
    kept = await store.jobs.enqueue(SMALL, origin(2))
    worker = Worker(tiny_engine, store, artifacts, name="worker", lease_seconds=30.0, grace_seconds=0.5)
    async with working(worker):
        failed, done = await ended(store, gone, kept)
    assert (failed.state, failed.images[0].failure) == (State.FAILED, "not_offered")
    assert done.state is State.DONE
    assert {delivery.job.id for delivery in await undelivered(store, limit=9)} == {gone.id, kept.id}
    assert "images wait for lanes that no worker offers (tiny:512x64:guided)" in caplog.text


async def test_an_image_starts_from_the_kept_picture_and_reports_its_own_steps(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    start = np.zeros((64, 64, 3), np.uint8)
    start[:, 32:] = 255
    png = encode_png(start, SMALL.request(0))
    name = await artifacts.put(png, ".png")
    asked = replace(SMALL, num_inference_steps=10, strength=0.3, init_image=name, mask_image=name)
    job = await store.jobs.enqueue(asked, origin(1))
    async with working(make_worker(tiny_engine, store, artifacts)):
        (done,) = await ended(store, job)
    assert (done.state, done.images[0].step) == (State.DONE, 3)
    assert done.images[0].artifact is not None
    whole = replace(asked.request(0), init_image=png, mask_image=png)
    expected = encode_png(tiny_engine.submit(whole).result().pixels, whole, extra={"job": job.id})
    assert await artifacts.get(done.images[0].artifact) == expected


async def test_a_start_picture_is_decoded_once_a_job_and_never_on_the_event_loop(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    png = encode_png(np.zeros((64, 64, 3), np.uint8), SMALL.request(0))
    name = await artifacts.put(png, ".png")
    decoded: list[threading.Thread] = []
    decode = pictures._read

    def look_on(data: bytes, what: str, *, background: str) -> PIL.Image.Image:
        decoded.append(threading.current_thread())
        return decode(data, what, background=background)

    monkeypatch.setattr(pictures, "_read", look_on)
    job = await store.jobs.enqueue(replace(SMALL, init_image=name, strength=0.5, variants=6), origin(1))
    async with working(make_worker(tiny_engine, store, artifacts)):
        (done,) = await ended(store, job)
    assert [image.state for image in done.images] == [State.DONE] * 6
    assert len(decoded) == 1
    assert decoded[0] is not threading.main_thread()


async def test_an_image_with_a_lost_start_picture_fails_and_the_others_are_painted(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    name = await artifacts.put(b"a picture", ".png")
    await artifacts.delete(name)
    gone = await store.jobs.enqueue(replace(SMALL, init_image=name), origin(1))
    kept = await store.jobs.enqueue(SMALL, origin(2))
    async with working(make_worker(tiny_engine, store, artifacts)):
        failed, done = await ended(store, gone, kept)
    assert (failed.state, failed.images[0].failure) == (State.FAILED, "start_missing")
    assert done.state is State.DONE


async def test_images_held_before_a_restart_of_the_worker_are_painted_at_once(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    job = await store.jobs.enqueue(SMALL, origin(1))
    assert await store.leases.claim("worker", limit=1, ttl=3600)
    async with working(make_worker(tiny_engine, store, artifacts)):
        (done,) = await ended(store, job)
    assert done.state is State.DONE

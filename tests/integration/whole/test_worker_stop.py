"""The end of a worker: a drain or a cancellation gives its images back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from recipes import origin
from serving import until, working
from test_worker import DEADLINE, SMALL, ended, enqueue_much, images_of, make_worker

from bot.domain.jobs import Claim, State
from bot.files.artifacts import Artifacts
from bot.store import Store
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine
from sdjax_engine.images import encode_png


@pytest.mark.usefixtures("slow_devices")
async def test_a_drain_finishes_images_under_way_and_gives_back_the_others(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    jobs = await enqueue_much(store)

    async def begun() -> bool:
        return any(image.step for image in await images_of(store, jobs))

    worker = make_worker(tiny_engine, store, artifacts)
    async with working(worker):
        await until(begun)
    states = [image.state for image in await images_of(store, jobs)]
    assert not await store.offers.is_anything_offered()
    assert State.DONE in states
    assert State.WAITING in states
    assert State.RUNNING not in states


async def test_a_drain_does_not_wait_for_a_start_picture_that_another_worker_paints(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    elsewhere = replace(SMALL, model="elsewhere")
    await store.offers.announce("other", lanes=[elsewhere.lane], seats={elsewhere.lane: 1}, ttl=3600)
    await store.jobs.enqueue(elsewhere, origin(1))
    (claim,) = await store.leases.claim("other", limit={elsewhere.lane: 1}, ttl=3600)
    name = await artifacts.put(encode_png(np.zeros((64, 64, 3), np.uint8), claim.request), ".png")
    await store.leases.complete(claim, artifact=name, seconds=1.0)
    await artifacts.delete(name)
    job = await store.jobs.enqueue(replace(SMALL, init_image=name), origin(2))

    async def wanted() -> bool:
        return bool(await store.files.claim_lost([elsewhere.lane], limit=1, ttl=3600))

    async with working(make_worker(tiny_engine, store, artifacts)):
        await until(wanted)
    assert [image.state for image in (await store.jobs.get(job.id)).images] == [State.WAITING]


async def test_an_image_claimed_at_the_moment_of_a_drain_is_given_back_or_painted(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.jobs.enqueue(SMALL, origin(1))
    worker = make_worker(tiny_engine, store, artifacts)
    claim = store.leases.claim

    async def stopped_meanwhile(*arguments: Any, **options: Any) -> list[Claim]:
        claims = await claim(*arguments, **options)
        worker.drain()
        return claims

    monkeypatch.setattr(store.leases, "claim", stopped_meanwhile)
    await worker.run()
    assert (await store.jobs.counts())[State.RUNNING] == 0  # given back, or begun and painted


@pytest.mark.usefixtures("slow_devices")
async def test_an_image_that_a_drain_cannot_finish_in_time_is_given_back(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    jobs = await enqueue_much(store)

    async def begun() -> bool:
        return any(image.step for image in await images_of(store, jobs))

    worker = Worker(tiny_engine, store, artifacts, name="worker", lease_seconds=30.0, drain_seconds=0.0)
    async with working(worker):
        await until(begun)
    assert State.RUNNING not in {image.state for image in await images_of(store, jobs)}
    assert await store.leases.recover("worker") == 0


@pytest.mark.usefixtures("slow_devices")
async def test_a_cancelled_worker_gives_every_image_back_and_the_next_one_paints_them(
    tiny_engine: Engine, store: Store, artifacts: Artifacts
) -> None:
    job = await store.jobs.enqueue(replace(SMALL, num_inference_steps=20, variants=2), origin(1))

    async def running() -> bool:
        return (await store.jobs.get(job.id)).state is State.RUNNING

    task = asyncio.create_task(make_worker(tiny_engine, store, artifacts).run())
    await until(running)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {image.state for image in (await store.jobs.get(job.id)).images} == {State.WAITING}
    async with working(make_worker(tiny_engine, store, artifacts)):
        (done,) = await ended(store, job)
    assert done.state is State.DONE


async def test_a_worker_that_is_cancelled_while_it_claims_gives_the_images_back(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, cancelled = asyncio.Event(), asyncio.Event()
    claim = store.leases.claim

    async def late(*arguments: Any, **options: Any) -> list[Claim]:
        claims = await claim(*arguments, **options)
        committed.set()
        await cancelled.wait()
        return claims

    monkeypatch.setattr(store.leases, "claim", late)
    job = await store.jobs.enqueue(replace(SMALL, variants=2), origin(1))
    task = asyncio.create_task(make_worker(tiny_engine, store, artifacts).run())
    await committed.wait()
    task.cancel()
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {image.state for image in (await store.jobs.get(job.id)).images} == {State.WAITING}


async def test_a_worker_that_is_cancelled_waits_for_a_claim_that_hangs_a_moment_only(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hangs(*_arguments: Any, **_options: Any) -> list[Claim]:
        begun.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    monkeypatch.setattr(store.leases, "claim", hangs)
    monkeypatch.setattr("bot.worker.worker.GIVE_BACK_SECONDS", 0.05)
    task = asyncio.create_task(make_worker(tiny_engine, store, artifacts).run())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, DEADLINE)
    assert ended.is_set()

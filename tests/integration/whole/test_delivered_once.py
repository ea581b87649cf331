"""A result is shown once in spite of lost answers and outages."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import pytest
from discord_spec import Documents
from recipes import RECIPE, origin
from results import shows_result
from serving import Served, serving, until

from bot.config import Config
from bot.delivery.content import MessageContent
from bot.delivery.outbox import MAX_ATTEMPTS
from bot.delivery.progress import MessageLocks
from bot.delivery.refusals import DeliveryDelayed
from bot.delivery.result_outbox import Results
from bot.delivery.sender import Sender, Sent
from bot.domain.errors import StoreUnavailable
from bot.domain.jobs import Delivery
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.rules import NONCE_SECONDS
from bot.sandbox.server import Sandbox
from bot.store import Store

Serve = Callable[[], AbstractAsyncContextManager[Served]]


class LaterClock:
    """The time of this machine plus an offset in seconds."""

    def __init__(self) -> None:
        self.later = 0.0

    def __call__(self) -> float:
        return time.time() + self.later


@pytest.fixture
def discords_clock() -> LaterClock:
    return LaterClock()


@pytest.fixture
async def lenient(documents: Documents | None, discords_clock: LaterClock) -> AsyncIterator[Sandbox]:
    """A sandbox whose nonces expire when the test moves its clock."""
    async with Sandbox(observer=documents, clock=discords_clock) as sandbox:
        yield sandbox


@pytest.fixture
def serve(sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object) -> Serve:
    """Start the bot; it stops as if it were killed, without finishing its work."""
    return lambda: serving(sandbox, store, artifacts, Config())


async def ask_for_a_new_message(mina: Member, store: Store, folder: Path) -> str:
    """Return the id of a job whose message is unknown and whose token has expired."""
    await mina.message_of(await mina.imagine(prompt="a boat"))
    (job,) = await store.jobs.active()
    with closing(sqlite3.connect(folder / "queue.sqlite3")) as database, database:
        database.execute("UPDATE jobs SET message_id = NULL, token_expires_at = 0")
    return job.id


async def pictures(mina: Member) -> list[Any]:
    return [message for message in await mina.messages() if shows_result(message)]


async def is_settled(store: Store) -> bool:
    return (await store.jobs.backlog()).undelivered == 0


async def test_a_result_posted_by_a_killed_process_is_not_posted_again(
    serve: Serve, sandbox: Sandbox, mina: Member, discords_clock: LaterClock, tmp_path: Path
) -> None:
    async with serve() as served:
        job_id = await ask_for_a_new_message(mina, served.store, tmp_path)
        sandbox.misbehave(slow_ms=600_000)
        await served.paint(job_id)
        await mina.wait_for_message(shows_result)
    sandbox.misbehave(slow_ms=0)
    discords_clock.later = NONCE_SECONDS + 1
    async with serve() as served:
        await until(lambda: is_settled(served.store))
    (shown,) = await pictures(mina)
    assert (await served.store.jobs.get(job_id)).message_id == int(shown["id"])


async def test_a_result_that_was_sent_but_not_marked_is_only_marked_again(
    served: Served, mina: Member, discords_clock: LaterClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await ask_for_a_new_message(mina, served.store, tmp_path)
    tried = asyncio.Event()

    async def unreachable(_delivery: Delivery, **_: Any) -> None:
        discords_clock.later = NONCE_SECONDS + 1
        tried.set()
        raise StoreUnavailable("The queue cannot be reached.")

    with monkeypatch.context() as outage:
        outage.setattr(served.store.deliveries, "mark_delivered", unreachable)
        outage.setattr("bot.delivery.sender.posted_earlier", nothing_found)
        await served.paint(job_id)
        await asyncio.wait_for(tried.wait(), 20.0)
    await until(lambda: is_settled(served.store))
    assert len(await pictures(mina)) == 1


async def test_a_result_that_was_sent_but_not_marked_goes_with_its_deleted_job(
    served: Served, mina: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await ask_for_a_new_message(mina, served.store, tmp_path)
    mark_delivered = served.store.deliveries.mark_delivered

    async def deleted_meanwhile(_delivery: Delivery, **_: Any) -> None:
        monkeypatch.setattr(served.store.deliveries, "mark_delivered", mark_delivered)
        await served.store.deliveries.delete_result(job_id, user_id=None)
        raise StoreUnavailable("The queue cannot be reached.")

    monkeypatch.setattr(served.store.deliveries, "mark_delivered", deleted_meanwhile)
    await served.paint(job_id)
    await until(lambda: is_gone(mina, served.store, job_id))


async def test_a_result_posted_by_a_killed_process_goes_with_its_deleted_job(
    serve: Serve, sandbox: Sandbox, store: Store, mina: Member, tmp_path: Path
) -> None:
    async with serve() as served:
        job_id = await ask_for_a_new_message(mina, served.store, tmp_path)
        sandbox.misbehave(slow_ms=600_000)
        await served.paint(job_id)
        await mina.wait_for_message(shows_result)
    sandbox.misbehave(slow_ms=0)
    await store.deliveries.delete_result(job_id, user_id=None)
    async with serve() as served:
        await until(lambda: is_gone(mina, served.store, job_id))


async def is_gone(mina: Member, store: Store, job_id: str) -> bool:
    """Whether the result is settled, and no message has its Delete button."""
    buttons = [button for message in await mina.messages() for button in json.dumps(message).split('"')]
    return await is_settled(store) and f"delete:{job_id}" not in buttons


async def nothing_found(*_: object, **__: object) -> None:
    """Find no message, as in a channel that the bot may not read."""


class RecordingSender(Sender):
    """A sender that records its deliveries."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    async def deliver(self, delivery: Delivery, _content: MessageContent, **_told: object) -> Sent:
        self.sent.append(delivery.id)
        return Sent(outcome="edited", message_id=1)


async def finish_a_job(store: Store) -> None:
    """Leave one result that waits to be delivered."""
    await store.jobs.enqueue(RECIPE, origin(1))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=60.0)
    await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)


async def test_a_result_is_given_up_when_its_last_attempt_fails(store: Store, tmp_path: Path) -> None:
    class AwaySender(RecordingSender):
        async def deliver(self, delivery: Delivery, content: MessageContent, **told: object) -> Sent:
            await super().deliver(delivery, content, **told)
            raise DeliveryDelayed("Discord is away")

    await finish_a_job(store)
    sender = AwaySender()
    outbox = Results(store, sender, MessageLocks(), front="front", clock=time.time)
    for made, settled in ((MAX_ATTEMPTS - 2, False), (MAX_ATTEMPTS - 1, True)):
        with closing(sqlite3.connect(tmp_path / "queue.sqlite3")) as database, database:
            database.execute("UPDATE outbox SET attempts = ?, next_try_at = 0", (made,))
        await outbox.flush(seconds=20.0)
        assert await is_settled(store) is settled
    assert len(sender.sent) == 2


async def test_a_flush_beside_the_running_outbox_sends_nothing_a_second_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finish_a_job(store)
    claim_deliveries, asked, answer = store.deliveries.claim, asyncio.Event(), asyncio.Event()

    async def slow_at_first(front: str, *, limit: int, held: Collection[int] = ()) -> list[Delivery]:
        first = not asked.is_set()
        asked.set()
        found = await claim_deliveries(front, limit=limit, held=held)
        if first:
            await answer.wait()
        return found

    monkeypatch.setattr(store.deliveries, "claim", slow_at_first)
    sender = RecordingSender()
    outbox = Results(store, sender, MessageLocks(), front="front", clock=time.time)
    running = asyncio.create_task(outbox.run())
    await asked.wait()
    flushing = asyncio.create_task(outbox.flush(seconds=20.0))
    await asyncio.sleep(0)
    answer.set()
    await flushing
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(sender.sent) == 1
    assert await is_settled(store)

"""Transactions that lock the same rows wait for each other on PostgreSQL, and none is ended as a deadlock."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator

import pytest
from finished_jobs import delivered
from recipes import RECIPE, origin
from session_steps import ask, opened
from stores import Clock, lock_reached

from bot.domain.errors import StoreUnavailable
from bot.domain.jobs import Descent, Job, Parent
from bot.store import Store
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope
from bot.store.rows.sessions import lock_session
from bot.store.rows.transitions import lock_job

pytestmark = pytest.mark.postgres
HERE, OMAR = 21, 12
BY = By(actor_id=91, guild_id=HERE)


@pytest.fixture
async def store(postgres_url: str, clock: Clock) -> AsyncIterator[Store]:
    store = await Store.open(postgres_url, clock=clock)
    yield store
    await store.close()


async def pair(store: Store) -> tuple[Job, Job]:
    """A result and a published copy, whose id is smaller."""
    for number in range(1, 60, 2):
        first = await delivered(store, number, f"aa/{number}.png")
        asked = origin(
            number + 1, user_id=OMAR, parent=Parent(job_id=first.id, descent=Descent.SINGLE, index=0)
        )
        copy = await store.jobs.copy(first.id, asked, index=0)
        if copy.id < first.id:
            return first, copy
    raise AssertionError


async def descending(store: Store) -> tuple[str, str]:
    """Two requests of which the later has the smaller id: the order of rows and that of ids differ."""
    before = await store.jobs.enqueue(RECIPE, origin(1, user_id=1))
    for number in range(2, 60):
        job = await store.jobs.enqueue(RECIPE, origin(number, user_id=number))
        if job.id < before.id:
            return before.id, job.id
        before = job
    raise AssertionError


async def test_a_report_that_hides_a_picture_and_an_erasure_do_not_deadlock(store: Store) -> None:
    await store.reviews.set_settings(BY, reports=1)
    first, copy = await pair(store)
    async with store.shared.database.write() as connection:
        await lock_job(connection, copy.id)
        clearing = asyncio.create_task(store.erasure.erase([first.id, copy.id]))
        await lock_reached(store, clearing)
        reporting = asyncio.create_task(store.reports.add(first.id, 99, guild_id=HERE, reason=""))
        await lock_reached(store, clearing, reporting)
    found = await asyncio.gather(clearing, reporting, return_exceptions=True)
    assert not any(isinstance(each, StoreUnavailable) for each in found), found


async def test_the_adoption_of_jobs_and_a_pause_do_not_deadlock(store: Store) -> None:
    high, low = await descending(store)
    async with store.shared.database.write() as connection:
        await lock_job(connection, low)
        pausing = asyncio.create_task(store.moderation.pause(Scope(guild_id=HERE), BY))
        await lock_reached(store, pausing)
        adopting = asyncio.create_task(store.deliveries.adopt("front", [high, low]))
        await lock_reached(store, pausing, adopting)
    found = await asyncio.gather(pausing, adopting, return_exceptions=True)
    assert not any(isinstance(each, StoreUnavailable) for each in found), found


async def test_a_request_a_cancellation_and_the_end_of_a_round_do_not_deadlock(store: Store) -> None:
    session = await opened(store)
    job = await ask(store, session, 1, user_id=11)
    await store.sessions.next(session.id, BY)  # collecting
    async with store.shared.database.write() as connection:
        await lock_session(connection, session.id)
        ending = asyncio.create_task(store.sessions.next(session.id, BY))
        await lock_reached(store, ending)
        asking = asyncio.create_task(ask(store, session, 2, user_id=11))
        await lock_reached(store, ending, asking)
        cancelling = asyncio.create_task(store.jobs.cancel(job.id, user_id=11))
        await lock_reached(store, ending, asking, cancelling)
    found = await asyncio.gather(ending, asking, cancelling, return_exceptions=True)
    assert not any(isinstance(each, StoreUnavailable) for each in found), found


@pytest.mark.parametrize("how", ["clear", "erase"])
async def test_the_deletion_of_two_requests_and_the_end_of_a_round_do_not_deadlock(
    store: Store, how: str
) -> None:
    session = await opened(store)
    job_ids = [(await ask(store, session, number, user_id=11)).id for number in (1, 2)]
    await store.sessions.next(session.id, BY)  # collecting
    async with store.shared.database.write() as connection:
        await lock_session(connection, session.id)
        ending = asyncio.create_task(store.sessions.next(session.id, BY))
        await lock_reached(store, ending)
        erase = functools.partial(store.erasure.erase, job_ids)
        clear = functools.partial(store.deliveries.clear, job_ids, by=BY, subject_id=11)
        deleting = asyncio.create_task(erase() if how == "erase" else clear())
        await lock_reached(store, ending, deleting)
    found = await asyncio.gather(ending, deleting, return_exceptions=True)
    assert not any(isinstance(each, StoreUnavailable) for each in found), found

"""Logins at the operators' page, on every database."""

from __future__ import annotations

import asyncio

import sqlalchemy as sa
from stores import Clock

from bot.store import Store
from bot.store.operations.logins import IDLE_SECONDS, LINK_SECONDS, SESSION_SECONDS
from bot.store.tables.logins import logins


async def test_a_link_opens_one_session_whoever_comes_first(store: Store) -> None:
    link = await store.logins.invite(7)
    opened = await asyncio.gather(*(store.logins.enter(link) for _ in range(4)))
    (session,) = [secret for secret in opened if secret is not None]
    found = await store.logins.find(session)
    assert found is not None
    assert found.user_id == 7
    assert await store.logins.find(link) is None
    assert await store.logins.enter(session) is None


async def test_a_session_of_a_person_is_opened_without_a_link(store: Store) -> None:
    found = await store.logins.find(await store.logins.open(7))
    assert found is not None
    assert found.user_id == 7


async def test_a_link_ends_after_ten_minutes(store: Store, clock: Clock) -> None:
    link = await store.logins.invite()
    clock.now += LINK_SECONDS
    assert await store.logins.enter(link) is None


async def test_a_session_ends_when_it_is_idle_and_after_twelve_hours_at_the_latest(
    store: Store, clock: Clock
) -> None:
    session = await store.logins.enter(await store.logins.invite()) or ""
    began = clock.now
    while clock.now + IDLE_SECONDS / 2 < began + SESSION_SECONDS:
        clock.now += IDLE_SECONDS / 2
        assert await store.logins.find(session) is not None
    clock.now = began + SESSION_SECONDS
    assert await store.logins.find(session) is None
    idle = await store.logins.enter(await store.logins.invite()) or ""
    clock.now += IDLE_SECONDS
    assert await store.logins.find(idle) is None


async def test_leaving_ends_one_session_or_all_of_the_person(store: Store) -> None:
    first, second, other = [
        await store.logins.enter(await store.logins.invite(person)) or "" for person in (7, 7, 8)
    ]
    link = await store.logins.invite(7)
    await store.logins.leave(first)
    assert [await store.logins.find(each) is not None for each in (first, second, other)] == [
        False,
        True,
        True,
    ]
    await store.logins.leave(second, everywhere=True)
    assert await store.logins.find(second) is None
    assert await store.logins.enter(link) is None
    assert await store.logins.find(other) is not None
    await store.logins.leave("nobody's", everywhere=True)
    assert await store.logins.find(other) is not None


async def test_the_database_holds_no_secret_and_forgets_what_is_over(store: Store, clock: Clock) -> None:
    link = await store.logins.invite()
    session = await store.logins.enter(await store.logins.invite()) or ""
    async with store.shared.database.read() as connection:
        rows = str([tuple(row) for row in await connection.execute(sa.select(logins))])
    assert link not in rows
    assert session not in rows
    clock.now += LINK_SECONDS
    assert await store.logins.lapse() == 1
    assert await store.logins.find(session) is not None


async def test_everything_of_a_person_includes_the_logins(store: Store) -> None:
    session = await store.logins.enter(await store.logins.invite(7)) or ""
    await store.erasure.erase_preferences(user_id=7)
    assert await store.logins.find(session) is None

"""What a front does about a board that Discord does not take, on every database."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import discord
import pytest
from stores import Clock

from bot.delivery.refusals import ARCHIVED, MISSING_PERMISSIONS, UNKNOWN_MESSAGE
from bot.front.sessions.desk import LONGEST_WAIT, MAX_REFUSALS, REFUSED_SECONDS, Desk
from bot.store import Store
from bot.store.auditing import By
from bot.store.session_rows import GroupSession, Phase, Plan, Post

BY = By(actor_id=1, guild_id=21)
PLAN = Plan(quota=3, session_seconds=3600.0)


class Channel:
    """A channel of Discord that refuses each message with a code, and says so."""

    def __init__(self) -> None:
        self.code = 0
        self.edited = asyncio.Event()

    user = None

    def get_partial_messageable(self, _channel_id: int, **_: Any) -> Channel:
        return self

    def get_partial_message(self, _message_id: int) -> Channel:
        return self

    async def edit(self, **_: Any) -> None:
        self.edited.set()
        await self.send()

    async def send(self, **_: Any) -> None:
        response: Any = SimpleNamespace(status=403, reason="Forbidden", headers={})
        raise discord.HTTPException(response, {"code": self.code, "message": "no"})


async def looks(store: Store, channel: Channel, clock: Clock) -> None:
    """Let a front that starts show the sessions, until it has tried to edit a board."""
    services: Any = SimpleNamespace(store=store, front="one")
    client: Any = channel
    channel.edited.clear()
    running = asyncio.create_task(Desk(client, lambda: services, clock=clock).run())
    await channel.edited.wait()
    showing = [task for task in asyncio.all_tasks() if task.get_name().startswith("group session ")]
    await asyncio.gather(*showing)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def closed(store: Store) -> GroupSession:
    """A closed session with a board, and a sheet that is sent later."""
    session = await store.sessions.open(PLAN, BY, channel_id=31, locale="en-US")
    await store.sessions.close(session.id, BY)
    for timer in await store.sessions.overdue():
        await store.sessions.act(*timer)
    (kept,) = await store.showing.keep("one", ttl=30.0)
    assert kept.phase is Phase.CLOSED
    await store.showing.set_board(kept, 500)
    (post,) = await store.showing.due(session.id)
    await store.showing.retry(post, token=kept.keeper_token, at=store.clock() + REFUSED_SECONDS)
    return kept


@pytest.mark.parametrize("code", [UNKNOWN_MESSAGE, ARCHIVED])
async def test_a_closed_session_ends_whatever_its_board_but_after_its_last_message(
    store: Store, clock: Clock, code: int
) -> None:
    session, channel = await closed(store), Channel()
    channel.code = code
    await looks(store, channel, clock)
    assert await store.showing.keep("one", ttl=30.0)  # the sheet is still to be sent
    clock.now += REFUSED_SECONDS
    (kept,) = await store.showing.keep("one", ttl=30.0)
    (post,) = await store.showing.due(session.id)
    await store.showing.settle(post, token=kept.keeper_token, outcome="sent")
    await looks(store, channel, clock)
    assert await store.showing.keep("one", ttl=30.0) == []


async def test_a_message_waits_until_the_bot_may_write_again_but_not_for_ever(
    store: Store, clock: Clock
) -> None:
    session, channel = await closed(store), Channel()
    channel.code = MISSING_PERMISSIONS
    for attempts in range(1, MAX_REFUSALS + 1):
        clock.now += LONGEST_WAIT
        await looks(store, channel, clock)
        (post,) = await later(store, clock, session)
        assert post.attempts == attempts
    clock.now += LONGEST_WAIT
    await looks(store, channel, clock)
    assert await store.showing.keep("one", ttl=30.0) == []


async def later(store: Store, clock: Clock, session: GroupSession) -> list[Post]:
    """Return the posts that are due once the longest pause has passed."""
    clock.now += LONGEST_WAIT
    found = await store.showing.due(session.id)
    clock.now -= LONGEST_WAIT
    return found


async def test_every_session_is_shown_however_many_there_are(store: Store) -> None:
    opened = set()
    for number in range(51):
        by = By(actor_id=1, guild_id=21 + number)
        session = await store.sessions.open(PLAN, by, channel_id=100 + number, locale="en-US")
        opened.add(session.id)
    assert {session.id for session in await store.showing.keep("one", ttl=30.0)} == opened

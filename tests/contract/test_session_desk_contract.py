"""The desk of a front: which messages of a vote it edits, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from session_steps import voting
from stores import Clock

from bot.delivery.discord_requests import RateGuard
from bot.delivery.refusals import DeliveryDelayed
from bot.front.sessions.desk import KEPT_SECONDS, WAIT_SECONDS, Desk
from bot.store import Store
from bot.store.rows.sessions import GroupSession
from bot.store.sessions.posts import SENT


class Courier:
    """Counts the edits of a board and of ballots; Discord delays those of the board."""

    def __init__(self) -> None:
        self.boards = self.ballots = 0

    async def edit(self, *_: Any) -> None:
        self.boards += 1
        raise DeliveryDelayed("429 30046 Maximum number of edits to messages older than 1 hour reached")

    async def edit_posted(self, *_: Any, **__: Any) -> None:
        self.ballots += 1


@pytest.fixture
async def vote(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> GroupSession:
    """A vote whose board and ballot are posted."""

    async def drawn(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr("bot.front.sessions.posts.draw", drawn)
    await voting(store, clock)
    (session,) = await store.showing.keep("one", ttl=3000.0)
    (post,) = await store.posts.claim("one", limit=9)
    await store.posts.settle(post, outcome=SENT)
    await store.showing.set_board(session, 500)
    return session


async def test_a_board_that_discord_takes_later_keeps_no_ballot_from_being_edited(
    store: Store, clock: Clock, vote: GroupSession
) -> None:
    services: Any = SimpleNamespace(store=store, front="one")
    desk = Desk(SimpleNamespace(user=None), lambda: services, rate_guard=RateGuard(clock=clock), clock=clock)  # type: ignore[arg-type]
    courier: Any = Courier()
    desk._courier = courier

    async def look() -> None:
        await desk._tick()
        for task in list(desk._tasks.values()):
            await task
        clock.now += WAIT_SECONDS + 1

    await look()
    assert (courier.boards, courier.ballots) == (1, 1)
    await look()
    assert (courier.boards, courier.ballots) == (2, 1)  # the ballot has not changed
    while courier.boards < 2 + 2 * KEPT_SECONDS / WAIT_SECONDS:
        await look()
    assert courier.ballots == 2  # again: the front before this one may have edited it meanwhile

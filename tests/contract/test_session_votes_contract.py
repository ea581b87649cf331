"""Pictures of group sessions that come or go after the end of their round, on every database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from session_steps import BY, ROUND, VOTE, act, act_once, approve, ask, finish, held, opened, refused, voting
from stores import Clock, lock_reached

from bot.delivery.content import MessageContent
from bot.domain.errors import UserMistake
from bot.domain.holds import Cause, Hold
from bot.front.sessions.posts import renew_ballots
from bot.store import Store
from bot.store.rows.sessions import GroupSession, Phase, PostKind
from bot.store.rows.transitions import lock_job
from bot.store.sessions.posts import SENT
from bot.store.sessions.sessions import AT_ONCE_SECONDS
from bot.store.tables.queue import jobs


class Edits:
    """A courier that notes the content of each edit."""

    def __init__(self) -> None:
        self.made: list[MessageContent] = []

    async def edit_posted(self, _session: GroupSession, content: MessageContent, **_: Any) -> None:
        self.made.append(content)


async def left(store: Store, session: GroupSession) -> tuple[int, int]:
    """How many pictures of the round are unseen and late."""
    crowd = await store.showing.crowd(await store.sessions.get(session.id))
    return crowd.unseen, crowd.late


async def numbered(store: Store, session: GroupSession) -> list[tuple[int, int, str]]:
    """Round, number and job of each entry."""
    found = await store.showing.entries(session.id)
    return [(entry.round, entry.number, entry.job_id) for entry in found]


async def test_a_picture_let_through_while_people_vote_is_in_the_archive_of_the_round(
    store: Store, clock: Clock
) -> None:
    session = await opened(store)
    waiting = await held(store, session, 1)
    seen = await ask(store, session, 2, user_id=12)
    await finish(store, count=1)
    clock.now += ROUND
    await act(store)
    assert await left(store, session) == (1, 0)
    await approve(store, waiting)
    assert await left(store, session) == (0, 1)
    assert await refused(store.showing.vote(session.id, 1, 2, voter_id=13)) == "vote_gone"
    clock.now += VOTE
    await act_once(store)
    assert await numbered(store, session) == [(1, 1, seen.id), (1, 2, waiting.id)]
    assert await left(store, session) == (0, 0)


async def test_of_two_hosts_who_go_on_at_the_same_moment_one_ends_the_phase(
    store: Store, clock: Clock
) -> None:
    session = await voting(store, clock)
    other = replace(BY, actor_id=BY.actor_id + 1)
    ends = await asyncio.gather(
        *(store.sessions.next(session.id, by) for by in (BY, other)), return_exceptions=True
    )
    assert [str(each) for each in ends if isinstance(each, UserMistake)] == ["session_moved"]
    moved = await store.sessions.get(session.id)
    assert (moved.phase, moved.round) == (Phase.RESTING, 1)
    clock.now += AT_ONCE_SECONDS
    for by in (BY, other):
        clock.now += AT_ONCE_SECONDS
        moved = await store.sessions.next(session.id, by)
    assert moved.round == 2


async def test_a_picture_let_through_after_its_round_is_in_the_archive_of_the_session(
    store: Store, clock: Clock
) -> None:
    session = await voting(store, clock)
    await store.sessions.next(session.id, BY)
    await store.sessions.next(session.id, BY)
    waiting = await held(store, session, 3)
    await store.sessions.next(session.id, BY)
    await act(store)
    assert (await store.sessions.get(session.id)).phase is Phase.RESTING
    await approve(store, waiting)
    assert await left(store, session) == (0, 1)
    await store.sessions.close(session.id, BY)
    assert (await numbered(store, session))[2:] == [(2, 1, waiting.id)]


async def test_a_session_of_one_round_has_an_archive_of_its_own_where_a_picture_came_late(
    store: Store,
) -> None:
    session = await opened(store)
    waiting = await held(store, session, 1)
    await store.sessions.next(session.id, BY)
    await act(store)
    await approve(store, waiting)
    await store.sessions.close(session.id, BY)
    posts = [(post.kind, post.round) for post in await store.posts.unsettled(session.id)]
    assert posts == [(PostKind.SHEET, 1), (PostKind.SHEET, 0), (PostKind.ARCHIVE, 0), (PostKind.END, 1)]
    assert await numbered(store, session) == [(1, 1, waiting.id)]


async def test_pictures_that_came_late_get_a_sheet_where_the_ballot_has_no_room(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.store.sessions.phases.PAGE_ENTRIES", 2)
    session = await opened(store)
    waiting = await held(store, session, 3)
    for number, user_id in ((1, 12), (2, 13)):
        await ask(store, session, number, user_id)
    await finish(store, count=2)
    await store.sessions.next(session.id, BY)
    await act(store)
    await approve(store, waiting)
    await store.sessions.next(session.id, BY)
    posts = [(post.kind, post.page, post.ballot) for post in await store.posts.unsettled(session.id)]
    assert posts == [
        (PostKind.SHEET, 1, True),
        (PostKind.SHEET, 2, False),
        (PostKind.RESULTS, 1, False),
        (PostKind.ARCHIVE, 1, False),
        (PostKind.CLOSED_BALLOT, 1, False),
    ]


async def test_the_end_of_a_session_and_a_change_of_its_jobs_do_not_wait_for_each_other(
    store: Store, clock: Clock
) -> None:
    session = await opened(store)
    painted = [await ask(store, session, number, user_id=10 + number) for number in range(1, 9)]
    await finish(store, count=8)
    for _ in range(3):
        await store.sessions.next(session.id, BY)
        await act(store)
    latest = await ask(store, session, 9)
    await finish(store, count=1)
    await store.sessions.next(session.id, BY)
    await act(store)
    # Ids are random: the smallest is most likely of the first round. Jobs are locked in the order of ids.
    first, second = sorted([min(job.id for job in painted), latest.id])
    async with store.shared.database.write() as connection:
        await lock_job(connection, first)
        closing = asyncio.create_task(store.sessions.close(session.id, BY))
        await lock_reached(store, closing)
        await lock_job(connection, second)
    assert (await closing).phase is Phase.CLOSED


async def test_a_vote_that_moves_while_both_pictures_are_deleted_is_refused(
    store: Store, clock: Clock
) -> None:
    session = await voting(store, clock)
    entries = await store.showing.entries(session.id, 1)
    await store.showing.vote(session.id, 1, 1, voter_id=99)
    async with store.shared.database.write() as connection:
        for job_id in sorted(entry.job_id for entry in entries):
            await lock_job(connection, job_id)
        moving = asyncio.create_task(refused(store.showing.vote(session.id, 1, 2, voter_id=99)))
        await lock_reached(store, moving)
        await connection.execute(sa.delete(jobs))
    assert await moving == "vote_gone"
    assert await store.showing.votes_of(99) == []


async def test_votes_for_a_picture_under_review_are_not_counted_until_it_is_shown(
    store: Store, clock: Clock
) -> None:
    session = await voting(store, clock)
    (entry, _) = await store.showing.entries(session.id, 1)
    await store.showing.vote(session.id, 1, entry.number, voter_id=99)
    assert await store.showing.voters(session.id, 1) == 1
    job = await store.reviews.hold(entry.job_id, Hold(cause=Cause.MODE), BY)
    assert await store.showing.voters(session.id, 1) == 0
    await approve(store, job)
    assert await store.showing.voters(session.id, 1) == 1


async def test_a_ballot_is_edited_where_it_would_change_and_never_after_the_vote(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drawn(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr("bot.front.sessions.posts.draw", drawn)
    await voting(store, clock)
    (session,) = await store.showing.keep("one", ttl=30.0)
    (post,) = await store.posts.claim("one", limit=9)
    services: Any = SimpleNamespace(store=store)
    courier: Any = Edits()
    shown: dict[int, MessageContent] = {}
    await renew_ballots(services, courier, session, shown)
    assert courier.made == []  # it is not sent yet
    await store.posts.settle(post, outcome=SENT)
    for _ in range(2):
        await renew_ballots(services, courier, session, shown)
    assert len(courier.made) == 1  # the first edit: this front does not know what the ballot shows
    await store.sessions.extend(session.id, BY, seconds=600.0)
    await renew_ballots(services, courier, session, shown)
    assert [f"<t:{round(clock.now + VOTE) + more}:R>" in courier.made[-1].heading for more in (0, 600)] == [
        False,
        True,
    ]
    await store.sessions.next(session.id, BY)
    await renew_ballots(services, courier, session, {})  # `session` is as it was in the vote
    assert len(courier.made) == 2

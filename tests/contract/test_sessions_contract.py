"""Group sessions, their rounds, timers and quotas, on every database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from recipes import RECIPE
from session_steps import (
    BY,
    CHANNEL,
    HERE,
    HOURS,
    MINA,
    PLAN,
    ROUND,
    VOTE,
    act,
    act_once,
    ask,
    asks,
    finish,
    opened,
    refused,
    voting,
)
from stores import Clock, OpenStore, lock_reached

from bot.domain.errors import UserMistake
from bot.domain.jobs import Job
from bot.files import Artifacts, Files
from bot.files.erasure import forget
from bot.store import Store
from bot.store.rows.audit import Act, By
from bot.store.rows.restrictions import Scope
from bot.store.rows.sessions import Phase, PostKind, TimerKind
from bot.store.rows.transitions import lock_job
from bot.store.tables.queue import images


async def test_of_two_sessions_at_once_a_full_server_opens_one(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.store.sessions.sessions.MOST_OPEN", 1)
    stores = [await open_store(), await open_store()]
    found = await asyncio.gather(
        *(
            store.sessions.open(PLAN, BY, channel_id=channel_id, locale="en-US")
            for store, channel_id in zip(stores, (CHANNEL, CHANNEL + 1), strict=True)
        ),
        return_exceptions=True,
    )
    assert [each.message_id for each in found if isinstance(each, UserMistake)] == ["sessions_full"]


async def test_a_channel_has_one_open_session_and_its_opening_is_in_the_log(store: Store) -> None:
    session = await opened(store)
    assert (session.phase, session.round, session.host_id) == (Phase.PAINTING, 1, MINA)
    assert await store.sessions.here(CHANNEL) == session
    assert await store.sessions.here(CHANNEL + 1) is None
    assert await refused(opened(store)) == "session_here"
    (entry,) = await store.moderation.entries(HERE, limit=9)
    assert (entry.act, entry.actor_id, entry.after and entry.after["change"]) == (Act.SESSION, MINA, "open")
    await store.sessions.close(session.id, BY)
    await act(store)
    assert await store.sessions.here(CHANNEL) is None
    assert (await opened(store)).id != session.id


async def test_a_round_takes_pictures_of_its_session_up_to_the_quota_of_each_person(store: Store) -> None:
    session = await opened(store)
    assert await refused(store.jobs.enqueue(RECIPE, asks(1))) == "session_changed"
    assert await refused(store.jobs.enqueue(RECIPE, asks(1, channel_id=9), session_id=session.id)) == (
        "session_changed"
    )
    private = store.jobs.enqueue(RECIPE, asks(1, private=True), session_id=session.id)
    assert await refused(private) == "session_private"
    first = await ask(store, session, 2, count=2)
    assert await refused(ask(store, session, 3, count=2)) == "session_quota"
    await ask(store, session, 4)
    await ask(store, session, 5, user_id=12, count=3)
    assert await refused(ask(store, session, 6)) == "session_quota_used"
    await store.jobs.cancel(first.id, user_id=11)  # what is cancelled is not charged
    await ask(store, session, 7, count=2)
    assert await store.showing.used(session, 11) == 3
    assert (await ask(store, session, 7, count=2)).id == (await store.jobs.by_interaction(7)).id


async def test_of_two_requests_for_the_last_picture_one_is_taken(open_store: OpenStore) -> None:
    one, other = await open_store(), await open_store()
    session = await opened(one, quota=1)
    found = await asyncio.gather(
        ask(one, session, 1), ask(other, session, 2), ask(one, session, 3), return_exceptions=True
    )
    assert sum(isinstance(each, Job) for each in found) == 1
    assert {each.message_id for each in found if isinstance(each, UserMistake)} == {"session_quota_used"}


async def test_in_a_session_weights_and_earlier_work_do_not_count(store: Store) -> None:
    session = await opened(store)
    await store.jobs.enqueue(replace(RECIPE, variants=9), asks(1, channel_id=9), weight=1.0)
    jobs = [await ask(store, session, 2, 11), await ask(store, session, 3, 12)]
    heavy = await store.jobs.enqueue(RECIPE, asks(4, user_id=13), weight=9.0, session_id=session.id)
    tags = [claim.job_id for claim in await store.leases.claim("w", limit=99, ttl=60.0)]
    assert set(tags[:4]) >= {*(job.id for job in jobs), heavy.id}


async def test_cancelled_and_paused_work_moves_the_place_in_the_session_and_no_other(
    store: Store, clock: Clock
) -> None:
    session = await opened(store, quota=9)
    job = await ask(store, session, 1, count=9)
    await store.jobs.cancel(job.id, user_id=11)
    await ask(store, session, 2, user_id=12)
    again = await ask(store, session, 3)
    await store.moderation.pause(Scope(guild_id=HERE), BY)
    outside = await store.jobs.enqueue(
        replace(RECIPE, variants=3), asks(4, user_id=14, guild_id=5, channel_id=9)
    )
    await finish(store, count=3)
    await store.moderation.resume(Scope(guild_id=HERE), BY)
    later = await ask(store, session, 5)
    claims = [claim.job_id for claim in await store.leases.claim("w", limit=9, ttl=60.0)]
    assert claims.index(again.id) < claims.index(later.id)
    assert (await store.jobs.get(outside.id)).state.final


async def test_two_fronts_act_once_on_a_timer(open_store: OpenStore, clock: Clock) -> None:
    one, other = await open_store(), await open_store()
    session = await opened(one)
    clock.now += ROUND
    acted = await asyncio.gather(*(act_once(store) for store in (one, other) * 2))
    assert sum(acted) >= 1
    await asyncio.gather(act(one), act(other))
    found = await one.sessions.get(session.id)
    assert (found.phase, found.round) == (Phase.RESTING, 1)  # nobody has painted: there is no vote
    posts = await other.posts.unsettled(session.id)
    assert [(post.kind, post.round, post.page) for post in posts] == [(PostKind.SHEET, 1, 1)]


async def test_a_round_is_voted_on_and_counted(store: Store, clock: Clock) -> None:
    session = await voting(store, clock)
    assert (session.phase, [*session.timers]) == (Phase.VOTING, [TimerKind.SESSION, TimerKind.VOTE])
    first, second = await store.showing.entries(session.id, 1)
    assert (first.number, first.user_id, second.number, second.user_id) == (1, 11, 2, 12)
    vote = store.showing.vote
    assert await refused(vote(session.id, 1, 1, voter_id=11)) == "vote_own"
    assert await refused(vote(session.id, 1, 7, voter_id=11)) == "vote_gone"
    assert await refused(vote(session.id, 2, 1, voter_id=11)) == "vote_closed"
    assert await vote(session.id, 1, 1, voter_id=13)
    assert not await vote(session.id, 1, 2, voter_id=13)
    assert await vote(session.id, 1, 2, voter_id=11)
    clock.now += VOTE
    assert await act_once(store) == 1
    assert await refused(vote(session.id, 1, 2, voter_id=14)) == "vote_closed"
    assert [each.votes for each in await store.showing.entries(session.id, 1)] == [0, 2]
    kinds = [post.kind for post in await store.posts.unsettled(session.id)]
    assert kinds == [PostKind.SHEET, PostKind.RESULTS, PostKind.ARCHIVE, PostKind.CLOSED_BALLOT]
    await store.sessions.next(session.id, BY)
    assert await store.showing.used(session, 11) == 1
    assert (await store.sessions.get(session.id)).round == 2
    assert (await ask(store, session, 9, count=3)).images  # a new round, a new quota


async def test_a_vote_against_the_close_counts_or_is_refused(open_store: OpenStore, clock: Clock) -> None:
    one, other = await open_store(), await open_store()
    session = await voting(one, clock)
    clock.now += VOTE
    voted, _ = await asyncio.gather(
        one.showing.vote(session.id, 1, 1, voter_id=13), act_once(other), return_exceptions=True
    )
    counted = sum(each.votes for each in await other.showing.entries(session.id, 1))
    assert counted == (0 if isinstance(voted, UserMistake) else 1)
    assert (await one.sessions.get(session.id)).phase is Phase.RESTING


async def test_a_pause_stops_the_clock_and_the_pictures_and_the_votes(store: Store, clock: Clock) -> None:
    session = await opened(store)
    clock.now += 100.0
    paused = await store.sessions.pause(session.id, BY)
    assert paused.paused
    assert paused.timers[TimerKind.ROUND].left == ROUND - 100.0
    assert await refused(store.sessions.pause(session.id, BY)) == "session_paused"
    assert await refused(store.sessions.next(session.id, BY)) == "session_paused"
    assert await refused(ask(store, session, 1)) == "session_paused"
    assert await refused(ask(store, session, 1, user_id=MINA)) == "session_paused_host"
    clock.now += 5000.0
    assert await act_once(store) == 0
    await store.sessions.extend(session.id, BY, seconds=60.0)
    resumed = await store.sessions.resume(session.id, BY)
    assert resumed.timers[TimerKind.ROUND].due_at == clock.now + ROUND - 100.0 + 60.0
    assert await refused(store.sessions.resume(session.id, BY)) == "session_not_paused"
    await ask(store, session, 1)
    changes = [
        entry.after and entry.after["change"] for entry in await store.moderation.entries(HERE, limit=9)
    ]
    assert changes == ["resume", "extend", "pause", "open"]
    await store.sessions.pause(session.id, BY)
    assert [(post.kind, post.page) for post in await store.posts.unsettled(session.id)] == [
        (PostKind.PAUSE, 1),
        (PostKind.EXTENSION, 1),
        (PostKind.RESUMPTION, 1),
        (PostKind.PAUSE, 2),
    ]


async def test_the_end_of_a_round_waits_for_its_pictures_but_not_for_ever(store: Store, clock: Clock) -> None:
    session = await opened(store)
    await ask(store, session, 1)
    await ask(store, session, 2, user_id=12)
    await finish(store, count=1)
    await store.sessions.next(session.id, BY)
    await act_once(store)
    assert (await store.sessions.get(session.id)).phase is Phase.COLLECTING
    assert await refused(ask(store, session, 3)) == "session_round_over"
    clock.now += 599.0
    await act(store)
    assert (await store.sessions.get(session.id)).phase is Phase.COLLECTING
    clock.now += 3.0
    await act(store)
    assert (await store.sessions.get(session.id)).phase is Phase.VOTING
    assert len(await store.showing.entries(session.id)) == 1


async def test_the_end_of_a_round_and_a_change_of_its_job_do_not_wait_for_each_other(store: Store) -> None:
    session = await opened(store)
    job = await ask(store, session, 1)
    await finish(store, count=1)
    await store.sessions.next(session.id, BY)
    async with store.shared.database.write() as connection:
        await lock_job(connection, job.id)
        ending = asyncio.create_task(act(store))
        await lock_reached(store, ending)
        await connection.execute(sa.select(images.c.id).where(images.c.job_id == job.id).with_for_update())
    await ending
    assert (await store.sessions.get(session.id)).phase is Phase.VOTING


async def test_a_clock_that_was_set_back_does_not_stop_the_end_of_a_session(
    store: Store, clock: Clock
) -> None:
    session = await opened(store)
    await ask(store, session, 1)
    await store.sessions.close(session.id, BY)
    await act_once(store)
    assert (await store.sessions.get(session.id)).phase is Phase.CLOSING
    assert await refused(ask(store, session, 9)) == "session_closing"
    clock.now -= 7200.0
    await act(store)
    assert (await store.sessions.get(session.id)).phase is Phase.CLOSED


async def test_after_a_downtime_overdue_timers_act_at_once_and_in_order(store: Store, clock: Clock) -> None:
    session = await opened(store)
    await ask(store, session, 1)
    await finish(store, count=1)
    clock.now += HOURS + ROUND
    await act(store)
    closed = await store.sessions.get(session.id)
    assert (closed.phase, closed.round, closed.closed_at) == (Phase.CLOSED, 1, clock.now)
    kinds = [post.kind for post in await store.posts.unsettled(session.id)]
    assert kinds == [PostKind.SHEET, PostKind.ARCHIVE, PostKind.END]
    assert await refused(store.sessions.close(session.id, BY)) == "session_ended"


async def test_a_front_that_died_is_followed_and_changes_nothing_more(store: Store, clock: Clock) -> None:
    session = await voting(store, clock)
    (kept,) = await store.showing.keep("one", ttl=30.0)
    assert await store.showing.keep("two", ttl=30.0) == []
    (late,) = await store.posts.claim("one", limit=9)
    assert await store.posts.claim("two", limit=9) == []
    assert await store.posts.claim("one", limit=9, held=[late.id]) == []
    assert await store.showing.set_board(kept, 500)
    (same,) = await store.showing.keep("one", ttl=30.0)
    assert (same.keeper_token, same.board_id) == (kept.keeper_token, 500)
    clock.now += 31.0
    (taken,) = await store.showing.keep("two", ttl=30.0)
    assert taken.keeper_token > kept.keeper_token
    assert await store.posts.claim("one", limit=9) == []
    (post,) = await store.posts.claim("two", limit=9)
    assert (post.post, late.tried_before, post.tried_before) == (late.post, False, True)
    await store.posts.settle(late, outcome="sent")
    assert await store.posts.unsettled(session.id) == [post.post]
    assert not await store.showing.set_board(kept, 501)
    await store.posts.settle(post, outcome="sent")
    assert await store.posts.unsettled(session.id) == []
    assert await store.showing.end(taken)
    assert await store.showing.keep("two", ttl=30.0) == []


async def test_a_clock_that_was_set_back_keeps_no_session_and_no_post_waiting(
    store: Store, clock: Clock
) -> None:
    session = await voting(store, clock)
    assert await store.showing.keep("one", ttl=30.0)
    assert await store.posts.is_due(session.id)
    (post,) = await store.posts.claim("one", limit=9)
    await store.posts.retry(post, at=clock.now + 600.0)
    assert (await store.posts.claim("one", limit=9), await store.posts.is_due(session.id)) == ([], False)
    clock.now -= 7200.0
    assert [each.post for each in await store.posts.claim("one", limit=9)] == [post.post]
    assert await store.showing.keep("two", ttl=30.0)


async def test_any_moderator_takes_a_session_over(store: Store) -> None:
    session = await opened(store)
    taken = await store.sessions.take_over(session.id, By(actor_id=2, guild_id=HERE))
    assert taken.host_id == 2
    (entry, _) = await store.moderation.entries(HERE, limit=9)
    assert (entry.actor_id, entry.subject_id) == (2, MINA)


async def test_what_a_person_and_a_server_leave_behind_is_deleted(
    store: Store, clock: Clock, tmp_path: Any
) -> None:
    session = await voting(store, clock)
    await store.showing.vote(session.id, 1, 1, voter_id=12)
    await store.showing.vote(session.id, 1, 2, voter_id=11)
    files = Files(store.files, Artifacts(str(tmp_path / "files")))
    assert await store.showing.votes_of(11) == [{"session_id": session.id, "round": 1, "number": 2}]
    await forget(store.erasure, files, user_id=11)
    (left,) = await store.showing.entries(session.id, 1)
    assert (left.user_id, left.votes) == (12, 0)  # the vote of person 11 is deleted
    assert await store.showing.voters(session.id, 1) == 0  # and the vote for 11's picture
    await forget(store.erasure, files, user_id=MINA)
    assert (await store.sessions.get(session.id)).host_id == 0
    await store.sessions.abandon(session.id)
    assert await store.sessions.forget(before=clock.now, limit=9) == 0
    assert HERE in await store.erasure.servers()
    await forget(store.erasure, files, guild_id=HERE)
    assert await refused(store.sessions.get(session.id)) == "session_gone"


async def test_closed_sessions_are_forgotten_after_their_time(store: Store, clock: Clock) -> None:
    session = await opened(store)
    await store.sessions.close(session.id, BY)
    await act(store)
    assert await store.sessions.forget(before=clock.now, limit=9) == 0
    assert await store.sessions.forget(before=clock.now + 1.0, limit=9) == 1
    assert await refused(store.sessions.get(session.id)) == "session_gone"


async def test_posts_are_sent_in_their_order_and_none_of_a_session_without_a_channel(
    store: Store, clock: Clock
) -> None:
    session = await opened(store)
    await store.sessions.pause(session.id, BY)
    await store.sessions.resume(session.id, BY)
    assert await store.showing.keep("one", ttl=30.0)
    (first,) = await store.posts.claim("one", limit=9)
    await store.posts.retry(first, at=clock.now + 600.0)
    assert await store.posts.claim("one", limit=9) == []
    clock.now += 600.0
    (again,) = await store.posts.claim("one", limit=9)
    assert (again.post.kind, again.attempts) == (PostKind.PAUSE, 1)
    await store.posts.settle(again, outcome="sent")
    (second,) = await store.posts.claim("one", limit=9)
    assert second.post.kind is PostKind.RESUMPTION
    await store.sessions.abandon(session.id)
    assert await store.posts.claim("one", limit=9) == []
    assert await store.posts.unsettled(session.id) == []

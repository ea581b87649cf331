"""Appeals about pictures that moderators have not let through, on every database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from recipes import origin, recipe
from sqlalchemy.ext.asyncio import AsyncConnection
from stores import TTL, Clock, OpenStore
from test_reviews_contract import ARTIST, BY, HERE, HOUR, MINA, MODE, delivered, painted, shown, waiting

from bot.domain.errors import NotYours, UserMistake
from bot.domain.holds import Appeal, Outcome, Ruling
from bot.domain.jobs import Job, Showing
from bot.store import Store
from bot.store.moderation.appeals import Pressed

DARK = Ruling(outcome=Outcome.REJECTED, reason="too dark")


async def rejected(store: Store, number: int = 1) -> Job:
    """A delivered result of one picture that a moderator has rejected."""
    job = await painted(store, number, hold=MODE)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, DARK.outcome, replace(BY, reason=DARK.reason))
    await delivered(store)
    return await store.jobs.get(job.id)


async def test_a_rejected_picture_has_one_appeal_by_its_person(store: Store) -> None:
    job = await rejected(store)
    assert job.appeal is None
    with pytest.raises(NotYours):
        await store.appeals.appeal_pictures(job.id, MINA)
    await store.appeals.appeal_pictures(job.id, ARTIST)
    assert [each.appeal for each in await delivered(store)] == [Appeal.OPEN]
    with pytest.raises(UserMistake, match="appeal_over"):
        await store.appeals.appeal_pictures(job.id, ARTIST)


async def test_moderators_see_the_persons_words_the_first_decision_and_earlier_appeals(
    store: Store, clock: Clock
) -> None:
    first = await rejected(store)
    await store.appeals.appeal_pictures(first.id, ARTIST, words="it is dusk")
    (review,) = await waiting(store)
    shown_first = await store.review_messages.case(review.id, HERE)
    assert (shown_first.review.words, shown_first.appeals, shown_first.accepted) == ("it is dusk", 0, 0)
    assert shown_first.first is not None
    told = shown_first.first.decided_by, shown_first.first.outcome, shown_first.first.reason
    assert told == (MINA, Outcome.REJECTED, DARK.reason)
    await store.reviews.decide(review.id, Outcome.SHOWN, BY)
    clock.now += 60
    second = await rejected(store, 2)
    await store.appeals.appeal_pictures(second.id, ARTIST)
    (review,) = await waiting(store)
    again = await store.review_messages.case(review.id, HERE)
    assert (again.review.words, again.appeals, again.accepted) == ("", 1, 1)


async def test_an_appeals_words_go_with_the_result_and_its_message_forgets_an_erased_moderator(
    store: Store,
) -> None:
    job = await rejected(store)
    await store.appeals.appeal_pictures(job.id, ARTIST, words="it is dusk")
    (due,) = [each for each in await store.review_messages.claim("front", limit=9) if each.review.words]
    await store.review_messages.settle(due, message_id=7, channel_id=8)
    await store.erasure.erase_acts(MINA)
    claimed = await store.review_messages.claim("front", limit=9)
    (again,) = [each.case for each in claimed if each.review.id == due.review.id]
    assert again.first is not None
    assert (again.first.decided_by or 0) < 0
    await store.deliveries.delete_result(job.id, user_id=ARTIST)
    assert (await store.review_messages.case(due.review.id, HERE)).review.words == ""


@pytest.mark.parametrize(
    ("outcome", "said", "showing", "ruling"),
    [
        (Outcome.SHOWN, "", Showing.SHOW, Ruling(outcome=Outcome.SHOWN)),
        (Outcome.SPOILER, "", Showing.SPOILER, Ruling(outcome=Outcome.SPOILER)),
        (Outcome.DECLINED, "", Showing.WITHHOLD, DARK),
        (Outcome.DECLINED, "still", Showing.WITHHOLD, replace(DARK, reason="still")),
    ],
)
async def test_an_appeal_shows_the_pictures_or_lets_the_rejection_and_its_reason_be(
    store: Store, outcome: Outcome, said: str, showing: Showing, ruling: Ruling
) -> None:
    job = await rejected(store)
    await store.appeals.appeal_pictures(job.id, ARTIST)
    await delivered(store)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, outcome, replace(BY, reason=said))
    (told,) = await delivered(store)
    assert told.appeal is (Appeal.ACCEPTED if outcome.shows else Appeal.DECLINED)
    assert (told.images[0].showing, told.images[0].ruling) == (showing, ruling)


async def test_an_appeal_that_nobody_looks_at_leaves_the_rejection_and_is_told(
    store: Store, clock: Clock
) -> None:
    job = await rejected(store)
    await store.appeals.appeal_pictures(job.id, ARTIST)
    await delivered(store)
    clock.now += 72 * HOUR
    assert await store.reviews.expire(limit=9) == 1
    assert await waiting(store) == []
    (told,) = await delivered(store)
    assert (told.appeal, told.images[0].ruling) == (Appeal.EXPIRED, DARK)
    assert await shown(store, job) is Showing.WITHHOLD


async def test_a_declined_appeal_about_pictures_that_waited_too_long_rejects_them(
    store: Store, clock: Clock
) -> None:
    job = await painted(store, hold=MODE)
    clock.now += 72 * HOUR
    assert await store.reviews.expire(limit=9) == 1
    await store.appeals.appeal_pictures(job.id, ARTIST)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, Outcome.DECLINED, replace(BY, reason="no"))
    (image,) = (await store.jobs.get(job.id)).images
    assert image.ruling == Ruling(outcome=Outcome.REJECTED, reason="no")


@pytest.mark.parametrize(
    ("private", "pressed", "again"), [(False, None, 1), (True, None, 0), (True, 8, 0), (True, 1, 1)]
)
async def test_the_button_leaves_where_its_message_can_be_edited(
    store: Store, private: bool, pressed: int | None, again: int
) -> None:
    """Editing a private message needs a token; a press of a button in that message brings one."""
    asked = replace(origin(1, guild_id=HERE), private=private)
    await store.jobs.enqueue(recipe(), asked, hold=MODE)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    job = await store.leases.complete(claim, artifact="aa/1.png", seconds=1.0)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, Outcome.REJECTED, BY)
    await delivered(store)
    button = None if pressed is None else Pressed(message_id=pressed, token="fresh", expires_at=9e9)
    await store.appeals.appeal_pictures(job.id, ARTIST, button)
    edited = await delivered(store)
    assert [each.appeal for each in edited] == [Appeal.OPEN] * again
    if pressed and again:
        kept = edited[0].origin
        assert (kept.interaction_token, kept.token_expires_at) == ("fresh", 9e9)
    assert (await store.jobs.get(job.id)).appeal is Appeal.OPEN


async def test_a_sweep_deletes_no_token_that_an_appeal_has_stored_since_the_search(
    store: Store, open_store: OpenStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await rejected(store)
    clock.now = job.origin.token_expires_at + 1
    button = Pressed(message_id=1, token="fresh", expires_at=clock.now + 900)
    sweeping = await open_store()
    write = sweeping.shared.database.write

    @asynccontextmanager
    async def write_after_the_press() -> AsyncIterator[AsyncConnection]:
        await store.appeals.appeal_pictures(job.id, ARTIST, button)
        async with write() as connection:
            yield connection

    monkeypatch.setattr(sweeping.shared.database, "write", write_after_the_press)
    assert await sweeping.retention.forget_tokens(before=clock.now, limit=9) == 0
    assert (await store.jobs.get(job.id)).origin.interaction_token == "fresh"

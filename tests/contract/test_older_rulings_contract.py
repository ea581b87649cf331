"""Rulings of a process of the earlier version, which runs beside this one, on every database.

The earlier version writes a ruling, even `declined`, to the job and to none of its images. It notes the end
of an appeal in the review alone, not in the job's `appeal`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from finished_jobs import first_held
from recipes import origin
from stores import Clock
from test_picture_appeals_contract import DARK, rejected
from test_reviews_contract import ARTIST, BY, HERE, HOUR, MODE, delivered, painted, waiting

from bot.domain.errors import UserMistake
from bot.domain.holds import Appeal, Outcome, Ruling
from bot.domain.jobs import Job, Showing
from bot.store import Store
from bot.store.tables.queue import images, jobs
from bot.store.tables.reviews import reviews

CAT, DOG = 0xF00F_1234_5678_9ABC, 0x00FF_00FF_00FF_00FF
LONG_AGO = 0.0
UNFIT = Ruling(outcome=Outcome.REJECTED, reason="unfit")


async def older_rules(store: Store, ruling: Ruling, *, showing: Showing | None = None) -> None:
    """End the open review as the earlier version does, long ago; `showing` is how every picture is shown."""
    values: dict[str, Any] = {"ruling": ruling.outcome.value, "ruling_reason": ruling.reason}
    async with store.shared.database.write() as connection:
        if showing is not None:
            await connection.execute(sa.update(images).values(showing=showing))
        if ruling.outcome is not Outcome.EXPIRED or showing:  # it told nobody that an appeal has expired
            await connection.execute(sa.update(jobs).values(values))
        over = {"outcome": ruling.outcome.value, "decided_at": LONG_AGO, "next_try_at": None}
        await connection.execute(sa.update(reviews).where(reviews.c.outcome.is_(None)).values(over))


async def only_of_job(store: Store, job: Job) -> None:
    """Remove the ruling from the job's images: the earlier version writes it to the job alone."""
    async with store.shared.database.write() as connection:
        mine = sa.update(images).where(images.c.job_id == job.id)
        await connection.execute(mine.values(ruling=None, ruling_reason=""))


async def test_a_ruling_counts_and_has_one_appeal(store: Store) -> None:
    job = await rejected(store)
    await store.appeals.appeal_pictures(job.id, ARTIST)
    await only_of_job(store, job)
    async with store.shared.database.write() as connection:
        await connection.execute(sa.update(jobs).values(appeal=None))
    loaded = await store.jobs.get(job.id)
    assert (loaded.images[0].ruling, loaded.appeal) == (DARK, None)
    with pytest.raises(UserMistake, match="appeal_over"):
        await store.appeals.appeal_pictures(job.id, ARTIST)


async def withheld_and_appealed(store: Store, clock: Clock, *, expires: bool) -> Job:
    """Return a job of two pictures; the first is withheld by a ruling or an expired review, and appealed."""
    job = await first_held(store, origin(1, guild_id=HERE), (CAT, DOG))
    if expires:
        clock.now += 72 * HOUR
        assert await store.reviews.expire(limit=9) == 1
    else:
        (review,) = await waiting(store)
        await store.reviews.decide(review.id, DARK.outcome, replace(BY, reason=DARK.reason))
    await store.appeals.appeal_pictures(job.id, job.origin.user_id)
    return job


@pytest.mark.parametrize(("said", "reason"), [("unfit", "unfit"), ("", "too dark")])
async def test_an_appeal_that_it_declines_is_declined(store: Store, said: str, reason: str) -> None:
    job = await rejected(store)
    await store.appeals.appeal_pictures(job.id, ARTIST)
    await older_rules(store, Ruling(outcome=Outcome.DECLINED, reason=said))
    loaded = await store.jobs.get(job.id)
    assert (loaded.appeal, loaded.images[0].ruling) == (Appeal.DECLINED, replace(DARK, reason=reason))


async def test_an_appeal_about_pictures_that_waited_too_long_rejects_them(store: Store, clock: Clock) -> None:
    job = await painted(store, hold=MODE)
    clock.now += 72 * HOUR
    assert await store.reviews.expire(limit=9) == 1
    await store.appeals.appeal_pictures(job.id, ARTIST)
    await older_rules(store, replace(UNFIT, outcome=Outcome.DECLINED))
    assert (await store.jobs.get(job.id)).images[0].ruling == UNFIT


async def test_an_appeal_whose_time_it_ends_has_expired(store: Store) -> None:
    job = await rejected(store)
    await store.appeals.appeal_pictures(job.id, ARTIST)
    await older_rules(store, Ruling(outcome=Outcome.EXPIRED))
    loaded = await store.jobs.get(job.id)
    assert (loaded.appeal, loaded.images[0].ruling) == (Appeal.EXPIRED, DARK)


async def test_an_appeal_declined_without_a_reason_keeps_the_reason_of_its_rejection(store: Store) -> None:
    job = await rejected(store)
    await only_of_job(store, job)
    await store.appeals.appeal_pictures(job.id, ARTIST)
    await delivered(store)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, Outcome.DECLINED, replace(BY, reason=""))
    assert (await store.jobs.get(job.id)).images[0].ruling == DARK


async def refused(store: Store) -> list[bool]:
    return [await store.known.is_refused(HERE, number) for number in (CAT, DOG)]


async def report(store: Store, job: Job) -> None:
    """Let three people report the job, which hides its shown pictures."""
    for user_id in (101, 102, 103):
        await store.reports.add(job.id, user_id, guild_id=HERE, reason="unfit")


async def test_its_ruling_stays_with_the_picture_when_another_of_the_job_is_decided(
    store: Store, clock: Clock
) -> None:
    job = await first_held(store, origin(1, guild_id=HERE), (CAT, DOG))
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, DARK.outcome, replace(BY, reason=DARK.reason))
    await only_of_job(store, job)
    assert await refused(store) == [True, False]
    clock.now += 1.0
    await report(store, job)
    assert await refused(store) == [True, True]
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, Outcome.SHOWN, replace(BY, reason=""))
    assert await refused(store) == [True, False]
    shown = Ruling(outcome=Outcome.SHOWN)
    assert [image.ruling for image in (await store.jobs.get(job.id)).images] == [DARK, shown]


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("said", ["unfit", ""])
async def test_a_rejection_that_it_upholds_stays_when_another_of_the_job_is_decided(
    store: Store, clock: Clock, expires: bool, said: str
) -> None:
    job = await withheld_and_appealed(store, clock, expires=expires)
    await older_rules(store, Ruling(outcome=Outcome.DECLINED, reason=said))
    assert await refused(store) == [True, False]
    clock.now += 1.0
    await report(store, job)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, Outcome.SHOWN, replace(BY, reason=""))
    assert await refused(store) == [True, False]
    first, _ = (await store.jobs.get(job.id)).images
    assert first.ruling == replace(DARK, reason=said or ("" if expires else DARK.reason))


async def test_time_that_it_ends_is_no_rejection(store: Store, clock: Clock) -> None:
    job = await first_held(store, origin(1, guild_id=HERE), (CAT, DOG))
    clock.now += 72 * HOUR
    assert await store.reviews.expire(limit=9) == 1
    await only_of_job(store, job)
    expired = Ruling(outcome=Outcome.EXPIRED)
    assert (await store.jobs.get(job.id)).images[0].ruling == expired
    assert await refused(store) == [False, False]
    await report(store, job)
    assert (await store.jobs.get(job.id)).images[0].ruling == expired


async def test_its_ruling_on_one_job_is_none_on_another(store: Store) -> None:
    """An appeal that this version declines changes the pictures of its own job only."""
    first = await first_held(store, origin(1, guild_id=HERE), (CAT, DOG))
    second = await painted(store, 2, hold=MODE)
    for review in await waiting(store):
        await store.reviews.decide(review.id, DARK.outcome, replace(BY, reason=DARK.reason))
    for job in (first, second):
        await only_of_job(store, job)
        await store.appeals.appeal_pictures(job.id, job.origin.user_id)
    appeals = {review.job_id: review for review in await waiting(store)}
    await store.reviews.decide(appeals[second.id].id, Outcome.DECLINED, replace(BY, reason="no"))
    assert (await store.jobs.get(first.id)).appeal is Appeal.OPEN
    assert (await store.jobs.get(first.id)).images[0].ruling == DARK
    async with store.shared.database.read() as connection:
        mine = sa.select(images.c.ruling).where(images.c.job_id == first.id)
        assert set(await connection.scalars(mine)) == {None}


@pytest.mark.parametrize("said", ["unfit", ""])
async def test_what_it_rejects_after_this_version_has_shown_it_is_rejected(store: Store, said: str) -> None:
    job, ruling = await first_held(store, origin(1, guild_id=HERE), (CAT, DOG)), replace(UNFIT, reason=said)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, Outcome.SHOWN, replace(BY, reason="fine"))
    assert await refused(store) == [False, False]
    await report(store, job)
    await older_rules(store, ruling, showing=Showing.WITHHOLD)
    assert [image.ruling for image in (await store.jobs.get(job.id)).images] == [ruling, ruling]
    assert await refused(store) == [True, True]
    await store.appeals.appeal_pictures(job.id, job.origin.user_id)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, Outcome.DECLINED, replace(BY, reason=""))
    assert [image.ruling for image in (await store.jobs.get(job.id)).images] == [ruling, ruling]


async def test_what_it_has_rejected_stays_refused_once_the_result_is_deleted(store: Store) -> None:
    job = await first_held(store, origin(1, guild_id=HERE), (CAT, DOG))
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, Outcome.REJECTED, BY)
    await only_of_job(store, job)
    await store.deliveries.delete_result(job.id, user_id=job.origin.user_id)
    assert await refused(store) == [True, False]


async def test_an_appeal_that_it_has_ended_stays_ended_once_its_review_is_forgotten(store: Store) -> None:
    job = await rejected(store)
    await store.appeals.appeal_pictures(job.id, ARTIST)
    await older_rules(store, Ruling(outcome=Outcome.DECLINED, reason="unfit"))
    assert await store.reviews.forget(before=LONG_AGO + 1.0, limit=9) == 1
    loaded = await store.jobs.get(job.id)
    assert (loaded.appeal, loaded.images[0].ruling) == (Appeal.DECLINED, replace(DARK, reason="unfit"))


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("last", [UNFIT, Ruling(outcome=Outcome.EXPIRED)])
async def test_what_it_shows_after_an_appeal_and_then_withholds_has_its_last_ruling(
    store: Store, clock: Clock, last: Ruling, expires: bool, opens: bool
) -> None:
    job = await withheld_and_appealed(store, clock, expires=expires)
    if opens:  # it opens the review alone
        async with store.shared.database.write() as connection:
            await connection.execute(sa.update(jobs).values(appeal=None))
    await older_rules(store, Ruling(outcome=Outcome.SHOWN), showing=Showing.SHOW)
    await older_rules(store, last, showing=Showing.WITHHOLD)
    for forgotten in (1, 0):
        loaded = await store.jobs.get(job.id)
        assert (loaded.appeal, [image.ruling for image in loaded.images]) == (Appeal.ACCEPTED, [last, last])
        assert await refused(store) == [last is UNFIT] * 2
        assert await store.reviews.forget(before=LONG_AGO + 1.0, limit=9) == forgotten


async def test_a_ruling_that_it_overwrites_to_show_another_picture_is_no_rejection(
    store: Store, clock: Clock
) -> None:
    job = await first_held(store, origin(1, guild_id=HERE), (CAT, DOG))
    clock.now += 72 * HOUR
    assert await store.reviews.expire(limit=9) == 1
    await only_of_job(store, job)
    await older_rules(store, Ruling(outcome=Outcome.SHOWN, reason="fine"))
    expired = Ruling(outcome=Outcome.EXPIRED)
    assert (await store.jobs.get(job.id)).images[0].ruling == expired
    await report(store, job)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, UNFIT.outcome, replace(BY, reason=UNFIT.reason))
    assert [image.ruling for image in (await store.jobs.get(job.id)).images] == [expired, UNFIT]
    assert await refused(store) == [False, True]

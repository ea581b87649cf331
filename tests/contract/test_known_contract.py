"""Known pictures on every database: whose a picture is, what is blocked, and what becomes of the rows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import sqlalchemy as sa
from finished_jobs import first_held
from recipes import origin, recipe
from stores import TTL, Clock

from bot.domain.errors import StaleLease, UserMistake
from bot.domain.hashes import BLOCKED_DISTANCE, LIKELY_DISTANCE, SEARCH_DISTANCE, name_of
from bot.domain.holds import Cause, Hold, Outcome
from bot.domain.jobs import Claim, Descent, Job, Notes, Origin, Parent, Showing
from bot.domain.levels import Level
from bot.store import Store
from bot.store.rows import hashes
from bot.store.rows.audit import EVERYWHERE, OPERATOR, Act, By
from bot.store.rows.hashes import Hashes
from bot.store.tables.pictures import blocked_pictures, picture_hashes
from sdjax_engine.request import Int8, PictureScores

HERE, THERE, MINA, RAVI = 21, 22, 11, 12
BY = By(actor_id=MINA, guild_id=HERE, reason="a leak")
OF_OPERATOR = By(actor_id=OPERATOR, guild_id=EVERYWHERE)
CAT, DOG = 0xF00F_1234_5678_9ABC, 0x00FF_00FF_00FF_00FF


def changed(number: int, bits: int) -> int:
    """The hash with `bits` of its bits changed, spread over all of it."""
    for bit in range(bits):
        number ^= 1 << (bit * 23) % 64
    return number


def asked(interaction: int, *, user_id: int = RAVI, guild_id: int | None = HERE) -> Origin:
    return replace(origin(interaction, user_id=user_id), guild_id=guild_id)


async def painted(store: Store, asker: Origin, hashes: Hashes, *, start: str | None = None) -> Job:
    await store.jobs.enqueue(recipe(init_image=start), asker)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    return await store.leases.complete(claim, artifact=None, seconds=1.0, hashes=hashes)


async def rows(store: Store) -> int:
    async with store.shared.database.read() as connection:
        return await connection.scalar(sa.select(sa.func.count()).select_from(picture_hashes)) or 0


async def test_the_nearest_pictures_of_the_server_are_found_with_their_jobs(store: Store) -> None:
    near = await painted(store, asked(1), Hashes(result=changed(CAT, 4)))
    same = await painted(store, asked(2, user_id=MINA), Hashes(result=CAT))
    await painted(store, asked(3), Hashes(result=changed(CAT, SEARCH_DISTANCE + 2)))
    await painted(store, asked(4, guild_id=THERE), Hashes(result=CAT))
    await painted(store, asked(5, guild_id=None), Hashes(result=CAT))
    found = await store.known.whose(HERE, CAT, limit=5)
    assert [(match.job.id, match.distance, match.index) for match in found] == [
        (same.id, 0, 0),
        (near.id, 4, 0),
    ]
    assert [match.job.origin.user_id for match in found] == [MINA, RAVI]
    assert [match.job.id for match in await store.known.whose(HERE, CAT, limit=1)] == [same.id]
    [match] = await store.known.of_job(HERE, near.id)
    assert match.hash == changed(CAT, 4)
    assert await store.known.of_job(THERE, near.id) == []


async def test_a_picture_that_the_bot_painted_here_is_known_and_one_that_somebody_sent_is_not(
    store: Store,
) -> None:
    await painted(store, asked(1), Hashes(result=CAT, given={"aa/sent.png": DOG}), start="aa/sent.png")
    await painted(store, asked(2), Hashes(result=1))
    near, far = changed(CAT, LIKELY_DISTANCE), changed(CAT, LIKELY_DISTANCE + 1)
    assert [await store.known.painted(HERE, number) for number in (CAT, near)] == [True, True]
    assert [await store.known.painted(HERE, number) for number in (far, DOG, 1)] == [False, False, False]
    assert [await store.known.painted(place, CAT) for place in (THERE, None)] == [False, False]


async def test_a_picture_is_known_in_whatever_server_it_was_painted_and_by_its_very_file(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "PLACES_AT_ONCE", 2)
    assert not await store.known.painted_anywhere([CAT])
    for number, place in enumerate((None, HERE, HERE + 1, HERE + 2, THERE), start=1):
        await painted(
            store,
            asked(number, guild_id=place),
            Hashes(result=~CAT % 2**64, given={"aa/a.png": DOG}),
            start="aa/a.png",
        )
    assert not await store.known.painted_anywhere([CAT, DOG, 1])
    await store.jobs.enqueue(recipe(), asked(9, guild_id=THERE))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact="bb/own.png", seconds=1.0, hashes=Hashes(result=CAT))
    assert await store.known.painted_anywhere([1, changed(CAT, LIKELY_DISTANCE)])
    assert not await store.known.painted_anywhere([changed(CAT, LIKELY_DISTANCE + 1)])
    assert [await store.known.is_result(name) for name in ("bb/own.png", "aa/a.png")] == [True, False]


async def test_a_painted_picture_is_known_by_the_first_digits_of_its_file_and_a_sent_one_is_not(
    store: Store,
) -> None:
    digest, sent = "0123456789abcdef" * 4, "fedcba9876543210" * 4
    await store.jobs.enqueue(recipe(init_image=f"fe/{sent}.png"), asked(1))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    job = await store.leases.complete(claim, artifact=f"01/{digest}.png", seconds=1.0)
    digits = (digest[:15], digest[:14] + "0", digest[:14] + "f", sent[:15])
    assert [await store.known.begins_with(each) for each in digits] == [True, False, False, False]
    await store.erasure.erase([job.id])
    assert not await store.known.begins_with(digest[:15])


async def test_a_sent_start_picture_is_found_once_and_a_painted_one_is_its_own_persons(store: Store) -> None:
    sent = await painted(
        store, asked(1), Hashes(result=CAT ^ DOG, given={"aa/sent.png": CAT}), start="aa/sent.png"
    )
    found = await store.known.whose(HERE, CAT, limit=5)
    assert [(match.job.id, match.is_given) for match in found] == [(sent.id, True)]
    await store.jobs.enqueue(recipe(), asked(2))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact="bb/own.png", seconds=1.0, hashes=Hashes(result=DOG))
    await painted(store, asked(3), Hashes(result=~CAT % 2**64, given={"bb/own.png": DOG}), start="bb/own.png")
    assert [match.is_given for match in await store.known.whose(HERE, DOG, limit=5)] == [False]


async def test_a_sent_control_picture_is_found_beside_the_start_picture(store: Store) -> None:
    await store.jobs.enqueue(recipe(init_image="aa/start.png", control_image="cc/control.png"), asked(1))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    hashes = Hashes(result=CAT ^ DOG, given={"aa/start.png": CAT, "cc/control.png": DOG})
    job = await store.leases.complete(claim, artifact=None, seconds=1.0, hashes=hashes)
    for number in (CAT, DOG):
        found = await store.known.whose(HERE, number, limit=5)
        assert [(match.job.id, match.is_given) for match in found] == [(job.id, True)]
    assert [match.is_given for match in await store.known.of_job(HERE, job.id)] == [False]


async def test_hashes_go_with_the_job_and_a_stale_lease_leaves_none(store: Store) -> None:
    job = await painted(store, asked(1), Hashes(result=CAT))
    await store.jobs.enqueue(recipe(), asked(2))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    stale: Claim = replace(claim, fencing_token=claim.fencing_token - 1)
    with pytest.raises(StaleLease):
        await store.leases.complete(stale, artifact=None, seconds=1.0, hashes=Hashes(result=CAT))
    assert await rows(store) == 1
    await store.erasure.erase([job.id])
    assert await rows(store) == 0
    assert await store.known.whose(HERE, CAT, limit=5) == []


async def test_a_blocked_picture_and_those_very_like_it_are_blocked_in_its_server(store: Store) -> None:
    assert await store.known.block(CAT, BY)
    assert not await store.known.block(CAT, BY)
    for bits in (0, 3, BLOCKED_DISTANCE):
        found = await store.known.blocking(HERE, changed(CAT, bits))
        assert found is not None
        assert (found.hash, found.reason, found.everywhere) == (CAT, "a leak", False)
    assert await store.known.blocking(HERE, changed(CAT, BLOCKED_DISTANCE + 1)) is None
    assert await store.known.blocking(THERE, CAT) is None
    assert await store.known.blocking(None, CAT) is None
    assert await store.known.unblock(CAT, BY)
    assert not await store.known.unblock(CAT, BY)
    assert await store.known.blocking(HERE, CAT) is None
    unblocked, blocked = await store.moderation.entries(HERE, limit=9)
    assert blocked.act is unblocked.act is Act.KNOWN
    assert blocked.after == unblocked.before == {"picture": name_of(CAT)}
    assert (blocked.actor_id, blocked.reason) == (MINA, "a leak")


async def test_the_kept_file_of_a_hash_is_that_of_an_open_result_of_the_server(store: Store) -> None:
    artifacts = {}
    for number, asker in enumerate(
        (asked(1), asked(2, guild_id=THERE), replace(asked(3), private=True)), start=1
    ):
        await store.jobs.enqueue(recipe(), asker)
        (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
        file = artifacts[number] = f"aa/{number}.png"
        hashes = Hashes(result=changed(CAT, number))
        await store.leases.complete(claim, artifact=file, seconds=1.0, hashes=hashes)
    wanted = [changed(CAT, number) for number in range(4)]
    assert await store.known.kept(HERE, wanted) == {changed(CAT, 1): artifacts[1]}
    assert await store.known.kept(HERE, []) == {}


async def test_the_operator_blocks_everywhere_and_no_moderator_ends_that(store: Store) -> None:
    await store.known.block(CAT, OF_OPERATOR)
    for place in (HERE, THERE, None):
        found = await store.known.blocking(place, changed(CAT, 2))
        assert found is not None
        assert found.everywhere
    assert not await store.known.unblock(CAT, BY)
    assert await store.known.blocked(HERE) == []
    assert [each.hash for each in await store.known.blocked(EVERYWHERE)] == [CAT]
    assert await store.moderation.entries(HERE, limit=9) == []


async def test_two_moderators_at_once_block_it_once_with_one_row_in_the_log(store: Store) -> None:
    added = await asyncio.gather(*(store.known.block(CAT, replace(BY, actor_id=who)) for who in (1, 2, 3)))
    assert sorted(added) == [False, False, True]
    assert len(await store.moderation.entries(HERE, limit=9)) == 1


async def test_blocks_go_with_their_server_and_forget_who_made_them(store: Store) -> None:
    await store.known.block(CAT, BY)
    await store.known.block(CAT, OF_OPERATOR)
    assert HERE in await store.erasure.servers()
    await store.erasure.erase_acts(MINA)
    [mine] = await store.known.blocked(HERE)
    assert mine.by < 0
    await store.erasure.erase_preferences(guild_id=HERE)
    assert await store.known.blocked(HERE) == []
    assert len(await store.known.blocked(EVERYWHERE)) == 1
    async with store.shared.database.read() as connection:
        assert len(list(await connection.execute(sa.select(blocked_pictures)))) == 1


async def test_a_policys_showings_and_the_notes_of_a_picture_come_back(store: Store) -> None:
    said = (Showing.SPOILER, Showing.HOLD, Showing.WITHHOLD)
    policy = {"flagged": [showing.value for showing in said]}
    await store.jobs.enqueue(recipe(), replace(asked(1), policy=policy))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    assert (claim.showings, claim.guild_id) == (said, HERE)
    scores = PictureScores(labels=("nice", "gore"), probabilities=(0.25, 0.75))
    notes = Notes(classified=scores, level=Level.EXTREME, known=True, int8=(Int8.DENOISER,))
    ended = await store.leases.complete(
        claim, artifact=None, seconds=1.0, notes=notes, showing=Showing.WITHHOLD
    )
    assert ended.images[0].notes == notes
    assert ended.hold is None
    await store.jobs.enqueue(recipe(), asked(2))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    assert claim.showings is None


async def test_a_picture_held_by_a_rule_holds_no_other_of_its_job(store: Store) -> None:
    await store.jobs.enqueue(recipe(variants=3), asked(1))
    showings = (Showing.HOLD, Showing.SHOW, Showing.WITHHOLD)
    for number, showing in enumerate(showings):
        (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
        artifact = None if showing is Showing.WITHHOLD else f"aa/{number}.png"
        job = await store.leases.complete(claim, artifact=artifact, seconds=1.0, showing=showing)
        assert job.hold == (Hold(cause=Cause.PICTURE) if number == 2 else None)
    assert [image.showing for image in job.images] == list(showings)
    assert [(image.artifact, image.held) for image in job.images] == [
        (None, "aa/0.png"),
        ("aa/1.png", None),
        (None, None),
    ]


async def painted_cat(store: Store, *, hold: Hold | None = None, number: int = CAT) -> Job:
    await store.jobs.enqueue(recipe(), asked(1), hold=hold)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    hashes = Hashes(result=number)
    return await store.leases.complete(claim, artifact="aa/1.png", seconds=1.0, hashes=hashes)


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.SHOWN, Outcome.EXPIRED])
async def test_a_rejected_picture_is_refused_in_its_server_when_it_is_painted_again(
    store: Store, outcome: Outcome
) -> None:
    await painted_cat(store, hold=Hold(cause=Cause.MODE))
    assert not await store.known.is_refused(HERE, CAT)
    (review,) = await store.reviews.waiting(HERE, limit=9)
    await store.reviews.decide(review.id, outcome, BY)
    assert await store.known.is_refused(HERE, CAT) == (outcome is Outcome.REJECTED)
    for place, number in ((THERE, CAT), (None, CAT), (HERE, changed(CAT, 1))):
        assert not await store.known.is_refused(place, number)


async def test_the_deletion_of_its_result_leaves_a_rejected_picture_refused(store: Store) -> None:
    job = await painted_cat(store, hold=Hold(cause=Cause.MODE))
    (review,) = await store.reviews.waiting(HERE, limit=9)
    await store.reviews.decide(review.id, Outcome.REJECTED, BY)
    await store.deliveries.delete_result(job.id, user_id=job.origin.user_id)
    assert await store.known.is_refused(HERE, CAT)


@pytest.mark.parametrize("outcome", [Outcome.DECLINED, Outcome.SHOWN, Outcome.EXPIRED])
async def test_a_rejected_picture_is_refused_until_an_appeal_shows_it(store: Store, outcome: Outcome) -> None:
    job = await painted_cat(store, hold=Hold(cause=Cause.MODE))
    (review,) = await store.reviews.waiting(HERE, limit=9)
    await store.reviews.decide(review.id, Outcome.REJECTED, BY)
    await store.appeals.appeal_pictures(job.id, job.origin.user_id)
    (appeal,) = await store.reviews.waiting(HERE, limit=9)
    assert await store.known.is_refused(HERE, CAT)
    await store.reviews.decide(appeal.id, outcome, BY)
    assert await store.known.is_refused(HERE, CAT) == (outcome is not Outcome.SHOWN)


async def test_a_rejected_picture_stays_so_where_the_jobs_others_are_reported_and_shown(
    store: Store, clock: Clock
) -> None:
    job = await first_held(store, asked(1), (CAT, DOG))
    (review,) = await store.reviews.waiting(HERE, limit=9)
    await store.reviews.decide(review.id, Outcome.REJECTED, BY)
    clock.now += 1.0
    for user_id in (101, 102, 103):
        await store.reports.add(job.id, user_id, guild_id=HERE, reason="unfit")
    assert [await store.known.is_refused(HERE, number) for number in (CAT, DOG)] == [True, True]
    (review,) = await store.reviews.waiting(HERE, limit=9)
    await store.reviews.decide(review.id, Outcome.SHOWN, BY)
    assert [await store.known.is_refused(HERE, number) for number in (CAT, DOG)] == [True, False]
    images = (await store.jobs.get(job.id)).images
    decided = [image.ruling.outcome for image in images if image.ruling is not None]
    assert decided == [Outcome.REJECTED, Outcome.SHOWN]


@pytest.mark.parametrize("number", [0, 0x8000_0000_0000_0000, 2**64 - 1], ids=["black", "white", "inverted"])
async def test_no_flat_picture_is_refused_because_another_was_rejected(store: Store, number: int) -> None:
    await painted_cat(store, hold=Hold(cause=Cause.MODE), number=number)
    (review,) = await store.reviews.waiting(HERE, limit=9)
    await store.reviews.decide(review.id, Outcome.REJECTED, BY)
    assert not await store.known.is_refused(HERE, number)


async def test_a_picture_that_reports_have_hidden_is_refused_until_it_is_shown(store: Store) -> None:
    job = await painted_cat(store)
    for user_id in (101, 102, 103):
        assert not await store.known.is_refused(HERE, CAT)
        await store.reports.add(job.id, user_id, guild_id=HERE, reason="unfit")
    assert await store.known.is_refused(HERE, CAT)
    (review,) = await store.reviews.waiting(HERE, limit=9)
    await store.reviews.decide(review.id, Outcome.SHOWN, BY)
    assert not await store.known.is_refused(HERE, CAT)


async def test_a_rejected_publication_is_refused_and_a_deleted_one_is_not(store: Store) -> None:
    await store.jobs.enqueue(recipe(), replace(asked(1), private=True))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    hashes = Hashes(result=CAT)
    job = await store.leases.complete(claim, artifact="aa/1.png", seconds=1.0, hashes=hashes)
    copies = [await store.jobs.copy(job.id, publication(number, job)) for number in (2, 3)]
    await store.deliveries.delete_result(job.id, user_id=RAVI)
    for user_id in (101, 102, 103):
        await store.reports.add(copies[0].id, user_id, guild_id=HERE, reason="unfit")
    assert await store.known.is_refused(HERE, CAT)
    for copy in copies:
        await store.deliveries.delete_result(copy.id, user_id=RAVI)
    assert not await store.known.is_refused(HERE, CAT)


async def hashed(store: Store, notes: Notes | None = None) -> Job:
    """A private result of Ravi's in a direct message: a cat and a dog."""
    await store.jobs.enqueue(recipe(variants=2), replace(asked(1, guild_id=None), private=True))
    claims = await store.leases.claim("worker", limit=2, ttl=TTL)
    for claim, number in zip(claims, (CAT, DOG), strict=True):
        name, hashes = f"aa/{number}.png", Hashes(result=number)
        job = await store.leases.complete(claim, artifact=name, seconds=1.0, notes=notes, hashes=hashes)
    return job


def publication(interaction: int, job: Job, guild_id: int = HERE) -> Origin:
    parent = Parent(job_id=job.id, descent=Descent.PUBLICATION)
    return replace(asked(interaction, guild_id=guild_id), channel_id=interaction, parent=parent)


async def test_a_publication_leaves_out_what_is_blocked_where_it_appears(store: Store) -> None:
    job = await hashed(store)
    await store.known.block(changed(CAT, BLOCKED_DISTANCE), BY)
    shown = {
        guild_id: [image.index for image in (await store.jobs.copy(job.id, there)).images]
        for guild_id in (HERE, THERE)
        for there in [publication(10 + guild_id, job, guild_id)]
    }
    assert shown == {HERE: [1], THERE: [0, 1]}
    await store.known.block(DOG, OF_OPERATOR)
    with pytest.raises(UserMistake, match="publish_known"):
        await store.jobs.copy(job.id, publication(3, job))
    single = replace(
        asked(4), parent=Parent(job_id=job.id, descent=Descent.SINGLE)
    )  # no publication: its viewers have seen the picture
    assert len((await store.jobs.copy(job.id, single, index=0)).images) == 1


async def test_a_publication_that_the_policy_withholds_does_not_say_that_all_is_blocked(store: Store) -> None:
    job = await hashed(store, Notes(level=Level.EXPLICIT))
    there = replace(publication(2, job), policy={"flagged": ["withhold"] * 3})
    for blocked, said in ((None, "publish_policy"), (CAT, "publish_policy"), (DOG, "publish_known")):
        if blocked is not None:
            await store.known.block(blocked, BY)
        with pytest.raises(UserMistake, match=said):
            await store.jobs.copy(job.id, there)


async def test_a_copy_keeps_the_hashes_of_its_pictures_when_the_first_job_goes(store: Store) -> None:
    job = await hashed(store)
    mine = await store.jobs.copy(
        job.id,
        replace(asked(2, guild_id=None), parent=Parent(job_id=job.id, descent=Descent.SINGLE)),
        index=0,
    )
    await store.erasure.erase([job.id])
    published = await store.jobs.copy(mine.id, publication(3, mine, THERE))
    [match] = await store.known.whose(THERE, CAT, limit=5)
    assert (match.job.id, match.index) == (published.id, 0)
    await store.known.block(CAT, BY)
    with pytest.raises(UserMistake, match="publish_known"):
        await store.jobs.copy(mine.id, publication(4, mine))


async def test_a_copy_in_the_server_of_the_first_job_is_not_found_beside_it(store: Store) -> None:
    await store.jobs.enqueue(recipe(), asked(1))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    job = await store.leases.complete(claim, artifact="aa/a.png", seconds=1.0, hashes=Hashes(result=CAT))
    await store.jobs.copy(
        job.id, replace(asked(2, user_id=MINA), parent=Parent(job_id=job.id, descent=Descent.SINGLE))
    )
    assert [match.job.id for match in await store.known.whose(HERE, CAT, limit=5)] == [job.id]

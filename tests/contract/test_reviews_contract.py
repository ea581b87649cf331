"""Reviews, reports and appeals, on every database."""

from __future__ import annotations

import asyncio
import itertools
import math
from pathlib import Path

import pytest
import sqlalchemy as sa
from recipes import origin, recipe
from stores import TTL, Clock, OpenStore

from bot.domain.channels import ChannelKind
from bot.domain.errors import UnknownJob, UserMistake
from bot.domain.holds import Cause, Hold, Outcome
from bot.domain.jobs import Job, Recipe, Showing, State
from bot.domain.quotas import Charge, Measure, Quota
from bot.files import Artifacts, Files
from bot.files.erasure import forget
from bot.store import Store
from bot.store.moderation.appeals import APPEALS_A_DAY, REFUSALS_KEPT
from bot.store.moderation.reports import REPORTS_A_DAY
from bot.store.moderation.review_claims import CLAIM_SECONDS
from bot.store.moderation.review_messages import DueReview
from bot.store.moderation.standing import Requester
from bot.store.rows.audit import Act, By
from bot.store.rows.reviews import Kind, Review, ReviewSettings
from bot.store.tables.reviews import reports, review_settings, reviews

MINA, WEI, OMAR, HERE, CHANNEL = 91, 92, 93, 21, 31
ARTIST = origin(1).user_id
PLACE = Requester(user_id=ARTIST, guild_id=HERE, channel_ids=(CHANNEL,))
BY = By(actor_id=MINA, guild_id=HERE)
HOUR = 3600.0
MODE = Hold(cause=Cause.MODE)


@pytest.fixture
def files(store: Store, tmp_path: Path) -> Files:
    return Files(store.files, Artifacts(str(tmp_path / "artifacts")))


async def painted(store: Store, number: int = 1, *, hold: Hold | None = None) -> Job:
    await store.jobs.enqueue(recipe(), origin(number, guild_id=HERE), hold=hold)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    return await store.leases.complete(claim, artifact=f"aa/{number}.png", seconds=1.0)


async def waiting(store: Store) -> list[Review]:
    return await store.reviews.waiting(HERE, limit=99)


async def due(store: Store) -> list[DueReview]:
    return await store.review_messages.claim("front", limit=9)


async def delivered(store: Store) -> list[Job]:
    """Deliver all results that are due, and return their jobs."""
    results = await store.deliveries.claim("front", limit=9)
    for result in results:
        await store.deliveries.mark_delivered(result, outcome="edited", message_id=1)
    return [result.job for result in results]


async def shown(store: Store, job: Job) -> Showing:
    return (await store.jobs.get(job.id)).images[0].showing


async def acts(store: Store) -> list[Act]:
    return [entry.act for entry in await store.moderation.entries(HERE, limit=99)]


async def report(store: Store, job: Job, *people: int) -> list[bool]:
    return [await store.reports.add(job.id, who, guild_id=HERE, reason="ugly") for who in people]


async def test_a_held_result_opens_one_review_whose_message_one_front_sends(
    store: Store, open_store: OpenStore, clock: Clock
) -> None:
    job = await painted(store, hold=Hold(cause=Cause.RULE, rule="knives"))
    other, fronts = await open_store(), ("one", "two", "three")
    claims = await asyncio.gather(
        *(
            each.review_messages.claim(front, limit=9)
            for each, front in zip((store, other, store), fronts, strict=True)
        )
    )
    ((front, (message,)),) = [each for each in zip(fronts, claims, strict=True) if each[1]]
    review = message.review
    assert (review.kind, review.job_id, review.user_id, review.rule) == (Kind.HOLD, job.id, ARTIST, "knives")
    case = message.case
    assert (case.job, case.place, message.tried_before) == (await store.jobs.get(job.id), None, False)
    clock.now += 500.0
    assert await due(other) == []
    assert await other.review_messages.claim(front, limit=9, held=[message.id]) == []
    (again,) = await other.review_messages.claim(front, limit=9)  # it was restarted
    assert again.tried_before
    await store.review_messages.settle(message, message_id=7, channel_id=CHANNEL)  # the stale claim, late
    await other.review_messages.settle(again, message_id=7, channel_id=CHANNEL)
    clock.now += 500.0
    assert await due(store) == []
    assert [(each.id, each.message_id) for each in await waiting(store)] == [(review.id, 7)]


async def test_a_decision_during_an_attempt_makes_the_message_due_again_and_keeps_its_place(
    store: Store,
) -> None:
    await painted(store, hold=MODE)
    (message,) = await due(store)
    await store.reviews.decide(
        message.review.id, Outcome.REJECTED, By(actor_id=MINA, guild_id=HERE, reason="no")
    )
    await store.review_messages.settle(message, message_id=7, channel_id=CHANNEL)
    await store.review_messages.note_trouble(message, "no_channel", lost=True)
    await store.review_messages.retry(message, at=1e12)
    (again,) = await due(store)
    assert (again.review.outcome, again.review.decided_by, again.review.reason) == (
        Outcome.REJECTED,
        MINA,
        "no",
    )
    assert again.review.message_id == 7


async def test_of_deciding_expiring_and_deleting_at_once_exactly_one_wins(
    store: Store, open_store: OpenStore, clock: Clock
) -> None:
    stores, decided = [store, await open_store()], 0
    for number in range(1, 6):
        job = await painted(store, number, hold=MODE)
        (review,) = await waiting(store)
        clock.now += 73 * HOUR
        await asyncio.gather(
            stores[0].reviews.decide(review.id, Outcome.SHOWN, BY),
            stores[1].reviews.decide(review.id, Outcome.REJECTED, BY),
            stores[number % 2].reviews.expire(limit=9),
            stores[1].deliveries.delete_result(job.id, user_id=None, by=BY),
            stores[0].jobs.cancel(job.id, user_id=None),
            return_exceptions=True,
        )
        assert await waiting(store) == []
        outcome = (await store.reviews.get(review.id, HERE)).outcome
        logged = [act for act in await acts(store) if act is not Act.DELETE]
        decided += outcome is not Outcome.WITHDRAWN
        assert len(logged) == decided


async def test_what_waits_too_long_is_withheld_and_its_artist_is_told(store: Store, clock: Clock) -> None:
    await store.reviews.set_settings(BY, hours=2)
    job = await painted(store, hold=MODE)
    clock.now += 2 * HOUR - 1
    assert await store.reviews.expire(limit=9) == 0
    clock.now += 1
    assert await store.reviews.expire(limit=9) == 1
    job = await store.jobs.get(job.id)
    assert job.ruling is not None
    assert (job.ruling.outcome, await shown(store, job)) == (Outcome.EXPIRED, Showing.WITHHOLD)
    assert [each.job.id for each in await store.deliveries.claim("front", limit=9)] == [job.id]
    assert await acts(store) == [Act.EXPIRE, Act.REVIEW]


async def test_settings_are_logged_and_a_new_channel_gets_what_no_message_shows(
    store: Store, clock: Clock
) -> None:
    assert await store.reviews.settings(HERE) == ReviewSettings()
    await painted(store, hold=MODE)
    (message,) = await due(store)
    await store.review_messages.note_trouble(message, "no_channel")
    await store.review_messages.retry(message, at=clock.now + 900.0)
    assert (await due(store), (await waiting(store))[0].trouble) == ([], "no_channel")
    await store.reviews.set_channel(CHANNEL, BY)
    (message,) = await due(store)
    assert message.case.place == CHANNEL
    (entry,) = await store.moderation.entries(HERE, limit=9)
    assert entry.after == {"channel_id": CHANNEL, "hours": 72, "reports": 3}


async def test_enough_reports_hide_a_picture_until_moderators_let_it_through_for_good(store: Store) -> None:
    job = await painted(store)
    assert await report(store, job, MINA, WEI) == [False, False]
    assert await shown(store, job) is Showing.SHOW
    (message,) = await due(store)
    assert (message.review.kind, message.case.count, message.case.reported) == (
        Kind.REPORT,
        2,
        ("ugly", "ugly"),
    )
    assert await report(store, job, OMAR) == [True]
    assert await shown(store, job) is Showing.HOLD
    assert [each.review.id for each in await due(store)] == [message.review.id]
    await store.reviews.decide(message.review.id, Outcome.SHOWN, BY)
    assert await shown(store, job) is Showing.SHOW
    assert await report(store, job, 98) == [False]
    assert await acts(store) == [Act.APPROVE, Act.HIDE]


async def test_moderators_take_a_reported_picture_down_before_enough_have_reported_it(store: Store) -> None:
    job = await painted(store)
    await report(store, job, MINA)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, Outcome.REJECTED, BY)
    assert await shown(store, job) is Showing.WITHHOLD


async def test_reports_have_limits(store: Store) -> None:
    jobs = [await painted(store, number) for number in range(1, REPORTS_A_DAY + 2)]
    with pytest.raises(UserMistake, match="report_own"):
        await report(store, jobs[0], ARTIST)
    with pytest.raises(UnknownJob):
        await store.reports.add(jobs[0].id, MINA, guild_id=99, reason="")
    twice = await asyncio.gather(*(report(store, jobs[0], MINA) for _ in range(3)), return_exceptions=True)
    assert [str(each) for each in twice if isinstance(each, UserMistake)] == ["report_twice"] * 2
    for job in jobs[1:-1]:
        await report(store, job, MINA)
    with pytest.raises(UserMistake, match="reports_full"):
        await report(store, jobs[-1], MINA)


async def refused_of(store: Store, user_id: int, number: int, asked_for: Recipe | None = None) -> int:
    asked = origin(number, guild_id=HERE, user_id=user_id, channel_kind=ChannelKind.SPOILER)
    return await store.appeals.note_refusal(asked_for or recipe(), asked, rule="knives", weight=1.0, places=1)


async def refused(store: Store, number: int) -> int:
    return await refused_of(store, ARTIST, number)


async def test_an_accepted_prompt_is_painted_once_and_its_refusal_holds_no_token(store: Store) -> None:
    review_id = await refused(store, 5)
    assert (await waiting(store), await due(store)) == ([], [])
    twice = await asyncio.gather(
        *(store.appeals.appeal_refusal(review_id, ARTIST) for _ in range(3)), return_exceptions=True
    )
    assert [str(each) for each in twice if each is not None] == ["appeal_over"] * 2
    (review,) = await waiting(store)
    assert (review.kind, review.rule) == (Kind.APPEAL, "knives")
    await store.reviews.decide(review.id, Outcome.SHOWN, BY)
    (job,) = await store.jobs.active()
    assert (job.recipe, job.origin.interaction_id, job.origin.interaction_token) == (recipe(), 5, "")
    assert (job.state, job.hold) == (State.WAITING, None)
    assert job.origin.channel_kind is ChannelKind.SPOILER


async def test_only_the_newest_refusals_of_a_person_are_stored_in_as_many_characters_as_were_typed(
    store: Store,
) -> None:
    theirs = await refused_of(store, OMAR, 1)
    words = recipe(prompt="가나다라마" * 400, negative_prompt="나쁜" * 500 + "\ud800")
    mine = [await refused_of(store, ARTIST, number, words) for number in range(2, 30)]
    mine += await asyncio.gather(*(refused_of(store, ARTIST, number, words) for number in range(30, 42)))
    async with store.shared.database.read() as connection:
        size = sa.func.length(sa.cast(reviews.c.request, sa.Text))
        found = {
            row.id: row.size for row in await connection.execute(sa.select(reviews.c.id, size.label("size")))
        }
    assert found.keys() == {theirs, *sorted(mine)[-REFUSALS_KEPT:]}
    assert max(found.values()) < 5000
    with pytest.raises(UserMistake, match="appeal_over"):
        await store.appeals.appeal_refusal(mine[0], ARTIST)
    await store.appeals.appeal_refusal(max(mine), ARTIST)
    (review,) = await waiting(store)
    assert review.request is not None
    assert review.request["recipe"]["prompt"] == words.prompt
    assert review.request["recipe"]["negative_prompt"] == words.negative_prompt


async def test_an_appeal_stays_when_later_prompts_are_refused(store: Store) -> None:
    appealed = await refused(store, 1)
    await store.appeals.appeal_refusal(appealed, ARTIST)
    for number in range(2, REFUSALS_KEPT + 4):
        await refused(store, number)
    assert [review.id for review in await waiting(store)] == [appealed]


async def test_a_declined_prompt_has_an_answer_that_waits_for_the_person_if_it_cannot_be_sent(
    store: Store,
) -> None:
    review_id = await refused(store, 5)
    with pytest.raises(UserMistake, match="appeal_over"):
        await store.appeals.appeal_refusal(review_id, MINA)
    await store.appeals.appeal_refusal(review_id, ARTIST)
    (message,) = await due(store)
    await store.review_messages.settle(message, message_id=7, channel_id=CHANNEL)
    await store.reviews.decide(review_id, Outcome.DECLINED, By(actor_id=MINA, guild_id=HERE, reason="no"))
    (message,) = await due(store)
    assert message.case.answers
    assert not (await store.standings.of(PLACE)).has_answers
    await store.review_messages.settle(message, message_id=7, channel_id=CHANNEL, told=False)
    assert (await store.standings.of(PLACE)).has_answers
    assert [each.reason for each in await store.appeals.answers_left(ARTIST)] == ["no"]
    assert not (await store.standings.of(PLACE)).has_answers
    assert await store.appeals.answers_left(ARTIST) == []


async def test_appeals_are_limited_by_the_day(store: Store, clock: Clock) -> None:
    refusals = [await refused(store, number) for number in range(APPEALS_A_DAY + 1)]
    for review_id in refusals[:-1]:
        await store.appeals.appeal_refusal(review_id, ARTIST)
    with pytest.raises(UserMistake, match="appeals_full"):
        await store.appeals.appeal_refusal(refusals[-1], ARTIST)
    clock.now += 25 * HOUR
    assert await store.reviews.forget(before=-math.inf, limit=9) == 1
    with pytest.raises(UserMistake, match="appeal_over"):
        await store.appeals.appeal_refusal(refusals[-1], ARTIST)


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres_url"], indirect=True)  # SQLite has one writer at a time
async def test_a_sweep_deletes_no_refusal_that_was_appealed_since_its_search(
    store: Store, clock: Clock
) -> None:
    review_id = await refused(store, 5)
    clock.now += 25 * HOUR
    appealed = sa.update(reviews).where(reviews.c.id == review_id).values(kind=Kind.APPEAL.value)
    waits = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
    async with store.shared.database.write() as connection:
        await connection.execute(appealed)
        sweeping = asyncio.create_task(store.reviews.forget(before=-math.inf, limit=9))
        while not await connection.scalar(waits):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
    assert await sweeping == 0
    assert [review.id for review in await waiting(store)] == [review_id]


async def test_an_erased_person_ends_holds_and_leaves_reviews_without_name_and_words(
    store: Store, files: Files
) -> None:
    await painted(store, hold=MODE)
    await store.appeals.appeal_refusal(await refused(store, 5), ARTIST)
    other = await store.jobs.enqueue(recipe(), origin(9, user_id=MINA, guild_id=HERE))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact="aa/9.png", seconds=1.0)
    await report(store, other, ARTIST)
    await forget(store.erasure, files, user_id=ARTIST)
    ended = [message.review for message in await due(store)]
    mine = [review for review in ended if review.job_id != other.id]
    assert [review.outcome for review in mine] == [Outcome.WITHDRAWN] * 2
    assert all(review.user_id < 0 and review.request is None for review in mine)
    async with store.shared.database.read() as connection:
        assert list(await connection.execute(sa.select(reports))) == []


async def test_the_moderators_messages_lose_the_words_of_a_person_who_reported_and_the_name_of_a_moderator(
    store: Store, files: Files
) -> None:
    waiting_one, decided = [await painted(store, number) for number in (1, 2)]
    for job in (waiting_one, decided):
        await report(store, job, OMAR)
    [review] = [each for each in await waiting(store) if each.job_id == decided.id]
    await store.reviews.decide(review.id, Outcome.SHOWN, By(actor_id=WEI, guild_id=HERE))
    for message in await due(store):
        assert message.case.reported == ("ugly",)
        await store.review_messages.settle(message, message_id=7, channel_id=CHANNEL)
    await forget(store.erasure, files, user_id=OMAR)
    again = await due(store)
    assert [message.case.reported for message in again] == [(), ()]
    for message in again:
        await store.review_messages.settle(message, message_id=7, channel_id=CHANNEL)
    await forget(store.erasure, files, user_id=WEI)
    [message] = await due(store)
    assert message.review.id == review.id
    assert (message.review.decided_by or 0) < 0


async def test_what_a_server_reviews_goes_with_it(store: Store, files: Files) -> None:
    await store.reviews.set_settings(BY, hours=2)
    job = await painted(store)
    await report(store, job, MINA)
    await refused(store, 5)
    assert await store.erasure.servers() == {HERE}
    await forget(store.erasure, files, guild_id=HERE)
    async with store.shared.database.read() as connection:
        for table in (reviews, reports, review_settings):
            assert list(await connection.execute(sa.select(table))) == []


async def test_ended_reviews_are_forgotten_once_their_messages_show_it(store: Store, clock: Clock) -> None:
    await painted(store, hold=MODE)
    (review,) = await waiting(store)
    await store.reviews.decide(review.id, Outcome.SHOWN, BY)
    clock.now += HOUR
    assert await store.reviews.forget(before=clock.now, limit=9) == 0
    (message,) = await due(store)
    await store.review_messages.settle(message, message_id=7, channel_id=CHANNEL)
    assert await store.reviews.forget(before=clock.now, limit=9) == 1


async def test_nobody_decides_on_their_own_pictures_but_the_owner_of_the_server(store: Store) -> None:
    job, mine = await painted(store, hold=MODE), By(actor_id=ARTIST, guild_id=HERE)
    (review,) = await waiting(store)
    with pytest.raises(UserMistake, match="review_own"):
        await store.reviews.decide(review.id, Outcome.SHOWN, mine)
    await store.reviews.decide(review.id, Outcome.REJECTED, BY)
    await store.appeals.appeal_pictures(job.id, ARTIST)
    (appeal,) = await waiting(store)
    with pytest.raises(UserMistake, match="review_own"):
        await store.reviews.decide(appeal.id, Outcome.SHOWN, mine)
    assert await shown(store, job) is Showing.WITHHOLD
    await store.reviews.decide(appeal.id, Outcome.SHOWN, mine, own=True)
    assert await shown(store, job) is Showing.SHOW


async def test_an_accepted_prompt_counts_once_it_is_accepted_and_what_fails_is_given_back(
    store: Store,
) -> None:
    quota = Quota(key="cost_per_day", measure=Measure.COST, limit=5, seconds=24 * HOUR, guild_id=HERE)

    async def left() -> float:
        return (await store.charges.left(ARTIST, [quota]))[0].left

    charge = Charge(pictures=2, cost=3.0, quotas=(quota,))  # more than the quota has
    review_id = await store.appeals.note_refusal(
        recipe(variants=2), origin(5, guild_id=HERE), rule="knives", weight=1.0, places=6, charge=charge
    )
    await store.appeals.appeal_refusal(review_id, ARTIST)
    assert await left() == 5
    await store.reviews.decide(review_id, Outcome.SHOWN, BY)
    assert await left() == -1
    painted_one, failed = await store.leases.claim("worker", limit=2, ttl=TTL)
    await store.leases.fail(failed, failure="painting_failed")
    await store.leases.complete(painted_one, artifact="aa/1.png", seconds=1.0)
    assert await left() == 2


async def test_an_accepted_prompt_is_held_where_every_result_is(store: Store) -> None:
    asked = origin(5, guild_id=HERE)
    review_id = await store.appeals.note_refusal(
        recipe(), asked, rule="knives", weight=1.0, places=1, hold=MODE
    )
    await store.appeals.appeal_refusal(review_id, ARTIST)
    await store.reviews.decide(review_id, Outcome.SHOWN, BY)
    (job,) = await store.jobs.active()
    assert job.hold == MODE


async def test_the_log_of_settings_that_two_moderators_change_at_once_is_one_chain(
    open_store: OpenStore,
) -> None:
    stores = [await open_store(), await open_store()]
    await asyncio.gather(
        *(
            change
            for n in range(1, 6)
            for change in (
                stores[0].reviews.set_settings(BY, hours=n),
                stores[1].reviews.set_settings(BY, reports=n + 1),
            )
        )
    )
    logged = [
        entry for entry in await stores[0].moderation.entries(HERE, limit=99) if entry.act is Act.REVIEW
    ]
    assert len(logged) == 10
    for later, earlier in itertools.pairwise(logged):
        assert later.before == earlier.after


WEI_BY = By(actor_id=WEI, guild_id=HERE)


async def held_four(store: Store, *, kind: Kind = Kind.HOLD) -> tuple[Job, Review]:
    """A job of four pictures that are held, or reported and still shown, and its review."""
    await store.jobs.enqueue(
        recipe(variants=4), origin(1, guild_id=HERE), hold=MODE if kind is Kind.HOLD else None
    )
    for number in range(4):
        (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
        job = await store.leases.complete(claim, artifact=f"aa/{number}.png", seconds=1.0)
    if kind is Kind.REPORT:
        await report(store, job, OMAR)
    (review,) = await waiting(store)
    return job, review


@pytest.mark.parametrize("kind", [Kind.HOLD, Kind.REPORT])
async def test_one_bad_picture_does_not_take_the_good_ones_with_it(store: Store, kind: Kind) -> None:
    job, review = await held_four(store, kind=kind)
    by = By(actor_id=MINA, guild_id=HERE, reason="a logo")
    but = {1: Outcome.REJECTED, 3: Outcome.SPOILER}
    decided = await store.reviews.decide(review.id, Outcome.SHOWN, by, but=but)
    assert (decided.outcome, decided.reason) == (Outcome.SHOWN, "a logo")
    job = await store.jobs.get(job.id)
    assert [image.showing for image in job.images] == [
        Showing.SHOW,
        Showing.WITHHOLD,
        Showing.SHOW,
        Showing.SPOILER,
    ]
    rulings = [image.ruling for image in job.images]
    assert rulings[1] is not None
    assert (rulings[1].outcome, rulings[1].reason) == (Outcome.REJECTED, "a logo")
    assert all(ruling is None or not ruling.reason for ruling in (rulings[0], rulings[2], rulings[3]))
    assert not job.hides_words
    entries = await store.moderation.entries(HERE, limit=9)
    assert {(entry.act, str((entry.after or {}).get("pictures"))) for entry in entries} == {
        (Act.APPROVE, "None"),
        (Act.COVER, "[4]"),
        (Act.REJECT, "[2]"),
    }
    assert [each.id for each in await delivered(store)] == [job.id]
    assert [message.review.id for message in await due(store)] == [review.id]
    assert await waiting(store) == []


async def test_decisions_by_picture_reach_the_same_pictures_in_other_requests(store: Store) -> None:
    job, review = await held_four(store)
    await store.jobs.enqueue(recipe(prompt="other"), origin(2, guild_id=HERE), hold=MODE)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    other = await store.leases.complete(claim, artifact="aa/1.png", seconds=1.0)
    await store.reviews.decide(review.id, Outcome.SHOWN, BY, but={1: Outcome.REJECTED})
    assert await shown(store, other) is Showing.WITHHOLD
    assert [image.showing for image in (await store.jobs.get(job.id)).images].count(Showing.SHOW) == 3


async def test_two_moderators_at_once_have_different_cases(store: Store, open_store: OpenStore) -> None:
    for number in range(1, 4):
        await painted(store, number, hold=MODE)
    stores = [store, await open_store()]
    taken = await asyncio.gather(
        *(
            stores[turn % 2].review_claims.claim_next(By(actor_id=100 + turn, guild_id=HERE))
            for turn in range(5)
        )
    )
    ids = [review.id for review in taken if review is not None]
    assert sorted(ids) == [review.id for review in await waiting(store)]


async def test_a_claim_ends_after_its_time_and_with_the_decision(store: Store, clock: Clock) -> None:
    await painted(store, hold=MODE)
    (review,) = await waiting(store)
    claimed = await store.review_claims.claim(review.id, BY)
    assert (claimed.claimed_by, claimed.claimed_until) == (MINA, clock.now + CLAIM_SECONDS)
    assert await store.review_claims.claim_next(WEI_BY) is None
    with pytest.raises(UserMistake, match="review_claimed"):
        await store.review_claims.claim(review.id, WEI_BY)
    clock.now += 60.0
    again = await store.review_claims.claim(review.id, BY)
    assert again.claimed_until == clock.now + CLAIM_SECONDS
    clock.now += CLAIM_SECONDS
    assert (await store.review_claims.claim(review.id, WEI_BY)).claimed_by == WEI
    assert await store.review_claims.claim_next(BY) is None
    decided = await store.reviews.decide(review.id, Outcome.SHOWN, BY)  # by a button in Discord
    assert decided.claimed_by is None
    with pytest.raises(UserMistake, match="review_over"):
        await store.review_claims.claim(review.id, BY)
    with pytest.raises(UserMistake, match="review_gone"):
        await store.review_claims.claim(review.id, By(actor_id=MINA, guild_id=HERE + 1))


async def test_the_next_case_is_the_one_after_this_and_then_the_first_again(
    store: Store, clock: Clock
) -> None:
    ids = []
    for number in range(1, 4):
        clock.now += 1.0
        await painted(store, number, hold=MODE)
        ids.append((await waiting(store))[-1].id)
    for after, expected in ((0, ids[0]), (ids[0], ids[1]), (ids[2], ids[0])):
        found = await store.review_claims.claim_next(BY, after=after)
        assert found is not None
        assert found.id == expected
    artist = By(actor_id=ARTIST, guild_id=HERE)
    clock.now += CLAIM_SECONDS
    assert await store.review_claims.claim_next(artist) is None
    assert await store.review_claims.claim_next(artist, own=True) is not None


async def test_the_record_of_a_person_counts_how_their_reviews_ended(store: Store) -> None:
    for number, outcome in enumerate((Outcome.SHOWN, Outcome.REJECTED, Outcome.REJECTED), start=1):
        await painted(store, number, hold=MODE)
        await store.reviews.decide((await waiting(store))[0].id, outcome, BY)
    await painted(store, 4, hold=MODE)
    found = await store.review_claims.record(HERE, ARTIST)
    assert found == {Outcome.SHOWN: 1, Outcome.REJECTED: 2, None: 1}
    assert await store.review_claims.record(HERE + 1, ARTIST) == {}


async def test_the_server_whose_review_ends_first_is_urgent(store: Store, clock: Clock) -> None:
    assert await store.review_claims.urgent_server() is None
    await painted(store, hold=MODE)
    clock.now += 1.0
    await store.jobs.enqueue(recipe(), origin(2, guild_id=HERE + 1), hold=MODE)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact="aa/2.png", seconds=1.0)
    assert await store.review_claims.urgent_server() == HERE

"""No verb reads a large part of a table that grows: each verb runs on a store with the pictures of a year.

Each statement is measured while it runs: on SQLite by the steps of its virtual machine, on PostgreSQL by the
rows and index entries that it reads. A table scan that ends early is no fault, and a search in an index that
finds a million rows is one.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from million import ACTIVE, NOW, PERSON, SERVER, fill_statements
from recipes import origin, recipe
from session_steps import PLAN
from stores import TTL, Clock
from verb_meter import Meter, public_verbs

from bot.domain.errors import ConfigurationError, StoreUnavailable, UserMistake
from bot.domain.holds import Cause, Hold, Outcome
from bot.domain.jobs import Descent, Parent, Showing, State
from bot.domain.levels import Level
from bot.domain.outbox import Outgoing
from bot.domain.quotas import Caps, Charge, Measure, Quota
from bot.membership.processes import Process, Processes
from bot.store import Store
from bot.store.database.database import Verbs
from bot.store.library.styles import Style
from bot.store.library.wildcards import Wildcard
from bot.store.moderation.policies import PolicyScope
from bot.store.moderation.prompt_rules import PromptRule
from bot.store.moderation.standing import Requester
from bot.store.operations.gallery import Search
from bot.store.operations.queue import Wanted
from bot.store.people.preferences import Owner
from bot.store.people.preferences import Scope as OwnerScope
from bot.store.queue.seed_sequences import NextOf
from bot.store.rows.audit import Act, By
from bot.store.rows.device_time import Grouping, Spent, WorkerClass
from bot.store.rows.hashes import Hashes
from bot.store.rows.restrictions import Scope
from bot.store.rows.sessions import TimerKind
from sdjax_engine.request import Lane

DAY = 86_400.0
OTHER = PERSON + 7
BY = By(actor_id=OTHER, guild_id=SERVER)
PAINTED = Lane(model="demo", height=128, width=128, guided=True)
QUOTA = Quota(key="pictures_a_day", measure=Measure.PICTURES, limit=1e9, seconds=DAY, guild_id=SERVER)
CHARGE = Charge(pictures=1, cost=1.0, quotas=(QUOTA,))
CAPS = Caps(waiting_per_user=9_000, waiting_per_server=9_000, waiting=9_000, images_at_full_share=9, kept=0.1)
SPENT = Spent(accelerator="cpu", seconds=1.0)


class Life:
    """The life of a queue, one part after the other: together the parts call every verb of the store.

    `newest` is the number of the newest job, `first` an interaction id of no job.
    """

    def __init__(self, store: Store, meter: Meter, newest: int, first: int) -> None:
        self.store = store
        members = [name for name, value in vars(store).items() if isinstance(value, Verbs)]
        self.members = [getattr(store, name) for name in members]
        for name, member in zip(members, self.members, strict=True):
            setattr(store, name, meter.metered(member))
        processes = Processes(store.shared)
        self.members.append(processes)
        self.processes = meter.metered(processes)
        self.newest = newest
        self.first = first
        self.done = f"j{4_000 + first % 1_000}"

    def asked(self, **values: Any) -> Any:
        self.first += 1
        here = {"user_id": OTHER, "guild_id": SERVER, "channel_id": SERVER + 7, "front": "front"}
        return origin(self.first, **{**here, **values})

    def waits(self, number: int) -> str:
        """A waiting job of the busiest person in the largest server."""
        return f"j{self.newest - ACTIVE + 20 * number}"

    async def looks(self) -> None:
        jobs, done = self.store.jobs, self.done
        await jobs.copies(done)
        await jobs.check_caps(self.asked(), caps=CAPS, charge=CHARGE)
        await jobs.get(done)
        await jobs.by_interaction(SERVER + 4 * 3_000)
        which: dict[str, Any]
        places: tuple[dict[str, Any], ...] = ({"user_id": PERSON}, {"guild_id": SERVER}, {"paused": True}, {})
        for which in (*places, {"front": "front", "paused": False}):
            await jobs.active(**which)
        for which in ({"user_id": PERSON}, {"guild_id": SERVER}, {"before": self.waits(1)}):
            await jobs.count_active(**which)
        for which in (
            {},
            {"older_than": SERVER + 4_000},
            {"newer_than": SERVER + 4_000, "copies": True},
            {"search": "no. 4000"},
            {"search": "zebra"},
        ):
            await jobs.history(PERSON, limit=11, **which)
        await jobs.history(OTHER, limit=11, starred=True)
        await jobs.history(OTHER, limit=11, starred=True, search="zebra")
        await jobs.recent(PERSON, guild_id=SERVER, since=NOW - DAY, limit=25)
        await jobs.recent(5, guild_id=SERVER, since=NOW - DAY, limit=25)
        await jobs.count_recent(PERSON, guild_id=SERVER, since=NOW - DAY)
        await jobs.counts([State.WAITING, State.RUNNING])
        await jobs.backlog()
        await jobs.active_ids(PERSON)
        await jobs.shown_by(2 * SERVER + 3_000)
        await jobs.set_message(done, 5)
        await self.store.positions.of(self.waits(1))
        await self.store.positions.of_all([self.waits(number) for number in range(9)])
        await self.store.batches.now()
        await self.store.previews.of(self.waits(1))
        for whose in ({"user_id": PERSON}, {"guild_id": SERVER}):
            await self.store.statistics.painted(since=[NOW - DAY], **whose)

    async def operations(self) -> None:
        messages, logins = self.store.messages, self.store.logins
        for wanted in ({}, {"user_id": PERSON}, {"guild_id": SERVER}, {"model": "other"}, {"public": True}):
            await self.store.queue.listed(Wanted(**wanted), limit=51)
        await self.store.workers.now()
        await self.store.workers.drain("nobody", BY)
        await self.store.failures.by_cause(since=NOW - DAY)
        await self.store.failures.jobs_of("painting_failed", since=NOW - DAY)
        await self.store.failures.retry(self.done, OTHER)
        for verb in (self.store.queue.pause, self.store.queue.resume, self.store.queue.advance):
            await verb(self.waits(3), BY)
        await self.store.queue.attempts(self.done)
        await messages.waiting()
        unread = frozenset({5})  # a channel without any request
        for search in (
            Search(words="zebra"),
            Search(guild_id=SERVER, model="other"),
            Search(guild_id=SERVER, public=True, channels=unread),
            Search(user_id=PERSON),
            Search(user_id=PERSON, guild_id=5, since=NOW - 200 * DAY, until=NOW - 190 * DAY),
            Search(seed=5, level=Level.MILD, since=NOW - 200 * DAY),
            Search(guild_id=SERVER, until=NOW - 100 * DAY, level=Level.EXTREME),
            Search(starred_by=OTHER),
            Search(starred_by=OTHER, guild_id=SERVER, until=NOW - 200 * DAY, level=Level.MILD),
        ):
            for after in ("", self.done):
                await self.store.gallery.find(search, after=after, limit=25)
        await self.store.gallery.asked(SERVER, since=NOW - DAY, limit=2000)
        for message in await messages.unsent(Outgoing.RESULT, limit=50):
            await messages.send_now(message.id)
        session = await logins.enter(await logins.invite()) or ""
        await logins.find(session)
        await logins.open(7)
        await logins.leave(session)
        await logins.lapse()

    async def requests(self) -> None:
        jobs, done = self.store.jobs, self.done
        await jobs.enqueue(recipe(), self.asked(), caps=CAPS, charge=CHARGE)
        await jobs.enqueue(NextOf(job_id=done), self.asked())
        published = Parent(job_id=done, descent=Descent.PUBLICATION)
        await jobs.copy(done, self.asked(channel_id=self.first, parent=published), index=0)
        await jobs.cancel(self.waits(2), user_id=None, by=BY)
        await self.store.charges.left(PERSON, [QUOTA])
        await self.store.charges.free_at(PERSON, QUOTA, 2e9)
        await self.store.charges.lapse()
        await self.store.favourites.add(OTHER, done)
        await self.store.favourites.of(OTHER)
        await self.store.favourites.remove(OTHER, done)

    async def painting(self) -> None:
        offers, leases = self.store.offers, self.store.leases
        await offers.announce("painter", lanes=[PAINTED], seats=4, ttl=TTL, accelerator="cpu")
        await offers.stand_in("stand-in", lanes=["other:1x1:guided"], ttl=TTL)
        await offers.await_published(["demo"], ttl=TTL)
        await offers.publish([])
        await offers.published(["demo"])
        await offers.withdraw("stand-in")
        await offers.is_anything_offered()
        await offers.unoffered()
        await offers.is_offered(PAINTED)
        await offers.fail_unoffered(grace=60.0)
        first, second, third, *more = await leases.claim("painter", limit={PAINTED: 9}, ttl=TTL)
        more += await leases.claim("painter", limit=2, ttl=TTL)
        claims = dict.fromkeys([first, second, third, *more], 3)
        await leases.heartbeat(claims, ttl=TTL, previews={first: b"picture"}, troubles={second: "trouble"})
        await leases.complete(
            first,
            artifact=f"new{first.image_id}.png",
            seconds=1.0,
            showing=Showing.HOLD,
            hashes=Hashes(result=12345678901, given={"f40.png": 2}),
            worker_class=WorkerClass(accelerator="cpu", seats=4),
            spent=SPENT,
        )
        await leases.fail(second, failure="painting_failed", spent=SPENT)
        await leases.give_back(third, spent=SPENT)
        await leases.abandon(more[0], spent=SPENT)
        await leases.recover("painter")
        await leases.expire()
        await self.store.device_time.add(third, SPENT)
        await self.store.device_time.add_repaint(self.done, "demo", SPENT)
        await self.store.demands.rows()
        await self.store.demands.know(["cpu"])
        with suppress(ConfigurationError, StoreUnavailable):  # SQLite has no roles
            await self.store.demands.grant("nobody")

    async def results(self) -> None:
        deliveries, files = self.store.deliveries, self.store.files
        first, second, *_ = await deliveries.claim("front", limit=8, held=[1])
        await deliveries.adopt("front", [first.job.id])
        await deliveries.mark_delivered(first, outcome="edited", message_id=7)
        await deliveries.retry(second, at=NOW + 60)
        await deliveries.delete_result(f"j{8_000 + self.first % 1000}", user_id=None, by=BY)
        await deliveries.clear([f"j{6_000 + self.first % 1_000 * 20}"], by=BY, subject_id=PERSON)
        await files.expect("f40.png", size=40_000)
        await files.drop_unused({"f41.png": NOW})
        await files.note_deleted(["f41.png"])
        await files.painter("f40.png")
        await files.want(["f41.png"])
        await files.claim_lost([PAINTED], limit=4, ttl=TTL)
        await files.end_wait("f41.png", failure="gone")
        await files.of_image("j40", 0)
        await files.given("j40")
        await files.replace("f42.png", "f43.png")

    async def moderation(self) -> None:
        moderation, known = self.store.moderation, self.store.known
        person = Scope(guild_id=SERVER, user_id=5)
        await moderation.block(person, BY)
        await moderation.unblock(person, BY)
        channel = Scope(guild_id=SERVER, channel_id=SERVER + 7)
        await moderation.pause(channel, BY)
        await moderation.resume(channel, BY)
        await moderation.in_force(SERVER)
        await moderation.by_operator()
        await moderation.of_person(5)
        await moderation.lapse()
        for which in (
            {},
            {"older_than": 5_000},
            {"newer_than": 5_000},
            {"actor_id": OTHER},
            {"actor_id": 5},
            {"subject_id": OTHER},
            {"subject_id": 5},
            {"person_id": OTHER},
            {"person_id": 5},
            {"act": Act.POLICY},
        ):
            await moderation.entries(SERVER, limit=11, **which)
        await moderation.entries(None, person_id=5, limit=5_000)
        number = 987654321987654321
        await known.whose(SERVER, number, limit=5)
        await known.of_job(SERVER, self.done)
        await known.is_refused(SERVER, number)
        await known.painted(SERVER, number)
        await known.begins_with("0123456789abcde")
        await known.painted(None, number)
        await known.painted_anywhere([number, ~number % 2**64])
        await known.is_result("aa/none.png")
        await known.block(number, BY)
        await known.blocking(SERVER, number)
        await known.unblock(number, BY)
        await known.blocked(SERVER)
        await known.kept(SERVER, range(16))
        await self.store.automod.is_applied(SERVER)
        await self.store.automod.apply(False, BY)

    async def reviews(self) -> None:
        reviews, messages, appeals = self.store.reviews, self.store.review_messages, self.store.appeals
        await reviews.settings(SERVER)
        await reviews.set_channel(7, BY)
        await reviews.set_settings(BY, hours=3)
        job = f"j{2_000 + self.first % 1000 * 2}"
        await reviews.hold(job, Hold(cause=Cause.MODE), BY)
        waiting = await reviews.waiting(SERVER, limit=25)
        [review] = [each for each in await reviews.waiting(SERVER, limit=999) if each.job_id == job]
        await reviews.get(waiting[0].id, SERVER)
        await messages.case(waiting[0].id, SERVER)
        claims = self.store.review_claims
        await claims.claim(waiting[0].id, BY)
        await claims.claim_next(BY, after=waiting[0].id)
        await claims.urgent_server()
        await claims.record(SERVER, PERSON)
        due = await messages.claim("front", limit=4)
        await messages.settle(due[0], message_id=7, channel_id=8)
        await messages.note_trouble(due[-1], "no_channel")
        await messages.retry(due[-1], at=NOW + 5)
        shown = await reviews.decide(review.id, Outcome.SHOWN, BY)
        await reviews.is_last(shown)
        await reviews.undo(shown, BY)
        [review] = [each for each in await reviews.waiting(SERVER, limit=999) if each.job_id == job]
        await reviews.decide(review.id, Outcome.REJECTED, BY)
        await appeals.appeal_pictures(job, int((await self.store.jobs.get(job)).origin.user_id))
        asked = self.asked(user_id=self.first)
        refused = await appeals.note_refusal(recipe(), asked, rule="", weight=1.0, places=1)
        await appeals.appeal_refusal(refused, asked.user_id)
        await appeals.answers_left(PERSON)
        await self.store.reports.add(self.done, self.first, guild_id=SERVER, reason="because")
        await reviews.expire(limit=2)
        await reviews.forget(before=NOW - 364 * DAY, limit=50)

    async def servers(self) -> None:
        store = self.store
        await store.standings.of(
            Requester(user_id=PERSON, guild_id=SERVER, channel_ids=(SERVER + 7, SERVER + 8))
        )
        await store.standings.said_by(SERVER)
        me = Owner(scope=OwnerScope.ME, id=PERSON)
        await store.preferences.put(me, {"seed": 7})
        await store.preferences.of(me)
        await store.preferences.nearest("seed", me)
        await self.named(store.styles, Style(name="a"))
        await self.named(store.wildcards, Wildcard(name="a", entries=("b",)))
        await store.prompt_rules.remove("rule0", BY)
        with suppress(UserMistake):  # as many as a server may have
            await store.prompt_rules.put(PromptRule(name="rule0", terms=("word",)), BY)
        await store.prompt_rules.of(SERVER)
        await store.prompt_rules.find(SERVER, "rule0")
        await store.policies.put(PolicyScope.CHANNEL, SERVER + 7, {"pictures_a_day": 5}, BY)
        await store.policies.all_of(SERVER)
        await store.policies.remove(PolicyScope.CHANNEL, SERVER + 7, BY)

    async def named(self, kept: Any, thing: Any) -> None:
        await kept.put(thing, BY)
        await kept.of(SERVER)
        await kept.find(SERVER, thing.name)
        await kept.remove(thing.name, BY)

    async def sessions(self) -> None:
        sessions, showing, posts = self.store.sessions, self.store.showing, self.store.posts
        await sessions.check_room(SERVER)
        channel = self.first
        opened = await sessions.open(PLAN, BY, channel_id=channel, locale="en")
        await self.store.jobs.enqueue(recipe(), self.asked(channel_id=channel), session_id=opened.id)
        await sessions.pause(opened.id, BY)
        await sessions.resume(opened.id, BY)
        await sessions.extend(opened.id, BY, seconds=60)
        await sessions.take_over(opened.id, BY)
        await sessions.here(channel)
        await sessions.overdue()
        await sessions.act(opened.id, TimerKind.ROUND)
        [kept] = await showing.keep("front", ttl=TTL)
        await showing.set_board(kept, 5)
        await posts.is_due(opened.id)
        await posts.ballots(kept)
        await posts.unsettled(opened.id)
        [post] = await posts.claim("front", limit=50)
        await posts.retry(post, at=NOW)
        await posts.settle(post, outcome="sent")
        await showing.crowd(kept)
        await showing.used(kept, OTHER)
        await showing.unseen(opened.id)
        await showing.late(kept)
        await showing.vote_of("s5", 1, PERSON)
        await showing.entries("s5")
        with suppress(UserMistake):  # that session has ended
            await showing.vote("s5", 1, 1, voter_id=PERSON)
        await showing.votes_of(PERSON)
        await showing.voters("s5", 1)
        await sessions.next(opened.id, BY)
        await sessions.close(opened.id, BY)
        await sessions.abandon(opened.id)
        await showing.end(kept)
        await sessions.get(opened.id)
        await sessions.forget(before=NOW - 364 * DAY, limit=10)

    async def sweep(self) -> None:
        retention = self.store.retention
        await retention.take_duty("sweep", holder="me", ttl=TTL)
        await retention.unfinished_deletions(limit=50)
        await retention.note_files({"f40.png": 40_000, f"new{self.first}.png": 5})
        await retention.drop_files(before=NOW - 364 * DAY, limit=50)
        await retention.drop_files(before=0.0, limit=50)
        await retention.drop_orphans(after=NOW - 3600, before=NOW, limit=50)
        await retention.forget_jobs(before=NOW - 364.9 * DAY, limit=50)
        await retention.forget_jobs(before=0.0, limit=50)
        await retention.forget_tokens(before=NOW, limit=500)
        await retention.forget_idle(after=0, limit=500)
        await self.store.moderation.forget(before=NOW - 364 * DAY, limit=500)
        await self.store.device_time.fold(before=date(2026, 12, 1))

    async def exports(self) -> None:
        exports = self.store.exports
        await exports.count(PERSON)
        await exports.count(PERSON, up_to=9)
        await exports.as_stored(await exports.page(PERSON, older_than=None, limit=100))
        await exports.lost({f"f{number}.png" for number in range(900)})
        for rows in (exports.reports, exports.reviews, exports.days, exports.counted, exports.hosted):
            await rows(PERSON)

    async def erasure(self) -> None:
        erasure = self.store.erasure
        newest = await erasure.job_ids_of(user_id=PERSON, limit=25)
        await erasure.job_ids_of(guild_id=SERVER, limit=25)
        await erasure.job_ids_of(guild_id=5, limit=25)
        await erasure.copies_of(newest, limit=25)
        await erasure.readable(newest)
        await erasure.files_sent(newest)
        await erasure.person_of(newest[0])
        await erasure.erase(newest[:2], unless_copied=True)
        gone = PERSON + 100 + self.first % 1000
        await erasure.erase_share(gone)
        await erasure.erase_preferences(user_id=gone)
        await erasure.erase_acts(gone)
        await erasure.erase_preferences(guild_id=SERVER + 100 + self.first % 1000)
        await erasure.servers()
        await erasure.note_departure([5])
        await erasure.note_presence([5])
        await erasure.departed(before=NOW)

    async def membership(self) -> None:
        process = Process(name="front", secret="s", role="front", machine="m", folder="f")
        await self.processes.join(process, ttl=TTL)
        await self.processes.beat(process, ttl=TTL)
        await self.processes.living()
        await self.processes.release_dead()
        await self.processes.leave(process)

    async def reads_all(self) -> None:
        await self.store.retention.kept_bytes()
        await self.store.device_time.sums([Grouping.PERSON], since=date(2026, 1, 1))

    async def live(self) -> None:
        for part in (
            *(
                self.looks,
                self.operations,
                self.requests,
                self.painting,
                self.results,
                self.moderation,
                self.reviews,
            ),
            *(
                self.servers,
                self.sessions,
                self.exports,
                self.sweep,
                self.erasure,
                self.membership,
                self.reads_all,
            ),
        ):
            await part()


MOST_STEPS, MOST_ROWS = 150_000, 5_000
MEANT = {
    "Retention.kept_bytes": math.inf,  # the bytes of all files, once a sweep
    "DeviceTime.sums": math.inf,  # operators ask for it, and it sums whatever they ask for
    "Retention.drop_files": 10.0,  # once a sweep; PostgreSQL may join all start pictures
    "Erasure.servers": 10.0,  # once a connection: a step for each server and each of its settings
}
"""How many times as much some verbs may read."""


def too_much(meter: Meter, most: int) -> list[str]:
    read = sorted(
        (read, verb) for verb, (read, _) in meter.read.items() if read > most * MEANT.get(verb, 1.0)
    )
    return [f"{verb} read {read} in: {meter.read[verb][1]}" for read, verb in reversed(read)]


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    clock = Clock()
    clock.now = NOW
    store = await Store.open(url, clock=clock)
    try:
        yield store
    finally:
        await store.close()


def fill_sqlite(file: Path, jobs: int) -> None:
    """Fill the file's tables; its indexes are made at the end, which takes half of the time."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        for pragma in ("synchronous = OFF", "cache_size = -500000", "temp_store = MEMORY"):
            database.execute(f"PRAGMA {pragma}")
        made = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        indexes = list(database.execute(made))
        database.execute("BEGIN")
        for name, _ in indexes:
            database.execute(f"DROP INDEX {name}")
        for statement in (*fill_statements(jobs), *(index for _, index in indexes), "COMMIT"):
            database.execute(statement)


def measure_sqlite(engine: sa.Engine, meter: Meter) -> None:
    """Measure statements by the steps of SQLite's virtual machine, in hundreds."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 100

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        connection.run_async(lambda driver: driver.set_progress_handler(count, 100))

    @sa.event.listens_for(engine, "before_cursor_execute")
    def before(*_: object) -> None:
        nonlocal steps
        steps = 0

    @sa.event.listens_for(engine, "after_cursor_execute")
    def after(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        meter.note(steps, statement)


_ROWS_READ = """
SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0)::bigint
FROM pg_class WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace
"""


def measure_postgresql(engine: sa.Engine, meter: Meter) -> None:
    """Measure statements by the rows and index entries that they read, also where they delete other rows."""
    begun = 0

    def rows(connection: sa.Connection) -> int:
        cursor = connection.connection.cursor()
        cursor.execute(_ROWS_READ)
        [[read]] = cursor.fetchall()
        return int(read)

    @sa.event.listens_for(engine, "before_cursor_execute")
    def before(connection: sa.Connection, *_: object) -> None:
        nonlocal begun
        begun = rows(connection)

    @sa.event.listens_for(engine, "after_cursor_execute")
    def after(connection: sa.Connection, _cursor: object, statement: str, *_: object) -> None:
        meter.note(rows(connection) - begun, statement)


async def check_life(
    url: str, jobs: int, measure: Callable[[sa.Engine, Meter], None], most: int, *, number: int = 0
) -> None:
    """Run every verb; none may read more than `most`. Lives on one database have different numbers."""
    meter = Meter()
    async with opened(url) as store:
        measure(store.shared.database._engine.sync_engine, meter)
        life = Life(store, meter, jobs, 3 * SERVER + 500 * number)
        await life.live()
        if number:  # the last life: the largest server goes
            await store.erasure.erase_preferences(guild_id=SERVER)
    assert meter.read.keys() == public_verbs(life.members)
    found = too_much(meter, most)
    assert not found, "\n".join(found)


@pytest.mark.slow
async def test_no_verb_reads_a_large_part_of_a_million_pictures_on_sqlite(sqlite_url: str) -> None:
    jobs, file = 250_000, Path(sqlite_url.removeprefix("sqlite+aiosqlite:///"))
    await asyncio.to_thread(fill_sqlite, file, jobs)
    await check_life(sqlite_url, jobs, measure_sqlite, MOST_STEPS)
    with closing(sqlite3.connect(file)) as operators:
        operators.execute("ANALYZE")
        operators.commit()
    await check_life(sqlite_url, jobs, measure_sqlite, MOST_STEPS, number=1)


@pytest.mark.slow
@pytest.mark.postgres
async def test_no_verb_reads_a_large_part_of_many_pictures_on_postgresql(postgres_url: str) -> None:
    """A server keeps statistics by itself; that of the tests does not."""
    jobs = 50_000
    url = f"{postgres_url}&command_timeout=300"
    async with opened(url) as store, store.shared.database.write() as connection:
        await connection.execute(sa.text("CREATE CAST (text AS json) WITH INOUT AS ASSIGNMENT"))
        for statement in (*fill_statements(jobs), "ANALYZE"):
            await connection.exec_driver_sql(statement)
    await check_life(url, jobs, measure_postgresql, MOST_ROWS)

"""Jobs as people see them: enqueue, look, cancel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import sqlalchemy as sa

from bot.domain.errors import UnknownJob
from bot.domain.holds import Hold
from bot.domain.jobs import Job, Origin, Recipe, State
from bot.domain.quotas import Caps, Charge, with_left
from bot.store.database.database import Verbs, count_of
from bot.store.queue.copies import add_copy, copies_of, no_copy
from bot.store.queue.deliveries import shown_by
from bot.store.queue.new_jobs import (
    NO_CAPS,
    Adding,
    job_of,
    new_job_id,
    refuse_over,
    room_at_full_share,
)
from bot.store.queue.search import find_words, words_of
from bot.store.queue.seed_sequences import NextOf
from bot.store.queue.statistics import Backlog, read_backlog
from bot.store.rows.admission import lock_channel_session, wait_for_turn
from bot.store.rows.audit import Act, By, note
from bot.store.rows.charges import NO_CHARGE, refuse_over_quota
from bot.store.rows.jobs import load_first, load_job, load_jobs
from bot.store.rows.transitions import cancel_images, lock_owned_job
from bot.store.tables.queue import favourites, jobs

_NOT_PAUSED = jobs.c.paused == sa.false()
RUNS = jobs.c.state == State.RUNNING
WAITS, PAUSED = ((jobs.c.state == State.WAITING) & each for each in (_NOT_PAUSED, ~_NOT_PAUSED))


class Jobs(Verbs):
    """The verbs of jobs: enqueue, list, count, cancel."""

    async def enqueue(
        self,
        wish: Recipe | NextOf,
        origin: Origin,
        *,
        weight: float = 1.0,
        caps: Caps = NO_CAPS,
        places: int = 1,
        session_id: str | None = None,
        hold: Hold | None = None,
        charge: Charge = NO_CHARGE,
    ) -> Job:
        """Store a job and its images; a repeated interaction returns the job that it made first.

        `wish` is its recipe, or asks for that of another job with the next seeds of its seed sequence; each
        repeat has its own. Of two users who wait, one of twice the `weight` is served twice as much. The job
        counts as `places` against the caps, and its `charge` against quotas; with `hold` its pictures are
        held for review.
        `session_id` is that of the channel's group session. Raises UserMistake `queue_full_user`,
        `queue_full_server` or `queue_full` where a hard cap is reached, where a quota is used up, and as
        `Adding.add`; raises UnknownJob for a job that is gone.
        """
        async with self._telling(work=True) as connection:
            await lock_channel_session(connection, origin.channel_id)
            await wait_for_turn(connection, origin.user_id)
            known = await job_of(connection, origin.interaction_id)
            if known is None:
                await refuse_over(connection, caps, origin, places=places)
                now = self._clock()
                if charge.quotas:
                    left = await refuse_over_quota(connection, origin, charge, now=now)
                    origin = replace(origin, policy=with_left(origin.policy, left))
                room = await room_at_full_share(connection, caps, origin.user_id)
                adding = Adding(
                    wish=wish,
                    origin=origin,
                    weight=weight,
                    places=places,
                    room=room,
                    hold=hold,
                    charge=charge,
                    session_id=session_id,
                    now=now,
                )
                known = await adding.add(connection)
            return await load_job(connection, known)

    async def copy(
        self, job_id: str, origin: Origin, *, index: int | None = None, hold: Hold | None = None
    ) -> Job:
        """Store a finished job that shows the picture at `index` of another, or all; its result is due.

        With `hold` the pictures of the copy are held for review. A repeated interaction returns the job that
        it made first. Raises UnknownJob, and UserMistake `no_picture` or `picture_held` without that picture,
        `publish_known`, `publish_policy` or `publish_again`.
        """
        async with self._telling(results=True) as connection:
            known = await job_of(connection, origin.interaction_id)
            while known is None:  # repeated only where the id is taken
                known = await add_copy(
                    connection, job_id, index, origin, hold=hold, new_id=new_job_id(), now=self._clock()
                ) or await job_of(connection, origin.interaction_id)
            return await load_job(connection, known)

    async def copies(self, job_id: str) -> list[Job]:
        """Return the copies of a job, without deleted ones."""
        async with self._database.read() as connection:
            return await load_jobs(connection, await copies_of(connection, [job_id]))

    async def check_caps(self, origin: Origin, *, caps: Caps, charge: Charge = NO_CHARGE) -> None:
        """Raise the UserMistake about caps or quotas that `enqueue` would raise now, without a lock."""
        async with self._database.read() as connection:
            if await job_of(connection, origin.interaction_id) is None:
                await refuse_over(connection, caps, origin, only_looking=True)
                await refuse_over_quota(connection, origin, charge, now=self._clock())

    async def cancel(self, job_id: str, *, user_id: int | None, by: By | None = None) -> Job | None:
        """Cancel the images of a job that are not final; a job that has ended stays as it is.

        Returns the job, None for a job that this version cannot read: it is cancelled too. `user_id` is the
        person who asks, None a moderator, whom the log names as `by`. Workers learn of it by their next
        heartbeat at the latest. Finished images are delivered. Raises UnknownJob, or NotYours.
        """
        async with self._changing() as (connection, changes):
            owner = await lock_owned_job(connection, job_id, user_id)
            changes.results = await cancel_images(connection, job_id, now=self._clock())
            if by is not None and changes.results:
                after = {"job": job_id}
                await note(connection, Act.CANCEL, by, at=self._clock(), subject_id=owner, after=after)
            changes.cancelled = True
            found = await load_jobs(connection, [job_id])
        return found[0] if found else None

    async def get(self, job_id: str) -> Job:
        """Return the job of this id; raises UnknownJob or UnreadableJob."""
        async with self._database.read() as connection:
            return await load_job(connection, job_id)

    async def by_interaction(self, interaction_id: int) -> Job:
        """Return the job that this interaction made; raises UnknownJob or UnreadableJob."""
        async with self._database.read() as connection:
            job_id = await job_of(connection, interaction_id)
            if job_id is None:
                raise UnknownJob(interaction=interaction_id)
            return await load_job(connection, job_id)

    async def active(
        self,
        *,
        user_id: int | None = None,
        guild_id: int | None = None,
        front: str | None = None,
        paused: bool | None = None,
        limit: int = 100,
    ) -> list[Job]:
        """Return the active jobs of one person, of one server, or of all: running, waiting, in a pause.

        With a `front`, only the jobs of that front and jobs without a front; with `paused`, only jobs that
        wait in a pause, or none of these. Each kind is in fair order, read from an index up to `limit`.
        """
        which = _active_of(user_id=user_id, guild_id=guild_id, front=front)
        kinds = (*(() if paused else (RUNS, WAITS)), *(() if paused is False else (PAUSED,)))
        found: list[Job] = []
        async with self._database.read() as connection:
            for kind in kinds:
                look = sa.select(jobs.c.id).where(kind, which).order_by(jobs.c.tag, jobs.c.interaction_id)
                found += await load_first(connection, look, limit=limit - len(found))
        return found

    async def active_ids(self, user_id: int) -> list[str]:
        """Return the ids of one person's active jobs, those that this version cannot read too."""
        look = sa.select(jobs.c.interaction_id, jobs.c.id)
        mine = look.where(jobs.c.state.in_((State.WAITING, State.RUNNING)), jobs.c.user_id == user_id)
        # Sorted here: SQLite would read all of the person's jobs in that order.
        return [row.id for row in sorted(await self._rows(mine))]

    async def count_active(
        self, *, user_id: int | None = None, guild_id: int | None = None, before: str | None = None
    ) -> int:
        """Count the jobs of `active`, or only those before the job `before`. Raises UnknownJob."""
        which = _active_of(user_id=user_id, guild_id=guild_id)
        kinds = [RUNS, WAITS, PAUSED]
        async with self._database.read() as connection:
            if before is not None:
                look = sa.select(jobs.c.state, jobs.c.paused, jobs.c.tag, jobs.c.interaction_id)
                row = (await connection.execute(look.where(jobs.c.id == before))).one_or_none()
                if row is None:
                    raise UnknownJob(job=before)
                earlier = sa.tuple_(jobs.c.tag, jobs.c.interaction_id) < sa.tuple_(
                    row.tag, row.interaction_id
                )
                kind = 0 if row.state is State.RUNNING else 1 + row.paused
                kinds = [*kinds[:kind], kinds[kind] & earlier]
            return sum([await count_of(connection, jobs, which, kind) for kind in kinds])

    async def history(
        self,
        user_id: int,
        *,
        older_than: int | None = None,
        newer_than: int | None = None,
        limit: int,
        copies: bool = False,
        search: str = "",
        starred: bool = False,
    ) -> list[Job]:
        """Return one person's jobs, newest first: the newest, or those older or newer than an interaction.

        Copies are left out unless `copies`, and jobs whose prompts lack a word of `search`. `starred` selects
        the person's favourites instead: anybody's jobs and copies that are not deleted. Interaction ids grow
        with time, so a bound is valid after its job is gone.
        """
        key = jobs.c.interaction_id
        statement = sa.select(jobs.c.id).where(_starred_by(user_id) if starred else jobs.c.user_id == user_id)
        if not (copies or starred):
            statement = statement.where(no_copy())
        if older_than is not None:
            statement = statement.where(key < older_than)
        if newer_than is not None:
            statement = statement.where(key > newer_than)
        up = newer_than is not None
        async with self._database.read(much=bool(search)) as connection:
            if words := words_of(search):
                job_ids = await find_words(connection, statement, words, up=up, limit=limit)
                found = await load_jobs(connection, job_ids)
            else:
                ordered = statement.order_by(key if up else key.desc())
                found = await load_first(connection, ordered, limit=limit)
        return found[::-1] if up else found

    async def recent(self, user_id: int, *, guild_id: int, since: float, limit: int) -> list[Job]:
        """Return the jobs of one person in one server that are not deleted, asked for since then."""
        look = sa.select(jobs.c.id).where(_recent(user_id, guild_id, since))
        async with self._database.read() as connection:
            return await load_first(connection, look.order_by(jobs.c.interaction_id.desc()), limit=limit)

    async def count_recent(self, user_id: int, *, guild_id: int, since: float) -> int:
        """Count the jobs of `recent`."""
        async with self._database.read() as connection:
            return await count_of(connection, jobs, _recent(user_id, guild_id, since))

    async def counts(self, states: Iterable[State] = State) -> dict[State, int]:
        """Count the jobs in each of these states."""
        wanted = list(states)
        count = sa.select(jobs.c.state, sa.func.count().label("jobs")).where(jobs.c.state.in_(wanted))
        rows = await self._rows(count.group_by(jobs.c.state))
        found = {row.state: row.jobs for row in rows}
        return {state: found.get(state, 0) for state in wanted}

    async def backlog(self) -> Backlog:
        """Return the open work of all jobs."""
        async with self._database.read() as connection:
            return await read_backlog(connection, now=self._clock())

    async def shown_by(self, message_id: int) -> str | None:
        """Return the id of the job that this message shows; None for any other message."""
        look = sa.select(jobs.c.id).where(jobs.c.message_id == message_id)
        return await self._scalar(look)

    async def set_message(self, job_id: str, message_id: int) -> None:
        """Store the id of the message that shows the job, for edits after the token's end."""
        await self._write(sa.update(jobs).where(jobs.c.id == job_id).values(message_id=message_id))


def _starred_by(user_id: int) -> sa.ColumnElement[bool]:
    mine = sa.select(favourites.c.job_id).where(favourites.c.user_id == user_id)
    return jobs.c.id.in_(mine) & jobs.c.deleted_at.is_(None)


def _recent(user_id: int, guild_id: int, since: float) -> sa.ColumnElement[bool]:
    mine = (jobs.c.user_id == user_id) & (jobs.c.guild_id == guild_id)
    return mine & (jobs.c.created_at >= since) & jobs.c.deleted_at.is_(None)


def _active_of(
    *, user_id: int | None, guild_id: int | None, front: str | None = None
) -> sa.ColumnElement[bool]:
    wanted = {jobs.c.user_id: user_id, jobs.c.guild_id: guild_id}
    shown = sa.true() if front is None else shown_by(front)
    return sa.and_(shown, *(column == value for column, value in wanted.items() if value is not None))

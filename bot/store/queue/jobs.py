"""Jobs as people see them: enqueue, look, cancel.

Caps limit the waiting work, by its cost, and the number of images at which a person is slowed. Rows are
counted only up to the cap. Requests of one person are decided one at a time, by the lock on that person's
row. Requests of one server, or of all servers, are decided one at a time only near their cap, so that
transactions seldom wait for each other.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UnknownJob, UserMistake
from bot.domain.holds import Hold
from bot.domain.jobs import Job, Origin, Recipe, State
from bot.domain.quotas import Caps, Charge, with_left
from bot.store.database.database import Verbs, add_new, count_of, insert
from bot.store.files.picture_files import is_lent, source_of, use_files
from bot.store.queue.copies import add_copy, copies_of, no_copy
from bot.store.queue.deliveries import shown_by
from bot.store.queue.search import find_words, words_of
from bot.store.queue.seed_sequences import NextOf, Wanted, next_in_sequence
from bot.store.queue.statistics import Backlog, read_backlog
from bot.store.rows import fair_order
from bot.store.rows.audit import Act, By, note
from bot.store.rows.charges import NO_CHARGE, refuse_over_quota
from bot.store.rows.jobs import (
    among,
    hold_values,
    load_first,
    load_job,
    load_jobs,
    origin_values,
    recipe_values,
)
from bot.store.rows.restrictions import Kind
from bot.store.rows.sessions import Entrance, enter, join_session, lock_channel_session, wait_for_turn
from bot.store.rows.transitions import cancel_images, lock_owned_job
from bot.store.tables.policies import charges
from bot.store.tables.queue import (
    favourites,
    images,
    jobs,
    last_tags,
    restrictions,
    start_pictures,
    turns,
    virtual_clock,
)
from bot.store.tables.sessions import sessions

_NOT_PAUSED = jobs.c.paused == sa.false()
RUNS = jobs.c.state == State.RUNNING
WAITS, PAUSED = ((jobs.c.state == State.WAITING) & each for each in (_NOT_PAUSED, ~_NOT_PAUSED))
_ID_CHARACTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: none looks like another
_ID_LENGTH = 8

NEAR = 500
"""With fewer places left, requests are decided one at a time: fewer requests arrive at one moment."""
NO_CAPS = Caps()
_EVERYBODY, _DIRECT = "all", "direct"
_WAITS = jobs.c.state == State.WAITING


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


def new_job_id() -> str:
    """Return a short random id that a person can read out."""
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(_ID_LENGTH))


async def job_of(connection: AsyncConnection, interaction_id: int) -> str | None:
    """Return the id of the job that an interaction has made."""
    found: str | None = await connection.scalar(
        sa.select(jobs.c.id).where(jobs.c.interaction_id == interaction_id)
    )
    return found


async def refuse_over(
    connection: AsyncConnection, caps: Caps, origin: Origin, *, places: int = 1, only_looking: bool = False
) -> None:
    """Raise UserMistake `queue_full_user`, `queue_full_server` or `queue_full` where a hard cap is reached.

    Call it after `wait_for_turn`, or with `only_looking` without any lock. A request larger than its cap is
    accepted where nothing else counts against the cap.
    """
    limit = caps.waiting_per_user
    mine = await _waiting(connection, jobs.c.user_id == origin.user_id, 1 if limit is None else limit)
    if limit is not None and _over(mine, places, limit):
        raise UserMistake("queue_full_user", limit=limit)
    look = _Look(connection=connection, places=places, only=only_looking)
    kept = caps.kept if mine else 0.0
    if await look.full(sa.true(), caps.waiting, kept, _EVERYBODY):
        raise UserMistake("queue_full", limit=caps.waiting)
    here = jobs.c.guild_id == origin.guild_id  # all direct messages count as one server
    if await look.full(here, caps.waiting_per_server, kept, str(origin.guild_id or _DIRECT)):
        problem = "queue_full" if origin.guild_id is None else "queue_full_server"
        raise UserMistake(problem, limit=caps.waiting_per_server)


async def room_at_full_share(connection: AsyncConnection, caps: Caps, user_id: int) -> int | None:
    """Return how many more images of this person may wait at full share; None without this cap."""
    if caps.images_at_full_share is None:
        return None
    active = jobs.c.state.in_((State.WAITING, State.RUNNING))
    mine = active & (jobs.c.user_id == user_id) & among(images, State.WAITING)
    return max(0, caps.images_at_full_share - await count_of(connection, jobs.join(images), mine))


@dataclass(frozen=True, kw_only=True)
class _Look:
    """Compares one request with caps; with `only`, without locks."""

    connection: AsyncConnection
    places: int
    only: bool

    async def full(self, which: sa.ColumnElement[bool], limit: int | None, kept: float, scope: str) -> bool:
        """Return whether the cap is reached; the fraction `kept` of it is reserved for other people."""
        if limit is None:
            return False
        open_places = limit - int(kept * limit)
        waiting = await _waiting(self.connection, which, limit)
        if self.only or waiting + self.places <= open_places - NEAR:
            return _over(waiting, self.places, open_places)
        await add_new(self.connection, turns, {"scope": scope})
        mine = sa.select(turns.c.scope).where(turns.c.scope == scope)
        await self.connection.execute(mine.with_for_update())
        return _over(await _waiting(self.connection, which, limit), self.places, open_places)


def _over(waiting: int, places: int, limit: int) -> bool:
    return waiting > 0 and waiting + places > limit


async def _waiting(connection: AsyncConnection, which: sa.ColumnElement[bool], limit: int) -> int:
    """Return the places of up to `limit` waiting requests; each request takes at least one place."""
    some = sa.select(jobs.c.places).where(_WAITS, which).limit(limit).subquery()
    return await connection.scalar(sa.select(sa.func.coalesce(sa.func.sum(some.c.places), 0))) or 0


@dataclass(frozen=True, kw_only=True)
class Adding:
    """Writes a new job; `wish` is the recipe, or names the job whose seed sequence it continues.

    `room` is how many more images of the person may wait at full share. `charge` is what the job counts
    against quotas. `session_id` is that of the group session whose words the recipe has; with `apart` the job
    stays out of the session of its channel.
    """

    wish: Recipe | NextOf
    origin: Origin
    weight: float
    places: int
    room: int | None
    hold: Hold | None
    charge: Charge
    now: float
    session_id: str | None = None
    apart: bool = False

    async def add(self, connection: AsyncConnection) -> str:
        """Store the job and its images; return its id, or that of the job which the interaction has made.

        Call it after `wait_for_turn`. Raises UserMistake `session_changed`, and as `enter`.
        """
        paused = await _is_paused(connection, self.origin)
        job_id: str | None = None
        while job_id is None:  # repeated only where the id or the place in the sequence is taken
            wanted = await self._wanted(connection)
            entrance = await self._entrance(connection, wanted.recipe)
            virtual_time, tags, shares = await self._tags(connection, wanted.recipe, entrance)
            job_id = await connection.scalar(
                insert(connection, jobs)
                .values(**self._job_values(wanted, entrance), tag=tags[0])
                .values(slowed=entrance is None and self._slows(wanted.recipe))
                .values(paused=paused)
                .on_conflict_do_nothing()
                .returning(jobs.c.id)
            )
            if job_id is None and (other := await job_of(connection, self.origin.interaction_id)):
                return other  # another process has just stored the same interaction
        rows = [
            {"share": share, "tag": tag, "lead": tag - virtual_time, "paused": paused}
            for tag, share in zip(tags, shares, strict=True)
        ]
        await _add_images(connection, job_id, wanted.recipe, rows)
        if names := set(wanted.recipe.given.values()):
            for name in sorted(names):
                repeats = "seed_sequence" in wanted.place or await self._is_lent(connection, name)
                source = await source_of(connection, name, repeats=repeats)
                start = {"job_id": job_id, "artifact": name, "source": source}
                await connection.execute(sa.insert(start_pictures).values(start))
            await use_files(connection, names, now=self.now)
        await self._charge(connection, job_id)
        if entrance is not None:
            await join_session(connection, entrance, job_id, last_tag=tags[-1])
            return job_id
        mine = last_tags.c.user_id == self.origin.user_id
        await connection.execute(sa.update(last_tags).where(mine).values(tag=tags[-1]))
        return job_id

    async def _wanted(self, connection: AsyncConnection) -> Wanted:
        """Return the recipe of the new job.

        For `NextOf` it is the next in the sequence, whose place another request may take first.
        """
        if isinstance(self.wish, NextOf):
            return await next_in_sequence(connection, self.wish.job_id)
        return Wanted(recipe=self.wish)

    async def _is_lent(self, connection: AsyncConnection, name: str) -> bool:
        parent = self.origin.parent
        return parent is not None and await is_lent(connection, name, parent.job_id, self.origin.user_id)

    async def _entrance(self, connection: AsyncConnection, recipe: Recipe) -> Entrance | None:
        """Return the entrance into the open session of the channel; None where there is no session."""
        if self.apart:
            return None
        look = sa.select(sessions).where(sessions.c.open_channel_id == self.origin.channel_id)
        session = (await connection.execute(look.with_for_update(read=True))).one_or_none()
        if (None if session is None else session.id) != self.session_id:
            raise UserMistake("session_changed")
        if session is None:
            return None
        return await enter(connection, session, self.origin, pictures=recipe.variants)

    async def _charge(self, connection: AsyncConnection, job_id: str) -> None:
        """Store what the job counts; nothing for a charge without pictures."""
        if not self.charge.pictures:
            return
        origin = self.origin
        row: dict[str, Any] = {
            "job_id": job_id,
            "user_id": origin.user_id,
            "guild_id": origin.guild_id or 0,
            "at": self.now,
        }
        row |= {"channel_id": origin.channel_id, "parent_channel_id": origin.thread_parent_id or 0}
        row |= {"pictures": self.charge.pictures, "cost": self.charge.cost}
        await add_new(connection, charges, row)

    def _slows(self, recipe: Recipe) -> bool:
        return self.room is not None and self.room < recipe.variants

    def _job_values(self, wanted: Wanted, entrance: Entrance | None) -> dict[str, Any]:
        of_job = {"id": new_job_id(), "state": State.WAITING, "created_at": self.now}
        of_job["places"] = self.places
        return {
            **of_job,
            "recipe": recipe_values(wanted.recipe),
            **wanted.place,
            **origin_values(self.origin),
            **hold_values(self.hold or (entrance.hold if entrance else None)),
        }

    async def _tags(
        self, connection: AsyncConnection, recipe: Recipe, entrance: Entrance | None
    ) -> tuple[float, list[float], list[float]]:
        """Return virtual time, the images' tags and their shares; `wait_for_turn` holds the person's row."""
        virtual_time = sa.select(virtual_clock.c.time).scalar_subquery().label("time")
        times = sa.select(last_tags.c.tag, virtual_time).where(last_tags.c.user_id == self.origin.user_id)
        now = (await connection.execute(times)).one()
        weight, room, last_tag = self.weight, self.room, now.tag
        if entrance is not None:
            weight, room, last_tag = fair_order.SESSION_WEIGHT, None, entrance.last_tag
        one = fair_order.share(recipe.cost, weight)
        shares = fair_order.shares(one, count=recipe.variants, room=room)
        tags = fair_order.tag_images(virtual_time=now.time, last_tag=last_tag, shares=shares)
        return now.time, tags, shares


async def _add_images(
    connection: AsyncConnection, job_id: str, recipe: Recipe, places: Sequence[Mapping[str, float]]
) -> None:
    """Store the images of a job, each with its `places`: share, tag, lead and pause."""
    values = {"job_id": job_id, "lane": str(recipe.lane), "steps": recipe.steps}
    values |= {"state": State.WAITING, "step": 0, "fencing_token": 0, "worker_deaths": 0}
    rows = [
        {**values, **place, "index": index, "seed": recipe.request(index).seed}
        for index, place in enumerate(places)
    ]
    await connection.execute(sa.insert(images), rows)


async def _is_paused(connection: AsyncConnection, origin: Origin) -> bool:
    """Return whether a new job starts in a pause; the pause cannot end before the job is stored."""
    # Do not wait for a transaction that starts or ends a pause now: that could deadlock.
    look = sa.select(restrictions.c.kind).where(
        restrictions.c.kind == Kind.PAUSE.value,
        restrictions.c.guild_id == (origin.guild_id or 0),
        restrictions.c.channel_id.in_((0, origin.channel_id, origin.thread_parent_id or 0)),
    )
    locked = look.with_for_update(read=True, skip_locked=True)
    return (await connection.execute(locked)).first() is not None

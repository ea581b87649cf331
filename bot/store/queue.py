"""Verbs of the person's side: ask, look, cancel."""

from __future__ import annotations

import secrets
from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import UnknownJob, UserMistake
from bot.jobs import Caps, Job, Origin, Recipe, State
from bot.store import fairness
from bot.store.database import insert
from bot.store.families import Wanted, Wish, next_of_family
from bot.store.files import use_files
from bot.store.rows import load_job, load_jobs, recipe_values
from bot.store.tables import images, jobs, last_tags, start_pictures, virtual_clock
from bot.store.transitions import ACTIVE, cancel_images, lock_owned_job
from bot.store.verbs import Verbs

_ID_CHARACTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: none looks like another
_ID_LENGTH = 8
NO_CAPS = Caps()


class QueueVerbs(Verbs):
    """What commands and buttons do with jobs."""

    async def enqueue(
        self, recipe: Recipe, origin: Origin, *, weight: float = 1.0, caps: Caps = NO_CAPS
    ) -> Job:
        """Store a job and its images; the same interaction again returns the job it made first.

        Raises UserMistake `queue_full_user` or `queue_full` where a hard cap is reached.
        """

        async def wanted(_connection: AsyncConnection) -> Wanted:
            return Wanted(recipe=recipe)

        return await self._accept(wanted, origin, weight, caps)

    async def enqueue_again(
        self, job_id: str, origin: Origin, *, weight: float = 1.0, caps: Caps = NO_CAPS
    ) -> Job:
        """Store a job of the same recipe as this one's, with the seeds that come next.

        Next is after those of the job, of the one that it repeats itself, and of all that repeat that one:
        whoever asks, and however many at once, nobody gets the same picture twice. Otherwise as `enqueue`;
        raises UnknownJob too.
        """

        async def wanted(connection: AsyncConnection) -> Wanted:
            return await next_of_family(connection, job_id)

        return await self._accept(wanted, origin, weight, caps)

    async def _accept(self, wanted: Wish, origin: Origin, weight: float, caps: Caps) -> Job:
        async with self._database.write() as connection:
            if caps != NO_CAPS:
                await _wait_for_turn(connection)
            known = await _job_of(connection, origin.interaction_id)
            if known is None:
                await _refuse_over(connection, caps, origin.user_id)
                known = await _add(connection, wanted, origin, weight=weight, now=self._clock())
            job = await load_job(connection, known)
        self._ring(work=True)
        return job

    async def cancel(self, job_id: str, *, user_id: int | None) -> Job:
        """Cancel what is not final of a job; of one that has ended nothing changes.

        `user_id` is who asks, None a moderator. Workers learn it by their next heartbeat. Pictures that
        are done are delivered. Raises UnknownJob, or NotYours.
        """
        async with self._database.write() as connection:
            await lock_owned_job(connection, job_id, user_id)
            ended = await cancel_images(connection, job_id, now=self._clock())
            job = await load_job(connection, job_id)
        self._ring(result=ended)
        return job

    async def job(self, job_id: str) -> Job:
        """The job of this id, or UnknownJob."""
        async with self._database.read() as connection:
            return await load_job(connection, job_id)

    async def job_by_interaction(self, interaction_id: int) -> Job:
        """The job that this interaction made, or UnknownJob."""
        async with self._database.read() as connection:
            job_id = await _job_of(connection, interaction_id)
            if job_id is None:
                raise UnknownJob(interaction=interaction_id)
            return await load_job(connection, job_id)

    async def active_jobs(
        self, *, user_id: int | None = None, guild_id: int | None = None, limit: int = 100
    ) -> list[Job]:
        """Jobs that have not ended, in fair order: of one person, of one server, or of all."""
        statement = sa.select(jobs.c.id).join(images).where(images.c.state.in_(ACTIVE))
        if user_id is not None:
            statement = statement.where(jobs.c.user_id == user_id)
        if guild_id is not None:
            statement = statement.where(jobs.c.guild_id == guild_id)
        first = sa.func.min(images.c.tag), sa.func.min(images.c.id)
        statement = statement.group_by(jobs.c.id).order_by(*first).limit(limit)
        async with self._database.read() as connection:
            job_ids = await connection.scalars(statement)
            return await load_jobs(connection, list(job_ids))

    async def counts(self) -> dict[State, int]:
        """How many jobs are in each state."""
        statement = sa.select(jobs.c.state, sa.func.count().label("jobs")).group_by(jobs.c.state)
        async with self._database.read() as connection:
            found = {row.state: row.jobs for row in await connection.execute(statement)}
        return {state: found.get(state, 0) for state in State}

    async def set_message(self, job_id: str, message_id: int) -> None:
        """Remember the message that shows the job, for when the interaction's token is dead."""
        async with self._database.write() as connection:
            await connection.execute(sa.update(jobs).where(jobs.c.id == job_id).values(message_id=message_id))


async def _job_of(connection: AsyncConnection, interaction_id: int) -> str | None:
    found: str | None = await connection.scalar(
        sa.select(jobs.c.id).where(jobs.c.interaction_id == interaction_id)
    )
    return found


async def _add(connection: AsyncConnection, wish: Wish, origin: Origin, *, weight: float, now: float) -> str:
    values = {**asdict(origin), "state": State.WAITING, "created_at": now}
    job_id: str | None = None
    while job_id is None:  # a second turn only where the id is taken, or the place in the family
        wanted = await wish(connection)
        job_id = await connection.scalar(
            insert(connection, jobs)
            .values(id=new_job_id(), recipe=recipe_values(wanted.recipe), **wanted.place, **values)
            .on_conflict_do_nothing()
            .returning(jobs.c.id)
        )
        if job_id is None and (other := await _job_of(connection, origin.interaction_id)):
            return other  # another process stored the same interaction in this moment
    recipe = wanted.recipe
    await _add_images(connection, job_id, recipe, origin.user_id, fairness.share(recipe.cost, weight))
    if names := set(recipe.start_pictures):
        rows = [{"job_id": job_id, "artifact": name} for name in sorted(names)]
        await connection.execute(sa.insert(start_pictures), rows)
        await use_files(connection, names, now=now)
    return job_id


async def _add_images(
    connection: AsyncConnection, job_id: str, recipe: Recipe, user_id: int, share: float
) -> None:
    await connection.execute(
        insert(connection, last_tags).values(user_id=user_id, tag=0.0).on_conflict_do_nothing()
    )
    mine = last_tags.c.user_id == user_id
    virtual_time = sa.select(virtual_clock.c.time).scalar_subquery().label("time")
    times = sa.select(last_tags.c.tag, virtual_time).where(mine).with_for_update(of=last_tags)
    now = (await connection.execute(times)).one()
    tags = fairness.tag_images(virtual_time=now.time, last_tag=now.tag, share=share, count=recipe.variants)
    values = {"job_id": job_id, "lane": str(recipe.lane), "steps": recipe.steps, "share": share}
    values |= {"state": State.WAITING, "step": 0, "fencing_token": 0, "worker_deaths": 0}
    rows = [
        {**values, "index": index, "seed": recipe.request(index).seed, "tag": tag}
        for index, tag in enumerate(tags)
    ]
    await connection.execute(sa.insert(images), rows)
    await connection.execute(sa.update(last_tags).where(mine).values(tag=tags[-1]))


async def _wait_for_turn(connection: AsyncConnection) -> None:
    # What is counted must still be so when the job is stored: together, many would pass the caps.
    await connection.execute(sa.select(virtual_clock.c.id).with_for_update())


async def _refuse_over(connection: AsyncConnection, caps: Caps, user_id: int) -> None:
    if caps == NO_CAPS:
        return
    mine = sa.case((jobs.c.user_id == user_id, 1))  # count leaves out what is null
    counted = sa.select(sa.func.count(mine).label("mine"), sa.func.count().label("all"))
    waiting = (await connection.execute(counted.where(jobs.c.state == State.WAITING))).one()
    if caps.waiting_per_user is not None and waiting.mine >= caps.waiting_per_user:
        raise UserMistake("queue_full_user", limit=caps.waiting_per_user)
    if caps.waiting is not None and waiting.all >= caps.waiting:
        raise UserMistake("queue_full", limit=caps.waiting)


def new_job_id() -> str:
    """A short name that a person can read out and nobody can guess the next of."""
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(_ID_LENGTH))

"""A new job: whether the caps let it wait, and all rows that come with it.

Caps limit the waiting work, by its cost, and the number of images at which a person is slowed. Rows are
counted only up to the cap. Requests of one person are decided one at a time, by the lock on that person's
row. Requests of one server, or of all servers, are decided one at a time only near their cap, so that
transactions seldom wait for each other.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.domain.holds import Hold
from bot.domain.jobs import Origin, Recipe, State
from bot.domain.quotas import Caps, Charge
from bot.store.database.database import add_new, count_of, insert
from bot.store.files.picture_files import is_lent, source_of, use_files
from bot.store.queue.seed_sequences import NextOf, Wanted, next_in_sequence
from bot.store.rows import fair_order
from bot.store.rows.admission import Entrance, enter, join_session
from bot.store.rows.jobs import among, hold_values, origin_values
from bot.store.rows.recipes import recipe_values
from bot.store.rows.restrictions import Kind
from bot.store.tables.policies import charges
from bot.store.tables.queue import images, jobs, last_tags, restrictions, start_pictures, turns, virtual_clock
from bot.store.tables.sessions import sessions

_ID_CHARACTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: none looks like another
_ID_LENGTH = 8

NEAR = 500
"""With fewer places left, requests are decided one at a time: fewer requests arrive at one moment."""
NO_CAPS = Caps()
_EVERYBODY, _DIRECT = "all", "direct"
_WAITS = jobs.c.state == State.WAITING


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
        if names := set(wanted.recipe.start_pictures):
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

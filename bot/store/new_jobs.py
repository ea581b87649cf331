"""A new job and all rows that come with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.holds import Hold
from bot.jobs import Origin, Recipe, State
from bot.store import fairness
from bot.store.database import insert
from bot.store.files import use_files
from bot.store.forgetting import source_of
from bot.store.new_images import add_images, new_job_id
from bot.store.rows import hold_values, origin_values, recipe_values
from bot.store.seed_sequences import Wanted, Wish
from bot.store.session_admission import Entrance, enter, join_session
from bot.store.tables import jobs, last_tags, start_pictures, virtual_clock


async def job_of(connection: AsyncConnection, interaction_id: int) -> str | None:
    """Return the id of the job that an interaction has made."""
    found: str | None = await connection.scalar(
        sa.select(jobs.c.id).where(jobs.c.interaction_id == interaction_id)
    )
    return found


@dataclass(frozen=True, kw_only=True)
class Adding:
    """Writes a new job; `room` is how many more images of the person may wait at full share.

    `session_id` is that of the group session whose words the recipe has; with `apart` the job stays out of
    the session of its channel.
    """

    wish: Wish
    origin: Origin
    weight: float
    places: int
    room: int | None
    hold: Hold | None
    now: float
    session_id: str | None = None
    apart: bool = False

    async def add(self, connection: AsyncConnection, *, paused: bool) -> str:
        """Store the job and its images; return its id, or that of the job which the interaction has made."""
        job_id: str | None = None
        while job_id is None:  # repeated only where the id or the place in the sequence is taken
            wanted = await self.wish(connection)
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
        await add_images(connection, job_id, wanted.recipe, rows)
        if names := set(wanted.recipe.start_pictures):
            repeats = "seed_sequence" in wanted.place
            for name in sorted(names):
                source = await source_of(connection, name, repeats=repeats)
                start = {"job_id": job_id, "artifact": name, "source": source}
                await connection.execute(sa.insert(start_pictures).values(start))
            await use_files(connection, names, now=self.now)
        if entrance is not None:
            await join_session(connection, entrance, job_id, last_tag=tags[-1])
            return job_id
        mine = last_tags.c.user_id == self.origin.user_id
        await connection.execute(sa.update(last_tags).where(mine).values(tag=tags[-1]))
        return job_id

    async def _entrance(self, connection: AsyncConnection, recipe: Recipe) -> Entrance | None:
        if self.apart:
            return None
        return await enter(connection, self.origin, session_id=self.session_id, pictures=recipe.variants)

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
            weight, room, last_tag = fairness.SESSION_WEIGHT, None, entrance.last_tag
        one = fairness.share(recipe.cost, weight)
        shares = fairness.shares(one, count=recipe.variants, room=room)
        tags = fairness.tag_images(virtual_time=now.time, last_tag=last_tag, shares=shares)
        return now.time, tags, shares

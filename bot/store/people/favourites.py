"""Favourites: the results that a person marked with a star."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UnknownJob, UserMistake
from bot.store.database.database import Verbs, add_new, count_of
from bot.store.rows.sessions import wait_for_turn
from bot.store.tables.queue import favourites, jobs

MOST = 500  # per person: jobs with a star are kept longer


class Favourites(Verbs):
    """The verbs of favourites. A favourite is deleted with its job; its job is not deleted by age."""

    async def add(self, user_id: int, job_id: str) -> None:
        """Make a job a person's favourite, if it is not yet.

        Raises UnknownJob for a job that is gone or deleted, UserMistake `favourites_full` for one more than
        `MOST`.
        """
        async with self._database.write() as connection:
            there = sa.select(jobs.c.id).where(jobs.c.id == job_id, jobs.c.deleted_at.is_(None))
            if await connection.scalar(there.with_for_update()) is None:
                raise UnknownJob(job=job_id)
            await wait_for_turn(connection, user_id)  # of two stars at once, one counts the other
            added = await add_new(connection, favourites, {"user_id": user_id, "job_id": job_id})
            if added and await _count(connection, user_id) > MOST:
                raise UserMistake("favourites_full", limit=MOST)

    async def remove(self, user_id: int, job_id: str) -> bool:
        """Remove a job from a person's favourites; return whether it was one."""
        mine = (favourites.c.user_id == user_id) & (favourites.c.job_id == job_id)
        return bool(await self._write(sa.delete(favourites).where(mine)))

    async def of(self, user_id: int) -> list[str]:
        """Return the ids of a person's favourites."""
        mine = sa.select(favourites.c.job_id).where(favourites.c.user_id == user_id)
        return await self._scalars(mine.order_by(favourites.c.job_id))


async def _count(connection: AsyncConnection, user_id: int) -> int:
    kept = favourites.join(jobs, jobs.c.id == favourites.c.job_id)
    mine = (favourites.c.user_id == user_id) & jobs.c.deleted_at.is_(None)
    return await count_of(connection, kept, mine)

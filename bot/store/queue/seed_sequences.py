"""Seed sequences: a job and its repeats have one recipe and consecutive seeds, so no picture repeats.

first job   seed s, variants v   s … s+v-1
repeat 1                         s+v … s+2v-1
repeat 2                         s+2v … s+3v-1       of the first job or of repeat 1
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UnknownJob
from bot.domain.jobs import Recipe
from bot.store.rows.jobs import check_readable, recipe_from
from bot.store.tables.queue import jobs


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The recipe of a new job, and its place in a seed sequence as values of its row."""

    recipe: Recipe
    place: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NextOf:
    """Asks for the next repeat in the seed sequence of a job."""

    job_id: str


async def next_in_sequence(connection: AsyncConnection, job_id: str) -> Wanted:
    """Return the next repeat in the seed sequence of a job; raises UnknownJob.

    No row is locked: the unique index accepts one of two repeats for the same place. A lock on the first
    job's row could deadlock: the person's row is locked already, and others lock jobs before persons.
    """
    look = sa.select(jobs.c.recipe, jobs.c.seed_sequence, jobs.c.repeat)
    look = look.where(jobs.c.id == job_id, jobs.c.deleted_at.is_(None))  # a deleted job has no recipe
    row = (await connection.execute(look)).first()
    if row is None:
        raise UnknownJob(job=job_id)
    await check_readable(connection, job_id)
    sequence = row.seed_sequence or job_id
    last = await connection.scalar(
        sa.select(sa.func.max(jobs.c.repeat)).where(jobs.c.seed_sequence == sequence)
    )
    number = (last or 0) + 1
    recipe = recipe_from(row.recipe)
    further = (number - (row.repeat or 0)) * recipe.variants
    return Wanted(
        recipe=recipe.from_image(further),
        place={"seed_sequence": sequence, "repeat": number},
    )

"""Families: a job and all that repeat it, of one recipe, whose seeds follow each other and never meet.

the first   seed s, variants v   s … s+v-1
repeat 1                         s+v … s+2v-1
repeat 2                         s+2v … s+3v-1       whichever of them was repeated
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import UnknownJob
from bot.jobs import Recipe
from bot.store.rows import recipe_from
from bot.store.tables import jobs


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a new job is to paint, and its place in a family as values of its row."""

    recipe: Recipe
    place: dict[str, Any] = field(default_factory=dict)


Wish = Callable[[AsyncConnection], Awaitable[Wanted]]
"""Says what a new job is to paint, as things stand now; asked again where its place was taken meanwhile."""


async def next_of_family(connection: AsyncConnection, job_id: str) -> Wanted:
    """The next repeat of the family that this job belongs to; raises UnknownJob.

    Locks nothing: of two that ask for the same place, the unique index lets one in. The first job's row is
    not touched at all, since claims hold rows of jobs while they wait for the virtual clock.
    """
    look = sa.select(jobs.c.recipe, jobs.c.family, jobs.c.repeat)
    look = look.where(jobs.c.id == job_id, jobs.c.deleted_at.is_(None))  # of those nothing is left
    row = (await connection.execute(look)).first()
    if row is None:
        raise UnknownJob(job=job_id)
    family = row.family or job_id
    last = await connection.scalar(sa.select(sa.func.max(jobs.c.repeat)).where(jobs.c.family == family))
    number = (last or 0) + 1
    recipe = recipe_from(row.recipe)
    further = (number - (row.repeat or 0)) * recipe.variants
    return Wanted(
        recipe=replace(recipe, seed=(recipe.seed + further) % 2**32),
        place={"family": family, "repeat": number},
    )

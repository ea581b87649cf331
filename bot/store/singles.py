"""Single pictures: finished jobs that show one picture of another job, in a message of their own.

A single has the picture's file, recipe and seed, so it has all the buttons of a picture, is delivered by the
outbox, and its file is repainted when it is lost. It waits in no queue and costs its person nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import UnknownJob, UserMistake
from bot.jobs import Descent, ImageRecord, Job, Origin, State
from bot.store.database import insert
from bot.store.files import use_files
from bot.store.forgetting import source_of
from bot.store.rows import load_job, notes_values, origin_values, recipe_values
from bot.store.tables import images, jobs, start_pictures
from bot.store.transitions import lock_job, make_due


async def add_single(
    connection: AsyncConnection, job_id: str, index: int, origin: Origin, *, new_id: str, now: float
) -> str | None:
    """Store a single of the picture at `index`; return its id, or None where `new_id` or the interaction is
    taken.

    Raises UnknownJob for a job that is gone or deleted, UserMistake `no_picture` without that picture.
    """
    await lock_job(connection, job_id)  # its person may be deleting it
    parent = await load_job(connection, job_id)
    if parent.deleted_at is not None:
        raise UnknownJob(job=job_id)
    image = next((each for each in parent.images if each.index == index and each.artifact), None)
    if image is None:
        raise UserMistake("no_picture")
    added = await _add_job(connection, parent, image, origin, new_id=new_id, now=now)
    if added is not None:
        await _add_image(connection, added, parent, image)
        await _use_files(connection, added, parent, image, now=now)
        await make_due(connection, added, now=now)
    return added


async def singles_of(connection: AsyncConnection, job_ids: Collection[str]) -> list[str]:
    """Return the ids of the singles of these jobs."""
    look = sa.select(jobs.c.id).where(
        jobs.c.parent_id.in_(job_ids), jobs.c.descent == Descent.SINGLE, jobs.c.deleted_at.is_(None)
    )
    return list(await connection.scalars(look.order_by(jobs.c.id)))


async def _add_job(
    connection: AsyncConnection, parent: Job, image: ImageRecord, origin: Origin, *, new_id: str, now: float
) -> str | None:
    recipe = replace(parent.recipe, seed=image.seed, variants=1)
    values = {"id": new_id, "state": State.DONE, "recipe": recipe_values(recipe), **origin_values(origin)}
    values |= {"created_at": now, "started_at": now, "finished_at": now}
    statement = insert(connection, jobs).values(values).on_conflict_do_nothing().returning(jobs.c.id)
    added: str | None = await connection.scalar(statement)
    return added


async def _add_image(connection: AsyncConnection, job_id: str, parent: Job, image: ImageRecord) -> None:
    recipe = parent.recipe
    shown = {"artifact": image.artifact, "showing": image.showing, "notes": notes_values(image.notes)}
    values: dict[str, Any] = {"job_id": job_id, "index": 0, "seed": image.seed, "lane": str(recipe.lane)}
    values |= shown
    values |= {"state": State.DONE, "steps": recipe.steps, "step": recipe.steps, "furthest": recipe.steps}
    values |= {"share": 0.0, "tag": 0.0, "fencing_token": 0, "worker_deaths": 0}
    await connection.execute(sa.insert(images).values(values))


async def _use_files(
    connection: AsyncConnection, job_id: str, parent: Job, image: ImageRecord, *, now: float
) -> None:
    starts = sorted(set(parent.recipe.start_pictures))
    for name in starts:
        source = await source_of(connection, name, repeats=True)
        values = {"job_id": job_id, "artifact": name, "source": source}
        await connection.execute(sa.insert(start_pictures).values(values))
    await use_files(connection, {image.artifact or "", *starts}, now=now)

"""Copies: finished jobs that show pictures of another job, in a message of their own.

A copy has the pictures' files, recipe and seeds, so it has all their buttons, is delivered by the outbox, and
its files are repainted when they are lost. It waits in no queue and costs its person nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UnknownJob, UserMistake
from bot.domain.holds import Hold
from bot.domain.jobs import COPIES, Descent, ImageRecord, Job, Origin, Recipe, Showing, State, lacking
from bot.domain.levels import Level
from bot.domain.outbox import Outgoing
from bot.store.database.database import insert
from bot.store.files.picture_files import source_of, use_files
from bot.store.rows.hashes import blocked_among, hashes_of, note_copied
from bot.store.rows.jobs import (
    check_readable,
    hold_values,
    load_job,
    origin_values,
    recipe_values,
    showings_from,
)
from bot.store.rows.outbox import UNSETTLED, add
from bot.store.rows.reviews import open_for_held
from bot.store.rows.transitions import lock_job
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import images, jobs, start_pictures

PUBLISHED_SECONDS = 3600.0  # within which a result is published once in a channel


async def add_copy(
    connection: AsyncConnection,
    job_id: str,
    index: int | None,
    origin: Origin,
    *,
    hold: Hold | None,
    new_id: str,
    now: float,
) -> str | None:
    """Store a copy of the picture at `index`, or of all; return its id, or None if one of its ids is taken.

    With `hold` its pictures are held for review, and those of the first job stay as they are. In
    another place a flagged picture is shown no more openly than the policy there says. A publication leaves
    out the pictures that are blocked there, or like blocked ones.

    Raises UnknownJob for a job that is gone or deleted, UserMistake `no_picture` or `picture_held` without
    that picture, `publish_known` where all are blocked, `publish_policy` where the policy there withholds
    all others, and `publish_again` where they are in the channel already.
    """
    await lock_job(connection, job_id)  # the person may be deleting the job
    parent = await load_job(connection, job_id)
    if parent.deleted_at is not None:
        raise UnknownJob(job=job_id)
    await check_readable(connection, job_id)
    if _is_published(origin) and await _is_there(connection, job_id, origin, now=now):
        raise UserMistake("publish_again")
    wanted = [image for image in parent.images if image.artifact and index in (None, image.index)]
    hashes = await hashes_of(connection, [image.artifact for image in wanted if image.artifact])
    blocked = await blocked_among(connection, origin.guild_id, hashes) if _is_published(origin) else set()
    there = ((image, _showing(image, parent.origin, origin, hold)) for image in wanted)
    shown = [
        (image, showing)
        for image, showing in there
        if showing is not Showing.WITHHOLD and image.artifact not in blocked
    ]
    if not wanted:
        raise UserMistake(lacking(image for image in parent.images if index in (None, image.index)))
    if not shown:
        all_blocked = all(image.artifact in blocked for image in wanted)
        raise UserMistake("publish_known" if all_blocked else "publish_policy")
    recipe = parent.recipe if index is None else replace(parent.recipe.from_image(index), variants=1)
    added = await _add_job(connection, recipe, origin, hold, new_id=new_id, now=now)
    if added is not None:
        await _add_images(connection, added, recipe, shown, only=index is not None)
        await _use_files(connection, added, parent, [image for image, _ in shown], now=now)
        places = {
            0 if index is not None else image.index: hashes.get(image.artifact or "") for image, _ in shown
        }
        # In its first job's server the copy is stored under 0: there `Known.whose` finds only the first job.
        where = 0 if origin.guild_id == parent.origin.guild_id else origin.guild_id or 0
        await note_copied(connection, added, where, places)
        await add(connection, Outgoing.RESULT, added, now=now)
        await open_for_held(connection, added, now=now)
    return added


async def copies_of(connection: AsyncConnection, job_ids: Collection[str]) -> list[str]:
    """Return the ids of the copies of these jobs, without deleted ones."""
    mine = jobs.c.parent_id.in_(job_ids) & jobs.c.descent.in_(COPIES) & jobs.c.deleted_at.is_(None)
    return list(await connection.scalars(sa.select(jobs.c.id).where(mine).order_by(jobs.c.id)))


def no_copy() -> sa.ColumnElement[bool]:
    """Return the condition for jobs that are no copies."""
    return jobs.c.descent.is_(None) | jobs.c.descent.not_in(COPIES)


def _is_published(origin: Origin) -> bool:
    return origin.parent is not None and origin.parent.descent is Descent.PUBLICATION


async def _is_there(connection: AsyncConnection, job_id: str, origin: Origin, *, now: float) -> bool:
    """Return whether another request has lately published the job in this channel, and its copy is there.

    Only lately: the bot does not hear of messages that moderators delete.
    """
    published = (jobs.c.parent_id == job_id) & (jobs.c.descent == Descent.PUBLICATION)
    here = (jobs.c.channel_id == origin.channel_id) & (jobs.c.interaction_id != origin.interaction_id)
    kept = jobs.c.deleted_at.is_(None) & (jobs.c.created_at > now - PUBLISHED_SECONDS)
    comes = sa.exists().where(outbox.c.job_id == jobs.c.id, UNSETTLED)
    arrived = jobs.c.message_id.is_not(None) & jobs.c.message_channel_id.is_(None)  # not as a direct message
    look = sa.select(jobs.c.id).where(published, here, kept, arrived | comes).limit(1)
    return await connection.scalar(look) is not None


async def _add_job(
    connection: AsyncConnection, recipe: Recipe, origin: Origin, hold: Hold | None, *, new_id: str, now: float
) -> str | None:
    values = {"id": new_id, "state": State.DONE, "recipe": recipe_values(recipe), **origin_values(origin)}
    values |= {"created_at": now, "started_at": now, "finished_at": now, **hold_values(hold)}
    statement = insert(connection, jobs).values(values).on_conflict_do_nothing().returning(jobs.c.id)
    added: str | None = await connection.scalar(statement)
    return added


async def _add_images(
    connection: AsyncConnection,
    job_id: str,
    recipe: Recipe,
    shown: Sequence[tuple[ImageRecord, Showing]],
    *,
    only: bool,
) -> None:
    steps = recipe.steps
    same = {"job_id": job_id, "lane": str(recipe.lane), "state": State.DONE, "steps": steps, "step": steps}
    same |= {"furthest": steps, "share": 0.0, "tag": 0.0, "fencing_token": 0, "worker_deaths": 0}
    rows = [
        {
            **same,
            "index": 0 if only else image.index,
            "seed": image.seed,
            "artifact": image.artifact,
            "showing": showing,
            "notes": asdict(image.notes),
        }
        for image, showing in shown
    ]
    await connection.execute(sa.insert(images), rows)


def _showing(image: ImageRecord, before: Origin, origin: Origin, hold: Hold | None) -> Showing:
    """Return how a copy shows a picture; elsewhere it is held if no policy says how its level is shown."""
    said = [image.showing] if hold is None else [image.showing, Showing.HOLD]
    elsewhere = (before.guild_id, before.channel_id) != (origin.guild_id, origin.channel_id)
    if (
        elsewhere
        and not origin.private
        and origin.guild_id is not None
        and image.notes.level is not Level.NONE
    ):
        there = showings_from(origin.policy)
        said.append(Showing.HOLD if there is None else there[image.notes.level.number - 1])
    return max(said, key=list(Showing).index)


async def _use_files(
    connection: AsyncConnection, job_id: str, parent: Job, shown: Sequence[ImageRecord], *, now: float
) -> None:
    starts = sorted(set(parent.recipe.given.values()))
    for name in starts:
        source = await source_of(connection, name, repeats=True)
        values = {"job_id": job_id, "artifact": name, "source": source}
        await connection.execute(sa.insert(start_pictures).values(values))
    await use_files(connection, {*starts, *(image.artifact for image in shown if image.artifact)}, now=now)

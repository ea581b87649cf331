"""The queue: the jobs that run or wait, why they wait, and one job with its images."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from bot.domain.errors import UnknownJob, UnreadableJob
from bot.domain.jobs import Job, State
from bot.page.house import House
from bot.page.pictures import pictures_of
from bot.store.rows.jobs import LARGEST_ID

MOST_JOBS = 100
MOST_DIGITS = 20


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the first MOST_JOBS active jobs in fair order, of one person, server or model if asked."""
    person, server = number_of(query.get("person", "")), number_of(query.get("server", ""))
    model, state = query.get("model", ""), query.get("state", "")
    paused = {"paused": True, "waiting": False, "running": False}.get(state)
    store = house.store
    found, batches, unoffered, backlog = await asyncio.gather(
        store.jobs.active(user_id=person, guild_id=server, paused=paused, limit=MOST_JOBS),
        store.batches.now(),
        store.offers.unoffered(),
        store.jobs.backlog(),
    )
    jobs = [job for job in found if _fits(job, model, state)]
    places = await store.positions.of_all([job.id for job in jobs if job.state is State.WAITING])
    return {
        "jobs": jobs,
        "places": places,
        "batches": batches,
        "unoffered": frozenset(unoffered),
        "backlog": backlog,
        "cut": len(found) == MOST_JOBS,
        "most": MOST_JOBS,
        "query": query,
        "models": sorted({job.recipe.model for job in found} | ({model} if model else set())),
    }


async def read_job(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return one job with its images and its place, of the person or public in the server that is asked for.

    Raises HTTPNotFound.
    """
    job_id = query["job"]
    person, server = number_of(query.get("person", "")), number_of(query.get("server", ""))
    try:
        job = await house.store.jobs.get(job_id)
        origin = job.origin
        others = person is not None and origin.user_id != person
        if others or (server is not None and (origin.private or origin.guild_id != server)):
            raise web.HTTPNotFound
        places = await house.store.positions.of_all([job_id])
    except (UnknownJob, UnreadableJob):
        raise web.HTTPNotFound from None
    unoffered = frozenset(await house.store.offers.unoffered())
    return {"job": job, "place": places.get(job_id), "unoffered": unoffered, "pictures": pictures_of(job)}


def _fits(job: Job, model: str, state: str) -> bool:
    return (not model or job.recipe.model == model) and (state not in tuple(State) or job.state == state)


def number_of(text: str) -> int | None:
    """Return the id that somebody typed; None for an empty text, and 0, which nobody has, for any other."""
    if not text:
        return None
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < MOST_DIGITS else 0
    return number if number <= LARGEST_ID else 0

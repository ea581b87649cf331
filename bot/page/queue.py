"""The queue: the jobs that run or wait, why they wait, and one job with its images."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from bot.domain.errors import UnknownJob, UnreadableJob
from bot.domain.jobs import model_and_size
from bot.page.guard import number_of
from bot.page.house import House
from bot.page.pictures import pictures_of
from bot.page.rights import Right, Role, Viewer
from bot.store.operations.queue import Wanted
from bot.store.rows.audit import OPERATOR

MOST_JOBS = 50


async def read(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the first MOST_JOBS active requests in fair order, of one person, server or model if asked."""
    kind, model = query.get("state", ""), query.get("model", "")
    person, server = number_of(query.get("person", "")), number_of(query.get("server", ""))
    wanted = Wanted(kind=kind, user_id=person, guild_id=server, model=model, public="public" in query)
    jobs = await house.store.queue.listed(wanted, limit=MOST_JOBS + 1)
    models = {model_and_size(job.lane)[0] for job in jobs} | ({model} if model else set())
    return {
        "jobs": jobs[:MOST_JOBS],
        "cut": len(jobs) > MOST_JOBS,
        "most": MOST_JOBS,
        "query": query,
        "models": sorted(models),
    }


async def read_job(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return one job with its images and its place, of the person or public in the server that is asked for.

    Its `rights` are those that reach the job, of a `role` in the server that is looked at, `here`. Its words
    are `hidden` where a rule holds them and the viewer may not review. Raises HTTPNotFound.
    """
    job_id = query["job"]
    person, server = number_of(query.get("person", "")), number_of(query.get("server", ""))
    try:
        job = await house.store.jobs.get(job_id)
        origin = job.origin
        others = person is not None and origin.user_id != person
        elsewhere = server is not None and origin.guild_id != server
        closed = not origin.is_public and (server is not None or "public" in query)
        if others or elsewhere or closed:
            raise web.HTTPNotFound
        places = await house.store.positions.of_all([job_id])
    except (UnknownJob, UnreadableJob):
        raise web.HTTPNotFound from None
    unoffered, attempts = await asyncio.gather(
        house.store.offers.unoffered(), house.store.queue.attempts(job_id)
    )
    viewer = Viewer(
        user_id=OPERATOR if person is None else person,
        role=Role(query["role"]),
        guild_id=number_of(query.get("here", "")),
    )
    reached = [
        right.value for right in Right if viewer.may(right, guild_id=origin.guild_id, user_id=origin.user_id)
    ]
    return {
        "job": job,
        "place": places.get(job_id),
        "unoffered": frozenset(unoffered),
        "attempts": attempts,
        "pictures": pictures_of(job),
        "rights": frozenset(reached),
        "hidden": not viewer.may_see(job),
    }

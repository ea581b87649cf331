"""The rows of a new job's images, and its id."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.jobs import Recipe, State
from bot.store.tables import images

_ID_CHARACTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: none looks like another
_ID_LENGTH = 8


async def add_images(
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


def new_job_id() -> str:
    """Return a short random id that a person can read out."""
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(_ID_LENGTH))

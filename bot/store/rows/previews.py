"""Previews: small pictures of the images that are being painted, one for each image, until their job ends."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.database.database import Verbs, put
from bot.store.tables.queue import images, previews


class Previews(Verbs):
    """The verbs of previews. A worker writes them with its heartbeats."""

    async def of(self, job_id: str) -> dict[int, bytes]:
        """Return the previews of a job's images, as WebP files, by the images' indexes."""
        statement = sa.select(images.c.index.label("number"), previews.c.picture).join(previews)
        rows = await self._rows(statement.where(images.c.job_id == job_id))
        return {row.number: row.picture for row in rows}


async def put_previews(connection: AsyncConnection, pictures: Mapping[int, bytes]) -> None:
    """Store the previews of images, by id, whose rows the caller has locked."""
    for image_id, picture in pictures.items():
        await put(connection, previews, {"image_id": image_id}, {"picture": picture})


async def drop_previews(connection: AsyncConnection, job_id: str) -> None:
    """Delete the previews of a job that has ended."""
    mine = sa.select(images.c.id).where(images.c.job_id == job_id)
    await connection.execute(sa.delete(previews).where(previews.c.image_id.in_(mine)))

"""Known pictures: whose a picture is, and blocked pictures, found by perceptual hashes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.domain.hashes import (
    LIKELY_DISTANCE,
    SEARCH_DISTANCE,
    bands_of,
    distance,
    is_flat,
    name_of,
    read,
    stored,
)
from bot.domain.holds import Cause, Outcome
from bot.domain.jobs import Job, Showing
from bot.store.database.database import Verbs, add_new, count_of
from bot.store.rows.audit import EVERYWHERE, Act, By, note
from bot.store.rows.hashes import (
    FIRST_GIVEN,
    MOST_CANDIDATES,
    Blocked,
    band_values,
    blocked_from,
    blocking,
    near_rows,
)
from bot.store.rows.jobs import load_jobs
from bot.store.rows.revisions import hold_server
from bot.store.tables.pictures import blocked_pictures, picture_hashes
from bot.store.tables.queue import images, jobs

MAX_BLOCKED = 2000  # pictures of one server


@dataclass(frozen=True, kw_only=True)
class Match:
    """A picture of `job` at this distance: its image at `index`, or a picture that was given with it."""

    job: Job
    index: int
    hash: int
    distance: int

    @property
    def is_given(self) -> bool:
        """Whether the person sent the picture with the job."""
        return self.index <= FIRST_GIVEN


class Known(Verbs):
    """The verbs of known pictures; each that changes something adds its row to the audit log."""

    async def whose(self, guild_id: int, number: int, *, limit: int) -> list[Match]:
        """Return the pictures of a server that are most like the one of this hash, the nearest first."""
        async with self._database.read() as connection:
            column = picture_hashes.c
            near = await near_rows(connection, column.id, [guild_id], number, SEARCH_DISTANCE)
            found = [row_id for row_id, _ in sorted(near, key=lambda each: (each[1], -each[0]))[:limit]]
            look = sa.select(*_columns(picture_hashes)).where(column.id.in_(found))
            rows = sorted(await connection.execute(look), key=lambda row: found.index(row.id))
            return await _matches(connection, rows, number)

    async def painted(self, guild_id: int | None, number: int) -> bool:
        """Return whether the bot painted the picture of this hash, or one almost identical, for a server.

        None asks about direct messages. Flat pictures have the hashes of others, and are never found.
        """
        async with self._database.read() as connection:
            return await _painted(connection, [guild_id or 0], number)

    async def painted_anywhere(self, numbers: Collection[int]) -> bool:
        """Return whether the bot painted a picture of one of these hashes, as `painted`, for any server."""
        async with self._database.read() as connection:
            places = await _places(connection)
            for number in numbers:
                if await _painted(connection, places, number):
                    return True
        return False

    async def is_result(self, artifact: str) -> bool:
        """Return whether a file of this name is a picture that the bot painted, for anyone."""
        look = sa.select(images.c.id).where(images.c.artifact == artifact).limit(1)
        return await self._scalar(look) is not None

    async def begins_with(self, digits: str) -> bool:
        """Return whether the bot painted a picture, for anybody, whose sha256 begins with these digits."""
        name, prefix = images.c.artifact, f"{digits[:2]}/{digits}"  # files are named after their sha256
        here = (name >= prefix) & (name < f"{prefix}g") & name.startswith(prefix)  # g comes after all digits
        return await self._scalar(sa.select(images.c.id).where(here).limit(1)) is not None

    async def of_job(self, guild_id: int, job_id: str) -> list[Match]:
        """Return the pictures of a job of a server, in order, without those that were given with it."""
        column = picture_hashes.c
        look = sa.select(*_columns(picture_hashes)).where(
            column.job_id == job_id, column.guild_id == guild_id, column.index > FIRST_GIVEN
        )
        async with self._database.read() as connection:
            rows = list(await connection.execute(look.order_by(column.index)))
            return await _matches(connection, rows, None)

    async def blocking(self, guild_id: int | None, number: int) -> Blocked | None:
        """Return the nearest blocked picture that is too similar to this hash; None without one."""
        async with self._database.read() as connection:
            return await blocking(connection, guild_id, number)

    async def is_refused(self, guild_id: int | None, number: int) -> bool:
        """Return whether moderators of a server have rejected the picture of this very hash.

        It stays rejected after a declined appeal and after the deletion of its result. A picture hidden by
        reports counts too, until moderators decide or its result is deleted. Flat pictures are never refused,
        as different ones have the same hash.
        """
        if guild_id is None or is_flat(number):
            return False
        column = picture_hashes.c
        rejected = (images.c.showing == Showing.WITHHOLD) & (images.c.ruling == Outcome.REJECTED.value)
        reported = (images.c.showing == Showing.HOLD) & (jobs.c.hold == Cause.REPORTS.value)
        reported &= jobs.c.deleted_at.is_(None)
        same = (images.c.job_id == column.job_id) & (images.c.index == column.index)
        of_job = picture_hashes.join(images, same).join(jobs, jobs.c.id == column.job_id)
        look = sa.select(images.c.id).select_from(of_job)
        # A copy in the server of its first job has its hash under 0.
        here = (jobs.c.guild_id == guild_id) & column.guild_id.in_((EVERYWHERE, guild_id))
        here &= column.hash == stored(number)
        band, values = next(iter(band_values(number).items()))  # its index finds the rows
        found = look.where(here, column[band] == values, rejected | reported)
        return await self._scalar(found.limit(1)) is not None

    async def block(self, number: int, by: By) -> bool:
        """Block a picture in the server of `by`, everywhere for 0; False where that very hash is blocked.

        Raises UserMistake `known_full`.
        """
        values: dict[str, Any] = {"guild_id": by.guild_id, "hash": stored(number), **band_values(number)}
        values |= {"by": by.actor_id, "reason": by.reason, "at": self._clock()}
        async with self._database.write() as connection:
            if by.guild_id:
                await hold_server(connection, by.guild_id)
            if not await add_new(connection, blocked_pictures, values):
                return False
            theirs = blocked_pictures.c.guild_id == by.guild_id
            if by.guild_id and await count_of(connection, blocked_pictures, theirs) > MAX_BLOCKED:
                raise UserMistake("known_full", limit=MAX_BLOCKED)
            await note(connection, Act.KNOWN, by, at=self._clock(), after={"picture": name_of(number)})
        return True

    async def unblock(self, number: int, by: By) -> bool:
        """Unblock a picture; False where the server, or the operator for 0, has not blocked it."""
        column = blocked_pictures.c
        gone = sa.delete(blocked_pictures).where(
            column.guild_id == by.guild_id, column.hash == stored(number)
        )
        async with self._database.write() as connection:
            if not (await connection.execute(gone)).rowcount:
                return False
            await note(connection, Act.KNOWN, by, at=self._clock(), before={"picture": name_of(number)})
        return True

    async def blocked(self, guild_id: int) -> list[Blocked]:
        """Return the pictures that a server blocks, or the operator for 0, the newest first."""
        look = sa.select(blocked_pictures).where(blocked_pictures.c.guild_id == guild_id)
        ordered = look.order_by(blocked_pictures.c.at.desc(), blocked_pictures.c.hash)
        return [blocked_from(row) for row in await self._rows(ordered)]

    async def kept(self, guild_id: int, numbers: Sequence[int]) -> dict[int, str]:
        """Return the files of pictures of a server by their very hashes, as far as any are kept.

        Pictures of private and of deleted results are left out.
        """
        column, same = picture_hashes.c, images.c.job_id == picture_hashes.c.job_id
        look = sa.select(column.hash, images.c.artifact).select_from(
            picture_hashes.join(images, same & (images.c.index == column.index)).join(jobs)
        )
        bands = {bands_of(number)[0] for number in numbers}  # their index finds the rows
        look = look.where(column.guild_id == guild_id, column.band_0.in_(bands))
        look = look.where(column.hash.in_([stored(number) for number in numbers]))
        look = look.where(images.c.artifact.is_not(None), jobs.c.deleted_at.is_(None), ~jobs.c.private)
        rows = await self._rows(look.order_by(column.id).limit(MOST_CANDIDATES))
        return {read(row.hash): row.artifact for row in rows}


async def _places(connection: AsyncConnection) -> list[int]:
    """Return the servers that have hashes, 0 for direct messages: one step in an index for each."""
    column, found = picture_hashes.c.guild_id, [-1]
    while True:
        look = sa.select(column).where(column > found[-1]).order_by(column).limit(1)
        if (place := await connection.scalar(look)) is None:
            return found[1:]
        found.append(place)


async def _painted(connection: AsyncConnection, places: Sequence[int], number: int) -> bool:
    if is_flat(number):
        return False
    column = picture_hashes.c
    near = await near_rows(connection, column.id, places, number, LIKELY_DISTANCE)
    found = column.id.in_([row_id for row_id, _ in near]) & (column.index > FIRST_GIVEN)
    return await connection.scalar(sa.select(column.id).where(found).limit(1)) is not None


def _columns(table: sa.Table) -> list[Any]:
    """Return the columns; a row is a tuple too, whose own `index` is the method."""
    return [column.label("number") if column.name == "index" else column for column in table.c]


async def _matches(connection: AsyncConnection, rows: Sequence[Any], number: int | None) -> list[Match]:
    """Return the pictures of these rows with their jobs and their distances from `number`."""
    known = {job.id: job for job in await load_jobs(connection, [row.job_id for row in rows])}
    return [
        Match(
            job=known[row.job_id],
            index=row.number,
            hash=read(row.hash),
            distance=0 if number is None else distance(number, read(row.hash)),
        )
        for row in rows
        if row.job_id in known
    ]

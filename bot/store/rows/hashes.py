"""The hashes of pictures: their rows, and the search for pictures that are nearly the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.hashes import BITS, BLOCKED_DISTANCE, bands_of, looked_up, read, stored
from bot.store.database.database import add_new, of_row
from bot.store.database.sqlite_file import BITS_APART
from bot.store.rows.audit import EVERYWHERE
from bot.store.tables.pictures import blocked_pictures, picture_hashes
from bot.store.tables.queue import OWN, images, jobs, start_pictures

FIRST_GIVEN = -1  # in place of an image's index; those of further given pictures are below it
MOST_CANDIDATES = 5000  # rows read for each band
PLACES_AT_ONCE = 100  # servers searched by one statement


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """A blocked picture by its hash; `guild_id` is 0 for every server, `by` 0 for the operator."""

    guild_id: int
    hash: int
    by: int
    reason: str
    at: float

    @property
    def everywhere(self) -> bool:
        """Whether the operator blocked it in every server."""
        return self.guild_id == EVERYWHERE


@dataclass(frozen=True, kw_only=True)
class Hashes:
    """The hashes of a finished image, and of its given pictures by the names of their files.

    As far as they are known.
    """

    result: int | None = None
    given: Mapping[str, int] = field(default_factory=dict)


NO_HASHES = Hashes()


async def note_hashes(connection: AsyncConnection, job_id: str, image_id: int, hashes: Hashes) -> None:
    """Store the hashes of a finished image, in the transaction of its end.

    The hash of a given picture is stored once for all images of the job, if the job's person sent it.
    """
    if hashes == NO_HASHES:
        return
    look = sa.select(images.c.index.label("number"), jobs.c.guild_id).join(jobs)
    row = (await connection.execute(look.where(images.c.id == image_id, jobs.c.id == job_id))).one()
    found = {row.number: hashes.result}
    sent = await _sent(connection, job_id) if hashes.given else set()
    own = [number for name, number in hashes.given.items() if name in sent]
    found |= {FIRST_GIVEN - place: number for place, number in enumerate(own)}
    await _store(connection, job_id, row.guild_id or 0, found)


async def hashes_of(connection: AsyncConnection, artifacts: Collection[str]) -> dict[str, int]:
    """Return the hashes of painted files by the files' names, as far as they are known."""
    column = picture_hashes.c
    same = (images.c.job_id == column.job_id) & (images.c.index == column.index)
    look = sa.select(images.c.artifact, column.hash).join(picture_hashes, same)
    rows = await connection.execute(look.where(images.c.artifact.in_(artifacts)))
    return {row.artifact: read(row.hash) for row in rows}


async def blocked_among(
    connection: AsyncConnection, guild_id: int | None, numbers: Mapping[str, int]
) -> set[str]:
    """Return which names have the hash of a picture that is blocked in a server, or like a blocked one."""
    return {
        name for name, number in numbers.items() if await blocking(connection, guild_id, number) is not None
    }


async def note_copied(
    connection: AsyncConnection, job_id: str, guild_id: int, found: Mapping[int, int | None]
) -> None:
    """Store the hashes of a copy's pictures by their places; they outlive the first job.

    With `guild_id` 0 `Known.whose` does not find them.
    """
    await _store(connection, job_id, guild_id, found)


async def blocking(connection: AsyncConnection, guild_id: int | None, number: int) -> Blocked | None:
    places, column = sorted({EVERYWHERE, guild_id or EVERYWHERE}), blocked_pictures.c
    near = await near_rows(connection, column.hash, places, number, BLOCKED_DISTANCE)
    if not near:
        return None
    nearest, _ = min(near, key=lambda each: each[1])
    look = sa.select(blocked_pictures).where(column.guild_id.in_(places), column.hash == nearest)
    return blocked_from((await connection.execute(look.limit(1))).one())


async def _sent(connection: AsyncConnection, job_id: str) -> set[str]:
    """Return the files that the job's person sent with it."""
    own = (start_pictures.c.job_id == job_id) & (start_pictures.c.source == OWN)
    return set(await connection.scalars(sa.select(start_pictures.c.artifact).where(own)))


async def _store(
    connection: AsyncConnection, job_id: str, guild_id: int, found: Mapping[int, int | None]
) -> None:
    for place, number in found.items():
        if number is not None:
            values = {"job_id": job_id, "index": place, "guild_id": guild_id, "hash": stored(number)}
            await add_new(connection, picture_hashes, {**values, **band_values(number)})


async def near_rows(
    connection: AsyncConnection, key: sa.Column[int], places: Sequence[int], number: int, reach: int
) -> set[tuple[int, int]]:
    """Return the keys and distances of the hashes of these servers at a distance of at most `reach`.

    One look-up for each band finds the rows whose band is nearly that of the hash. Among a million hashes
    these are thousands, so the database computes their distances.
    """
    column, found = key.table.c, set[tuple[int, int]]()
    apart = _distance(connection, column.hash, number)
    for band, values in enumerate(looked_up(number, reach)):
        for at in range(0, len(places), PLACES_AT_ONCE) if values else ():
            some = places[at : at + PLACES_AT_ONCE]
            look = sa.select(key, apart).where(
                column.guild_id.in_(some), column[f"band_{band}"].in_(values), apart <= reach
            )
            rows = await connection.execute(look.limit(MOST_CANDIDATES))
            found.update((each, differing) for each, differing in rows)
    return found


def _distance(connection: AsyncConnection, column: sa.Column[int], number: int) -> sa.ColumnElement[int]:
    """Return the distance of a row from a hash, as an expression."""
    wanted = sa.literal(stored(number), sa.BigInteger)
    if connection.dialect.name == "sqlite":
        return sa.Function(BITS_APART, column, wanted, type_=sa.Integer())
    return sa.func.bit_count(sa.cast(column.op("#")(wanted), postgresql.BIT(BITS)), type_=sa.Integer())


def band_values(number: int) -> dict[str, int]:
    return {f"band_{band}": value for band, value in enumerate(bands_of(number))}


def blocked_from(row: Any) -> Blocked:
    return of_row(Blocked, row, hash=read(row.hash))

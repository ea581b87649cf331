"""The devices' time: how long devices worked for pictures, in sums by day, person, server, model and class.

Every attempt counts, also one that ended without a picture: its devices were not free for others. A picture
counts once. The sums outlive their jobs. `fold` adds up the days of old months, without their persons.

Beside them are the means of how long an image of each lane runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import Claim
from bot.domain.time_units import HOUR_SECONDS
from bot.store.database.database import Verbs, add_new, insert, of_row
from bot.store.tables.fleet import class_run_times, device_time
from bot.store.tables.queue import images, jobs, run_times

NOBODY = DIRECT_MESSAGES = 0
"""The person of a job that is gone; the server of direct messages."""


class Grouping(StrEnum):
    """What sums are grouped by."""

    DAY = "day"
    PERSON = "person"
    SERVER = "server"
    MODEL = "model"
    ACCELERATOR = "accelerator"


_COLUMNS = {
    Grouping.DAY: device_time.c.day,
    Grouping.PERSON: device_time.c.user_id,
    Grouping.SERVER: device_time.c.guild_id,
    Grouping.MODEL: device_time.c.model,
    Grouping.ACCELERATOR: device_time.c.accelerator,
}


@dataclass(frozen=True, kw_only=True)
class Spent:
    """How long devices of a class worked for an image: `seconds`, those of all devices together."""

    accelerator: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Sum:
    """The pictures and the seconds of one group on one class of accelerators.

    `group` has a value for each grouping: a day as 2026-03-01, an id, a name.
    """

    group: tuple[str | int, ...]
    accelerator: str
    seconds: float
    pictures: int


MONTH = len("2026-03")


class DeviceTime(Verbs):
    """The verbs of the devices' time."""

    async def add(self, claim: Claim, spent: Spent) -> bool:
        """Add the time of an attempt whose image has ended otherwise: cancelled, or painted by another.

        Returns False, and changes nothing, where the end of this very attempt is recorded with its time.
        """
        async with self._database.write() as connection:
            is_new = not await is_recorded(connection, claim)
            if is_new:
                await add_device_time(connection, claim, spent, now=self._clock())
        return is_new

    async def add_repaint(self, job_id: str, model: str, spent: Spent) -> None:
        """Add the time of the repaint of a lost file, which a job has painted before."""
        async with self._database.write() as connection:
            await _add(connection, job_id, model, spent, now=self._clock())

    async def fold(self, *, before: date) -> bool:
        """Add the oldest day to its month, without persons, if that month ended before this day.

        The sum's day is the month, such as 2026-03. Returns False where no such day is left.
        """
        days = [day for day in await self._scalars(_days()) if day is not None and len(day) > MONTH]
        if not days or (month := (day := min(days))[:MONTH]) >= before.isoformat()[:MONTH]:
            return False
        column = device_time.c
        kept = (column.guild_id, column.model, column.accelerator)
        both = (sa.func.sum(column.seconds), sa.func.sum(column.pictures))
        sums = sa.select(sa.literal(month), sa.literal(NOBODY), *kept, *both).where(column.day == day)
        async with self._database.write() as connection:
            added = insert(connection, device_time)
            await _put(connection, added.from_select(list(column.keys()), sums.group_by(*kept)))
            await connection.execute(sa.delete(device_time).where(column.day == day))
        return True

    async def sums(
        self, by: Sequence[Grouping], *, since: date | None = None, until: date | None = None
    ) -> list[Sum]:
        """Return the sums by these groupings and by class, of the days from `since` to `until` inclusive.

        A folded month counts where all its days do.
        """
        columns = [_COLUMNS[grouping] for grouping in by]
        days = _within(since, until)
        keys = list(dict.fromkeys([*columns, device_time.c.accelerator]))
        look = sa.select(
            *keys,
            sa.func.sum(device_time.c.seconds).label("seconds"),
            sa.func.sum(device_time.c.pictures).label("pictures"),
        )
        async with self._database.read(much=True) as connection:
            rows = await connection.execute(look.where(*days).group_by(*keys).order_by(*keys))
            return [of_row(Sum, row, group=tuple(row._mapping[each] for each in columns)) for row in rows]


def _days() -> sa.Select[Any]:
    """Return the statement that reads the days and folded months, with one step in the key for each."""
    days = sa.select(sa.func.min(device_time.c.day).label("day")).cte(recursive=True)
    following = sa.select(sa.func.min(device_time.c.day)).where(device_time.c.day > days.c.day)
    days = days.union_all(sa.select(following.scalar_subquery()).where(days.c.day.is_not(None)))
    return sa.select(days.c.day)


def _within(since: date | None, until: date | None) -> list[sa.ColumnElement[bool]]:
    """Return the conditions for these days. A folded month, such as 2026-03, comes before its first day."""
    found = []
    if since is not None:
        first = since.isoformat()
        found.append(device_time.c.day >= (first[:MONTH] if since.day == 1 else first))
    if until is not None:
        last = until.isoformat()
        found.append(device_time.c.day <= last)
        if (until + timedelta(days=1)).day != 1:
            found.append(device_time.c.day != last[:MONTH])
    return found


async def is_recorded(connection: AsyncConnection, claim: Claim) -> bool:
    """Return whether the worker itself has ended this attempt, which records its time.

    Such an end clears the worker. An image that is taken back or cancelled keeps the worker that it had.
    """
    mine = (images.c.id == claim.image_id) & (images.c.job_id == claim.job_id)
    ended = (images.c.fencing_token == claim.fencing_token) & images.c.worker.is_(None)
    return await connection.scalar(sa.select(sa.literal(1)).where(mine, ended)) is not None


async def add_device_time(
    connection: AsyncConnection, claim: Claim, spent: Spent, *, now: float, pictures: int = 0
) -> None:
    """Add the time of one attempt to the sums of its day, in the transaction of the attempt's end.

    Call it last: ends of one person's images then wait for each other only at the end of a transaction.
    """
    model, guild_id = claim.request.model, claim.guild_id or DIRECT_MESSAGES
    await _add(connection, claim.job_id, model, spent, now=now, pictures=pictures, guild_id=guild_id)


async def _add(
    connection: AsyncConnection,
    job_id: str,
    model: str,
    spent: Spent,
    *,
    now: float,
    pictures: int = 0,
    guild_id: int = DIRECT_MESSAGES,
) -> None:
    if not spent.seconds and not pictures:
        return
    mine = sa.select(jobs.c.user_id, sa.func.coalesce(jobs.c.guild_id, DIRECT_MESSAGES)).where(
        jobs.c.id == job_id
    )
    found = (await connection.execute(mine)).first()
    person, server = (NOBODY, guild_id) if found is None else found
    added = insert(connection, device_time).values(
        day=datetime.fromtimestamp(now, UTC).date().isoformat(),
        user_id=person,
        guild_id=server,
        model=model,
        accelerator=spent.accelerator,
        seconds=spent.seconds,
        pictures=pictures,
    )
    await _put(connection, added)


async def _put(connection: AsyncConnection, added: sqlite.Insert | postgresql.Insert) -> None:
    """Insert rows, or add them to those of the same key."""
    together = {
        "seconds": device_time.c.seconds + added.excluded.seconds,
        "pictures": device_time.c.pictures + added.excluded.pictures,
    }
    keys = list(device_time.primary_key.columns)
    await connection.execute(added.on_conflict_do_update(index_elements=keys, set_=together))


_NEWEST = 0.2  # weight of the newest image in the moving means, which cover about ten images


@dataclass(frozen=True, kw_only=True)
class WorkerClass:
    """Where an image was painted: a class of accelerators, and the seats of a worker in the image's lane."""

    accelerator: str
    seats: int = 1


async def record_run(
    connection: AsyncConnection,
    claim: Claim,
    seconds: float,
    pace: float | None,
    worker_class: WorkerClass | None = None,
) -> None:
    """Add how long an image ran to the means of its lane, and of its lane on the worker's class.

    The seconds beside its steps are as many for few steps as for many, and most after a start. Without a
    measured `pace` all seconds are those of steps.
    """
    lane, per_step = str(claim.request.lane), seconds / claim.steps
    pace = per_step if pace is None else pace
    of_lane = {
        "seconds": seconds,
        "seconds_per_step": pace,
        "beside_steps": max(0.0, seconds - pace * claim.steps),
    }
    await _record(connection, run_times, {"lane": lane}, of_lane)
    if worker_class is not None:
        # The seats run side by side, so one image's step costs the worker only this part of the time.
        of_worker = {"seconds_per_step": per_step / max(1, worker_class.seats)}
        key = {"lane": lane, "accelerator": worker_class.accelerator}
        await _record(connection, class_run_times, key, of_worker)


async def _record(
    connection: AsyncConnection, table: sa.Table, key: Mapping[str, str], newest: Mapping[str, float]
) -> None:
    """Add a measurement to the moving means of a row, unless another transaction has locked the row.

    Each lane has one row: waiting for it would serialise the ends of images.
    """
    mine = sa.and_(*(table.c[name] == value for name, value in key.items()))
    known = sa.select(sa.literal(1)).select_from(table).where(mine)
    # Select first: an insert waits for a transaction that changes the row.
    if await connection.scalar(known) is None and await add_new(connection, table, {**key, **newest}):
        return
    free = sa.select(*(table.c[name] for name in key)).where(mine).with_for_update(skip_locked=True)
    if (await connection.execute(free)).first() is None:
        return
    moved = {name: table.c[name] + _NEWEST * (value - table.c[name]) for name, value in newest.items()}
    await connection.execute(sa.update(table).where(mine).values(moved))


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The pictures of one group, the seconds of devices, and their cost; None where a price is missing."""

    group: tuple[str | int, ...]
    pictures: int
    device_seconds: float
    cost: float | None


def priced(sums: Sequence[Sum], price: Callable[[str], float]) -> list[Usage]:
    """Add the sums of each group over the classes of accelerators, and price them; in the order of `sums`.

    `price` is that of an hour of one device of a class, 0 where it is unknown.
    """
    groups: dict[tuple[str | int, ...], list[Sum]] = {}
    for each in sums:
        groups.setdefault(each.group, []).append(each)
    return [_priced(group, parts, price) for group, parts in groups.items()]


def _priced(group: tuple[str | int, ...], parts: Sequence[Sum], price: Callable[[str], float]) -> Usage:
    prices = [price(part.accelerator) for part in parts]
    costs = [each * part.seconds / HOUR_SECONDS for each, part in zip(prices, parts, strict=True)]
    return Usage(
        group=group,
        pictures=sum(part.pictures for part in parts),
        device_seconds=sum(part.seconds for part in parts),
        cost=sum(costs) if all(prices) else None,
    )

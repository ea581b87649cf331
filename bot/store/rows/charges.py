"""What requests count against quotas.

A job's charge is stored with the job, in the same transaction, while the person's row is locked: of two
requests at once the second counts the first. When the job ends, only pictures that were painted and not
withheld still count. The row outlives the job's row, until no quota looks back so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import UserMistake
from bot.domain.jobs import Origin, Showing, State
from bot.domain.quotas import Charge, Counted, Left, Measure, Quota, free_at, is_over
from bot.domain.time_units import DAY_SECONDS
from bot.store.database.database import Verbs
from bot.store.rows.jobs import among
from bot.store.tables.policies import charges
from bot.store.tables.queue import images
from bot.texts.catalogue import Moment

LONGEST = DAY_SECONDS  # seconds: no quota looks back further
NO_CHARGE = Charge()


class Charges(Verbs):
    """The verbs of charges."""

    async def left(self, user_id: int, quotas: Sequence[Quota]) -> list[Left]:
        """Return what a person has left of each quota."""
        async with self._database.read() as connection:
            return await left_of(connection, user_id, quotas, now=self._clock())

    async def free_at(self, user_id: int, quota: Quota, wanted: float = 1.0) -> float | None:
        """Return when a person has room for `wanted` more of a quota; None where that is now, or never."""
        now = self._clock()
        async with self._database.read() as connection:
            [left] = await left_of(connection, user_id, [quota], now=now)
            if not is_over(quota.limit - left.left, wanted, quota):
                return None
            return free_at(await _counted(connection, user_id, quota, now=now), wanted, quota)

    async def lapse(self) -> int:
        """Delete charges that no quota looks back to, and return how many.

        A charge more than LONGEST ahead was written before the clock was set back: it is deleted too.
        """
        now, at = self._clock(), charges.c.at
        over = sa.delete(charges).where((at < now - LONGEST) | (at > now + LONGEST))
        return await self._write(over)


async def refuse_over_quota(
    connection: AsyncConnection, origin: Origin, charge: Charge, *, now: float
) -> list[Left]:
    """Return what is left of each quota after the request.

    Raises UserMistake, named after the quota's key, where the request takes more than is left; it says when
    there is room.
    """
    found = await left_of(connection, origin.user_id, charge.quotas, now=now)
    for left in found:
        quota, wanted = left.quota, charge.of(left.quota.measure)
        if is_over(quota.limit - left.left, wanted, quota):
            counted = await _counted(connection, origin.user_id, quota, now=now)
            one = wanted / max(1, charge.pictures)
            later = free_at(counted, one, quota) if is_over(quota.limit - left.left, one, quota) else None
            raise _over(left, free_at(counted, wanted, quota), one_at=later)
    return [Left(quota=left.quota, left=left.left - charge.of(left.quota.measure)) for left in found]


def _over(left: Left, at: float | None, *, one_at: float | None) -> UserMistake:
    """Return the mistake of a request that has room at `at`, or never, and one picture at `one_at`."""
    further = [UserMistake("quota_fewer") if at is None else UserMistake("quota_again", at=Moment(at))]
    if left.quota.measure is Measure.REQUESTS:
        return UserMistake("quota_cool_down", seconds=f"{left.quota.seconds:g}", further=further)
    if at is None and one_at is not None:
        further.insert(0, UserMistake("quota_next", at=Moment(one_at)))
    numbers = {"limit": f"{left.quota.limit:g}", "left": f"{max(0.0, round(left.left, 1)):g}"}
    return UserMistake(f"quota_{left.quota.key}", further=further, **numbers)


async def recount(connection: AsyncConnection, job_id: str) -> None:
    """Charge a job only for pictures painted and not withheld; call it when a finished picture changes."""
    counts = (images.c.job_id == job_id) & among(images, State.DONE)
    counts &= images.c.showing != Showing.WITHHOLD
    painted = sa.select(sa.func.count()).select_from(images).where(counts).scalar_subquery()
    await connection.execute(sa.update(charges).where(charges.c.job_id == job_id).values(pictures=painted))


async def left_of(
    connection: AsyncConnection, user_id: int, quotas: Sequence[Quota], *, now: float
) -> list[Left]:
    """Return what a person has left of each quota, in one query."""
    if not quotas:
        return []
    sums = [
        sa.func.coalesce(sa.func.sum(sa.case((_within(quota, now), _amount(quota.measure)), else_=0)), 0)
        for quota in quotas
    ]
    longest = max(quota.seconds for quota in quotas)
    mine = (charges.c.user_id == user_id) & (charges.c.at > now - longest)
    look = sa.select(*(each.label(f"used_{number}") for number, each in enumerate(sums))).where(mine)
    used = (await connection.execute(look)).one()
    return [
        Left(quota=quota, left=quota.limit - float(some)) for quota, some in zip(quotas, used, strict=True)
    ]


async def _counted(connection: AsyncConnection, user_id: int, quota: Quota, *, now: float) -> list[Counted]:
    """Return what counts against one quota."""
    amount = _amount(quota.measure).label("amount")
    look = sa.select(charges.c.at, amount).where(charges.c.user_id == user_id, _within(quota, now))
    return [Counted(at=row.at, amount=float(row.amount)) for row in await connection.execute(look)]


def _within(quota: Quota, now: float) -> sa.ColumnElement[bool]:
    within = charges.c.at > now - quota.seconds
    if quota.channel_id:
        within &= (charges.c.channel_id == quota.channel_id) | (
            charges.c.parent_channel_id == quota.channel_id
        )
    elif quota.guild_id:
        within &= charges.c.guild_id == quota.guild_id
    return within


def _amount(measure: Measure) -> sa.ColumnElement[Any]:
    if measure is Measure.REQUESTS:
        return sa.case((charges.c.pictures > 0, 1), else_=0)
    return charges.c.pictures if measure is Measure.PICTURES else charges.c.pictures * charges.c.cost

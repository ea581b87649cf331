"""Measured run times: moving means for each lane, and for each lane on each class of accelerators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.jobs import Claim
from bot.store.database.database import insert
from bot.store.tables.fleet import class_run_times
from bot.store.tables.queue import run_times

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
    if (
        await connection.scalar(known) is None
    ):  # select first: an insert waits for a transaction that changes the row
        first = insert(connection, table).values(**key, **newest).on_conflict_do_nothing()
        if (await connection.execute(first)).rowcount:
            return
    free = sa.select(*(table.c[name] for name in key)).where(mine).with_for_update(skip_locked=True)
    if (await connection.execute(free)).first() is None:
        return
    moved = {name: table.c[name] + _NEWEST * (value - table.c[name]) for name, value in newest.items()}
    await connection.execute(sa.update(table).where(mine).values(moved))

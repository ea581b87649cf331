"""Verbs about the processes that share the queue: who lives, where they keep results, what they leave."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.errors import NameTaken
from bot.store.clock import SETTLING_SECONDS
from bot.store.database import insert
from bot.store.tables import deliveries, jobs, processes
from bot.store.transitions import ACTIVE
from bot.store.verbs import Verbs

_JOINING = 0x5D_1A_C6  # any number that nothing else in the database locks


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process that works on the queue.

    `secret` is the same in every life of this name and known to no other bearer of it. `place` is where it
    keeps results: two processes with one place see the same files.
    """

    name: str
    secret: str
    role: str
    machine: str
    place: str


@dataclass(frozen=True, kw_only=True)
class Living:
    """What is known of another process, and until when it is taken for alive, in seconds since the epoch."""

    name: str
    role: str
    machine: str
    place: str
    expires_at: float


class Members(Verbs):
    """What processes say of themselves to each other."""

    async def join(self, process: Process, *, ttl: float) -> list[Living]:
        """Count this process among the living for the next `ttl` seconds.

        Not where others keep results elsewhere: then these are returned, and nothing was changed. Raises
        NameTaken where a stranger bears the name.
        """
        now = self._clock()
        async with self._database.write() as connection:
            await _alone(connection)
            living = await _living(connection, now)
            for other in living:
                if other.name == process.name and other.secret != process.secret:
                    raise NameTaken(f"Another living process is called {process.name}.")
            misfits = [
                other for other in living if process.name != other.name and process.place != other.place
            ]
            if not misfits:
                await _write(connection, process, now=now, expires_at=now + ttl)
        return [_plain(other) for other in misfits]

    async def beat(self, process: Process, *, ttl: float) -> bool:
        """Stay among the living for the next `ttl` seconds; False when no longer counted: `join` again."""
        alive = sa.update(processes).where(_is(process)).values(expires_at=self._clock() + ttl)
        async with self._database.write() as connection:
            return bool((await connection.execute(alive)).rowcount)

    async def leave(self, process: Process) -> None:
        """Count no more, and leave unfinished jobs to the other fronts at once."""
        async with self._changing() as (connection, changes):
            gone = await connection.execute(sa.delete(processes).where(_is(process)))
            if gone.rowcount:
                await _release_jobs(connection, process.name)
            changes.results = True

    async def release_dead(self) -> list[str]:
        """Leave the jobs of fronts that were not heard of in time to the others; returns their names.

        Nobody is taken for dead soon after a jump of the clock: the living are first heard of anew.
        """
        await self._shared.tell_time()
        if self._clock.undisturbed < SETTLING_SECONDS:
            return []
        now = self._clock()
        async with self._changing() as (connection, changes):
            dead = list(
                await connection.scalars(
                    sa.select(processes.c.name)
                    .where(processes.c.expires_at <= now)
                    .order_by(processes.c.name)
                    .with_for_update(skip_locked=True)
                )
            )
            for name in dead:
                await _release_jobs(connection, name)
            await connection.execute(sa.delete(processes).where(processes.c.name.in_(dead)))
            changes.results = bool(dead)
        return dead

    async def living(self) -> list[Living]:
        """The processes that were heard of in time, by name."""
        async with self._database.read() as connection:
            return [_plain(row) for row in await _living(connection, self._clock())]


def _is(process: Process) -> sa.ColumnElement[bool]:
    return (processes.c.name == process.name) & (processes.c.secret == process.secret)


async def _alone(connection: AsyncConnection) -> None:
    """Let one process after the other join; SQLite's transactions are alone already."""
    if connection.dialect.name == "postgresql":
        await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_JOINING)))


async def _living(connection: AsyncConnection, now: float) -> list[sa.Row[tuple[object, ...]]]:
    statement = sa.select(processes).where(processes.c.expires_at > now).order_by(processes.c.name)
    return list(await connection.execute(statement))


async def _write(connection: AsyncConnection, process: Process, *, now: float, expires_at: float) -> None:
    values = {
        "secret": process.secret,
        "role": process.role,
        "machine": process.machine,
        "place": process.place,
        "started_at": now,
        "expires_at": expires_at,
    }
    await connection.execute(
        insert(connection, processes)
        .values(name=process.name, **values)
        .on_conflict_do_update(index_elements=[processes.c.name], set_=values)
    )


async def _release_jobs(connection: AsyncConnection, front: str) -> None:
    undelivered = sa.select(deliveries.c.job_id).where(deliveries.c.outcome.is_(None))
    for unfinished in (jobs.c.state.in_(ACTIVE), jobs.c.id.in_(undelivered)):
        theirs = sa.select(jobs.c.id).where(jobs.c.front == front, unfinished).order_by(jobs.c.id)
        await connection.execute(
            sa.update(jobs).where(jobs.c.id.in_(theirs.with_for_update())).values(front=None)
        )


def _plain(row: sa.Row[tuple[object, ...]]) -> Living:
    return Living(
        name=row.name, role=row.role, machine=row.machine, place=row.place, expires_at=row.expires_at
    )

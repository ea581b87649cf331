"""The rows of the processes that share the queue: joining, heartbeats, and the jobs of dead processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.domain.errors import NameTaken
from bot.domain.outbox import Outgoing
from bot.store.database.database import SETTLING_SECONDS, Verbs, of_row, put
from bot.store.rows.outbox import UNSETTLED
from bot.store.rows.transitions import ACTIVE
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import jobs, processes

_JOIN_LOCK = 0x5D_1A_C6  # an advisory lock that nothing else in the database takes


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process that works on the queue.

    `secret` is the same after a restart under this name, and differs on other machines. `folder` identifies
    the folder of results: two processes with the same `folder` see the same files.
    """

    name: str
    secret: str
    role: str
    machine: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class LivingProcess:
    """Another process, and when it counts as dead unless it beats again: `expires_at`, in epoch seconds."""

    name: str
    role: str
    machine: str
    folder: str
    expires_at: float


class Processes(Verbs):
    """The living processes of a queue."""

    async def join(self, process: Process, *, ttl: float) -> list[LivingProcess]:
        """Add this process for the next `ttl` seconds.

        Returns the living processes that keep results in another folder; then nothing was changed. Raises
        NameTaken where a living process with another secret has the name.
        """
        now = self._clock()
        async with self._database.write() as connection:
            await _lock_joins(connection)
            living = await _living(connection, now)
            for other in living:
                if other.name == process.name and other.secret != process.secret:
                    raise NameTaken(f"Another living process is called {process.name}.")
            with_other_folder = [
                other for other in living if process.name != other.name and process.folder != other.place
            ]
            if not with_other_folder:
                values: dict[str, Any] = {"started_at": now, "expires_at": now + ttl, "place": process.folder}
                values |= {"secret": process.secret, "role": process.role, "machine": process.machine}
                await put(connection, processes, {"name": process.name}, values)
        return [_plain(other) for other in with_other_folder]

    async def beat(self, process: Process, *, ttl: float) -> bool:
        """Stay alive for the next `ttl` seconds; returns False for a dead process: it must `join`."""
        alive = sa.update(processes).where(_is(process)).values(expires_at=self._clock() + ttl)
        return bool(await self._write(alive))

    async def leave(self, process: Process) -> None:
        """Remove this process, and release its unfinished jobs to the other fronts."""
        async with self._telling(results=True) as connection:
            left = await connection.execute(sa.delete(processes).where(_is(process)))
            if left.rowcount:
                await _release(connection, process.name)

    async def release_dead(self) -> list[str]:
        """Remove dead processes and release their unfinished jobs to the other fronts; returns their names.

        Soon after a jump of the clock no process counts as dead, so that living processes can beat first.
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
                await _release(connection, name)
            await connection.execute(sa.delete(processes).where(processes.c.name.in_(dead)))
            changes.results = bool(dead)
        return dead

    async def living(self) -> list[LivingProcess]:
        """Return the living processes, ordered by name."""
        async with self._database.read() as connection:
            return [_plain(row) for row in await _living(connection, self._clock())]


def _is(process: Process) -> sa.ColumnElement[bool]:
    return (processes.c.name == process.name) & (processes.c.secret == process.secret)


async def _lock_joins(connection: AsyncConnection) -> None:
    """Let one process join at a time; SQLite runs one writing transaction at a time already."""
    if connection.dialect.name == "postgresql":
        await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_JOIN_LOCK)))


async def _living(connection: AsyncConnection, now: float) -> list[sa.Row[tuple[object, ...]]]:
    statement = sa.select(processes).where(processes.c.expires_at > now).order_by(processes.c.name)
    return list(await connection.execute(statement))


async def _release(connection: AsyncConnection, front: str) -> None:
    # A union, as PostgreSQL uses no index for an OR of the two.
    active = sa.select(jobs.c.id).where(jobs.c.front == front, jobs.c.state.in_(ACTIVE))
    undelivered = sa.select(outbox.c.job_id).join(jobs, jobs.c.id == outbox.c.job_id)
    undelivered = undelivered.where(jobs.c.front == front, UNSETTLED)
    unfinished = sa.union(active, undelivered)
    theirs = sa.select(jobs.c.id).where(jobs.c.id.in_(unfinished)).order_by(jobs.c.id).with_for_update()
    await connection.execute(sa.update(jobs).where(jobs.c.id.in_(theirs)).values(front=None))
    kinds = [kind.value for kind in Outgoing]  # so that an index finds the unsettled messages
    unsent = sa.update(outbox).where(outbox.c.kind.in_(kinds), UNSETTLED, outbox.c.front == front)
    await connection.execute(unsent.values(front=None))


def _plain(row: sa.Row[tuple[object, ...]]) -> LivingProcess:
    return of_row(LivingProcess, row, folder=row.place)

"""Clocks, a lease's length, locks, a full disk and files that hang, for tests of what is stored."""

import asyncio
import os
import resource
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bot.domain.jobs import Delivery
from bot.domain.outbox import Outgoing
from bot.store import Store
from bot.store.rows.jobs import load_jobs
from bot.store.rows.outbox import UNSETTLED, is_over
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import run_times
from sdjax_engine.request import Lane

TTL = 60.0
OpenStore = Callable[[], Awaitable[Store]]


async def undelivered(store: Store, *, limit: int) -> list[Delivery]:
    """The results that are due now for any front, the longest due first; none of them is claimed."""
    due = (outbox.c.kind == Outgoing.RESULT.value) & UNSETTLED & is_over(store.clock())
    look = sa.select(outbox).where(due).order_by(outbox.c.next_try_at, outbox.c.id).limit(limit)
    async with store.shared.database.read() as connection:
        rows = {row.job_id: row for row in await connection.execute(look)}
        found = await load_jobs(connection, list(rows))
    return [
        Delivery(id=row.id, attempts=row.attempts, fencing_token=row.fencing_token, job=job)
        for job in found
        for row in [rows[job.id]]
    ]


async def run_seconds(store: Store, lane: Lane) -> float | None:
    """The moving mean of the seconds that an image of this lane runs; None before the first."""
    async with store.shared.database.read() as connection:
        look = sa.select(run_times.c.seconds).where(run_times.c.lane == str(lane))
        found: float | None = await connection.scalar(look)
        return found


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Hands:
    """What the wall clock shows, and how long the machine has run."""

    def __init__(self) -> None:
        self.wall = 1_000_000.0
        self.steady = 50.0

    def go_on(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@contextmanager
def small_disk() -> Iterator[None]:
    """Limit all files to 8 KiB: writes fail as on a full disk.

    It holds for the whole process, the test run's own output included: nothing may be printed inside.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def hanging_files(folder: Path, *, count: int) -> Iterator[list[str]]:
    """Names of artifacts whose reading hangs, as on a network folder whose server is gone."""
    names = [f"{number:02x}/{number:064x}.png" for number in range(count)]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(folder / name)  # opening it waits for a writer
    try:
        yield names
    finally:
        for name in names:
            os.close(os.open(folder / name, os.O_RDWR | os.O_NONBLOCK))


async def lock_reached(store: Store, *tasks: asyncio.Task[Any]) -> None:
    """Wait until each task has ended or waits for a lock; on SQLite, whose writers take turns, a moment."""
    database = store.shared.database
    if not database.has_time:
        await asyncio.sleep(0.05)
        return
    waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    async with asyncio.timeout(20):
        while True:
            async with database.read() as connection:
                found = await connection.scalar(waiting)
            if found >= sum(not task.done() for task in tasks):
                return
            await asyncio.sleep(0.01)

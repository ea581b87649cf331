"""One database and its clock: transactions, the wake-ups that follow committed changes, the base of verbs.

    transaction ──commit──► WakeUps.ring            loops of this process
         └─ pg_notify ────► listen ──► WakeUps.ring  loops of other processes

SQLite has no notifications: the loops of other processes find the work by polling.

All processes of a queue share its clock: with SQLite the machine's, with PostgreSQL the server's. Both may be
set by an administrator. Times are therefore compared only with times that are renewed regularly, and no lease
is taken from a process soon after a jump: see `undisturbed`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.store.database.failures import TRANSLATED, has_null_character, unavailable
from bot.store.database.notifications import CHANNEL, listen
from bot.store.database.outage import Outage

log = logging.getLogger(__name__)

T = TypeVar("T")

JUMP_SECONDS = 2.0
REFRESH_SECONDS = 10.0
LONG_READS = 2
"""How many long reads run at once. Further ones wait, so that others always have connections of the pool."""
SETTLING_SECONDS = 3 * REFRESH_SECONDS
"""Within these seconds after a jump every living process has renewed its leases by the new time."""

# A reader sees one snapshot; in SQLite this is always so.
_READ_ONLY: dict[str, dict[str, Any]] = {
    "sqlite": {"read_only": True},
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}
# One statement sees one snapshot by itself.
_ALONE: dict[str, dict[str, Any]] = {
    "sqlite": {"alone": True},
    "postgresql": {"isolation_level": "AUTOCOMMIT"},
}


class Database:
    """The engine of one database, and its name in messages."""

    def __init__(self, engine: AsyncEngine, place: str) -> None:
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine.sync_engine, "begin", _begin_on_sqlite)
        self._engine = engine
        self._reader = engine.execution_options(**_READ_ONLY[engine.dialect.name])
        self._looker = engine.execution_options(**_ALONE[engine.dialect.name])
        self._place = place
        # SQLite has one writer at a time and polls for its lock; a lock in the process is fairer and quicker.
        self._turn = asyncio.Lock() if engine.dialect.name == "sqlite" else None
        self._local = self._turn is not None
        self._file: tuple[int, int] | None = None  # SQLite's, from the first transaction on
        self._long_reads = asyncio.Semaphore(LONG_READS)
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._closed = False
        self.on_failure: Callable[[], None] = lambda: None
        # Outages are logged for a queue that is open. A command that cannot open it prints the error itself.
        self.new_outage: Callable[[], Outage] | None = None
        self._outage: Outage | None = None

    @property
    def place(self) -> str:
        """The file, or the server's address without passwords, for messages."""
        return self._place

    @property
    def has_time(self) -> bool:
        """Whether the database has a server whose clock is used instead of this machine's."""
        return self._engine.dialect.name == "postgresql"

    async def close(self) -> None:
        """Refuse new transactions, wait for the open ones, and close every connection.

        A connection that is returned after its pool is closed would never be closed.
        """
        self._closed = True
        await self._quiet.wait()
        await self._engine.dispose()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Begin a transaction that may write: committed at the end, rolled back on any error."""
        with self._used():
            async with self._turn or nullcontext(), self._engine.begin() as connection:
                yield connection
            self._check_file()  # what was committed to a deleted file is lost at the next start

    @asynccontextmanager
    async def read(self, *, much: bool = False) -> AsyncIterator[AsyncConnection]:
        """Begin a transaction that only reads, from one snapshot.

        Pass `much` where it may read many rows: it then waits while LONG_READS others do.
        """
        with self._used():
            async with self._long_reads if much else nullcontext(), self._reader.begin() as connection:
                yield connection

    async def look(
        self, statement: sa.Executable, values: Mapping[str, Any] | None = None, *, much: bool = False
    ) -> Sequence[sa.Row[Any]]:
        """Return the rows of one statement that only reads; without a transaction, which would take time.

        Pass `much` as to `read`.
        """
        with self._used():
            async with self._long_reads if much else nullcontext(), self._looker.connect() as connection:
                found: Sequence[sa.Row[Any]] = (await connection.execute(statement, values)).all()
                return found

    async def revision(self) -> object:
        """Return a value that is another one after every commit of any process: a cheap look before a read.

        With SQLite it may change a moment before others can read what was committed.
        """
        if self._local:
            return _changes_of(self._place), _changes_of(f"{self._place}-wal")
        ((snapshot,),) = await self.look(sa.select(sa.cast(sa.func.pg_current_snapshot(), sa.Text)))
        return snapshot

    async def listen(self, hear: Callable[[str], None], connected: Callable[[], None]) -> None:
        """Pass every notification to `hear`, for ever; call `connected` when some may have been missed.

        SQLite has no notifications: with it this waits for ever.
        """
        if self._engine.dialect.name != "postgresql":
            await asyncio.Event().wait()
        await listen(self._engine, self._place, hear, connected, self._tell)

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Count a transaction, translate its error, and tell an ongoing outage whether it succeeded."""
        with self._awaited(), translated(self._place, self._failed):
            self._check_file()
            yield
        if self._outage is not None and self._outage.worked():
            self._outage = None

    def _check_file(self) -> None:
        """Raise StoreUnavailable where SQLite's file was deleted, emptied or replaced since it was opened.

        SQLite goes on with the deleted file. Opening it here to read it would free SQLite's locks.
        """
        if not self._local:
            return
        found = file_id(self._place)
        if self._file is None:
            self._file = found
        elif found != self._file:
            error = StoreUnavailable(
                f"{self._place} was deleted, emptied or replaced while the bot runs: put that file back, or "
                "stop the bot, restore a backup and start it."
            )
            self._failed(error)
            raise error

    def _failed(self, error: StoreUnavailable | None) -> None:
        self.on_failure()
        if error is not None:
            self._tell(error)

    def _tell(self, error: StoreUnavailable) -> None:
        if self._outage is None and self.new_outage is not None:
            self._outage = self.new_outage()
        if self._outage is not None:
            self._outage.failed(error)

    @contextmanager
    def _awaited(self) -> Iterator[None]:
        """Count a transaction that `close` must wait for."""
        if self._closed:
            raise StoreUnavailable(f"The queue in {self._place} is closed.")
        self._under_way += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._quiet.set()


class Clock:
    """Seconds since the epoch. `on_jump` is called when the clock was set.

    `wall` may be set at any time, `steady` is monotonic. With `server` the time is that of `refresh`, carried
    forward by `steady`.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        *,
        server: bool = False,
        on_jump: Callable[[], None] = lambda: None,
    ) -> None:
        self._steady = steady
        self._server = server
        self._wall = self._carried if server else wall
        self._on_jump = on_jump
        self._offset = 0.0
        self._refreshed_at = -math.inf
        self._jumped_at = -math.inf
        self._last: tuple[float, float] | None = None

    def __call__(self) -> float:
        """Return the time now."""
        now, elapsed = self._wall(), self._steady()
        if self._last is not None:
            self._compare((now - self._last[0]) - (elapsed - self._last[1]), elapsed)
        self._last = now, elapsed
        return now

    @property
    def undisturbed(self) -> float:
        """Return for how many seconds the clock has not jumped; infinite if it has not jumped."""
        self()
        return self._steady() - self._jumped_at

    @property
    def is_stale(self) -> bool:
        """Return whether `refresh` is due; never without a server."""
        return self._server and self._steady() - self._refreshed_at >= REFRESH_SECONDS

    async def refresh(self, connection: AsyncConnection) -> None:
        """Read the server's time."""
        before = self._steady()
        told = await connection.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp())::float8"))
        after = self._steady()
        self._offset = float(told) - (before + after) / 2
        self._refreshed_at = after

    def _carried(self) -> float:
        return self._steady() + self._offset

    def _compare(self, jump: float, elapsed: float) -> None:
        if abs(jump) < JUMP_SECONDS:
            return
        self._jumped_at = elapsed
        self._on_jump()
        log.warning("the queue's clock has jumped by %+.0f s: no lease is taken back for a while", jump)


class WakeUp:
    """Wakes the waiting loops. A ring while no loop waits wakes the next loop that does."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake all loops that wait now, or the next one."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """Return at a ring, or after `seconds`: the work may have come from another process."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()


@dataclass(kw_only=True)
class Changes:
    """What a transaction changed: images may wait, results may be due, a running image was cancelled."""

    work: bool = False
    results: bool = False
    cancelled: bool = False

    def __str__(self) -> str:
        """Return the names of the true fields, separated by spaces."""
        return " ".join(field.name for field in fields(self) if getattr(self, field.name))

    @classmethod
    def parse(cls, text: str) -> Changes:
        """Return the changes that `str` wrote; words of other versions are ignored."""
        words = set(text.split())
        return cls(**{field.name: True for field in fields(cls) if field.name in words})


EVERYTHING = Changes(work=True, results=True, cancelled=True)


class WakeUps:
    """The wake-ups of one process: for workers, for each kind of messages, for cancellations."""

    def __init__(self) -> None:
        self.work = WakeUp()
        self.results = WakeUp()
        self.reviews = WakeUp()
        self.posts = WakeUp()
        self.cancellations = WakeUp()

    def ring(self, changes: Changes) -> None:
        """Wake the loops that wait for any of these changes."""
        if changes.work:
            self.work.ring()
        if changes.results:
            self.results.ring()
            self.reviews.ring()
            self.posts.ring()
        if changes.cancelled:
            self.cancellations.ring()

    def hear(self, text: str) -> None:
        """Wake loops for the changes that another process has published."""
        self.ring(Changes.parse(text))

    def ring_all(self) -> None:
        """Wake every loop: notifications may have been missed."""
        self.ring(EVERYTHING)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The database, its clock, and the wake-ups that follow committed changes."""

    database: Database
    clock: Clock
    wake_ups: WakeUps = field(default_factory=WakeUps)

    async def tell_time(self) -> None:
        """Read the time of the database's server, if it has one, unless it was read recently."""
        if self.clock.is_stale:
            async with self.database.read() as connection:
                await self.clock.refresh(connection)


class Verbs:
    """Base of the store's members; each verb is one transaction.

    Any verb raises StoreUnavailable, whose message is one sentence, when the database cannot be used; then
    nothing was changed.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._database = shared.database
        self._clock = shared.clock

    async def _rows(self, look: sa.Select[Any], *, much: bool = False) -> list[Any]:
        """Return the rows of one statement, which may read `much`."""
        return list(await self._database.look(look, much=much))

    async def _row(self, look: sa.Select[Any]) -> Any:
        """Return the first row of one statement; None without one."""
        return next(iter(await self._rows(look)), None)

    async def _scalars(self, look: sa.Select[T]) -> list[T]:
        """Return the values of one statement."""
        return [row[0] for row in await self._rows(look)]

    async def _scalar(self, look: sa.Select[T]) -> T | None:
        """Return the first value of one statement; None without one."""
        return next(iter(await self._scalars(look)), None)

    async def _write(self, change: sa.Executable) -> int:
        """Change rows by one statement, and return their number."""
        async with self._database.write() as connection:
            return (await connection.execute(change)).rowcount

    @asynccontextmanager
    async def _changing(self, **told: bool) -> AsyncIterator[tuple[AsyncConnection, Changes]]:
        """Begin a transaction; the loops that wait for its changes are woken once it is committed."""
        changes = Changes(**told)
        async with self._database.write() as connection:
            yield connection, changes
            await _publish(connection, changes)
        self._shared.wake_ups.ring(changes)

    @asynccontextmanager
    async def _telling(self, **told: bool) -> AsyncIterator[AsyncConnection]:
        """Begin a transaction with these changes; see `_changing`."""
        async with self._changing(**told) as (connection, _):
            yield connection


def insert(connection: AsyncConnection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT with ON CONFLICT, which SQLAlchemy has only in its dialects."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


async def put(
    connection: AsyncConnection, table: sa.Table, key: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    """Insert a row, or give the row of the same key these values."""
    row = insert(connection, table).values({**key, **values})
    await connection.execute(row.on_conflict_do_update(index_elements=list(key), set_=dict(values)))


async def add_new(
    connection: AsyncConnection, table: sa.Table, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> int:
    """Insert rows whose keys are not there yet; return how many."""
    row = insert(connection, table).values(values)
    return (await connection.execute(row.on_conflict_do_nothing())).rowcount


async def count_of(connection: AsyncConnection, rows: sa.FromClause, *which: sa.ColumnElement[bool]) -> int:
    """Count the rows of a table or of a join."""
    return await connection.scalar(sa.select(sa.func.count()).select_from(rows).where(*which)) or 0


def of_row(kind: type[T], row: Any, /, **made: Any) -> T:
    """Return plain data of a row's columns by the names of the fields, and of what was `made` of others."""
    named = row._mapping  # a row is a tuple too: its own `index` and `count` are methods
    columns = {each.name: named[each.name] for each in fields(kind) if each.name not in made}  # type: ignore[arg-type]
    return kind(**columns, **made)


async def _publish(connection: AsyncConnection, changes: Changes) -> None:
    """Notify other processes once the transaction is committed, and only then."""
    if connection.dialect.name == "postgresql" and (text := str(changes)):
        await connection.execute(sa.select(sa.func.pg_notify(CHANNEL, text)))


def file_id(place: str) -> tuple[int, int] | None:
    """Return the device and the inode of a file with content; None where there is none."""
    try:
        status = os.stat(place)  # noqa: PTH116 - at each transaction
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status.st_size else None


def _changes_of(place: str) -> tuple[int, int] | None:
    """Return when a file was changed, in nanoseconds, and its size; None where there is none."""
    try:
        status = os.stat(place)  # noqa: PTH116 - as in `file_id`
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _begin_on_sqlite(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("alone"):
        # A transaction that reads first and writes later fails with “locked” instead of waiting.
        connection.exec_driver_sql("BEGIN" if options.get("read_only") else "BEGIN IMMEDIATE")


@contextmanager
def translated(
    place: str, on_failure: Callable[[StoreUnavailable | None], None] = lambda _: None
) -> Iterator[None]:
    """Raise StoreUnavailable, with the place, for errors that mean that the database cannot be used now.

    Raises UserMistake `null_character` for a text that no PostgreSQL keeps: that is no outage.

    `on_failure` is called first, with that error, or with None for an error that shows a bug.
    """
    try:
        yield
    except TRANSLATED as error:
        if has_null_character(error):
            raise UserMistake("null_character") from None
        better = unavailable(error, place)
        on_failure(better)
        if better is None:
            raise error from None  # the driver's own error may quote the row, with tokens in it
        raise better from error

"""SQLite in a file: checks of the file and its file system, and the set-up of connections."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bot.config.mistakes import quoted
from bot.domain.errors import ConfigurationError, StoreUnavailable
from bot.domain.hashes import stored_distance
from bot.process.private_files import make_file, make_private

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset({"9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs"})
_NETWORK |= {"nfs", "nfs4", "orangefs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "vmhgfs", "wekafs"}
_LOCAL_FUSE = frozenset({"fuseblk", "fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.mergerfs", "fuse.ntfs-3g"})


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """Return the kind of network file system that `path` is on, or None if it is local or unknown.

    `mounts` is the text of mountinfo (proc(5)), by default of this process.
    """
    if mounts is None:
        if not _MOUNTS.exists():
            return None
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    kind = _kind_at(path.resolve(), mounts)
    fuse = kind.startswith("fuse") and kind not in _LOCAL_FUSE
    return kind if fuse or kind in _NETWORK else None


def _kind_at(path: Path, mounts: str) -> str:
    """Return the kind of file system of the deepest mount above `path`; of equal mounts, the last one."""
    found, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(_unescaped(before.split(" ")[4]))
        if path.is_relative_to(point) and len(point.parts) >= found:
            found, kind = len(point.parts), after.split(" ")[0]
    return kind


def _unescaped(text: str) -> str:
    """Return the text with its octal escapes (spaces, tabs, backslashes) decoded."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


# The options of an address that can be used. With `uri`, the database may be in memory, or in another file
# than the one that is checked.
_OPTIONS = {"timeout", "isolation_level", "detect_types", "check_same_thread", "cached_statements"}
_BUSY_SECONDS = 10.0
_MOST_BUSY_SECONDS = 2_000_000.0
"""SQLite keeps its wait as milliseconds of 32 bits."""
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",  # readers never wait for the writer
    # With NORMAL a power cut may lose the last commits: a job that a person saw as queued would be lost.
    # FULL costs one fsync a commit (benchmarks/store.py prints what that is here).
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",  # deleted words do not stay in free pages of the file
)
CONNECTIONS = 15
BITS_APART = "bits_apart"
"""The SQL function for the distance of two perceptual hashes; PostgreSQL has its own `bit_count`."""


class _Connection(sqlite3.Connection):
    """Ends its statements and its transaction when it is closed.

    A task that is cancelled within a statement leaves a cursor, which lives until Python collects it. SQLite
    keeps a closed connection as long as one of its cursors: with it the lock, so that nobody could write, and
    the snapshot, so that the write-ahead log would grow.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()

    def cursor(self, *arguments: Any, **options: Any) -> Any:
        """Return a new cursor; `execute` makes its own here too."""
        cursor = super().cursor(*arguments, **options)
        self._cursors.add(cursor)
        return cursor

    def close(self) -> None:
        for cursor in list(self._cursors):
            with suppress(sqlite3.Error):
                cursor.close()
        with suppress(sqlite3.Error):
            self.rollback()
        super().close()


def create_sqlite_engine(url: sa.URL, *, json_serializer: Callable[[Any], str]) -> AsyncEngine:
    """Return an engine whose driver begins no transactions by itself: `Database` begins them.

    Raises ConfigurationError for options that cannot be used; ValueError, OverflowError or TypeError for
    values that the driver refuses.
    """
    if unknown := sorted(url.query.keys() - _OPTIONS):
        raise ConfigurationError(f"queue.database: SQLite cannot have the options: {', '.join(unknown)}.")
    arguments = {"isolation_level": None, "timeout": _busy_seconds(url), "factory": _Connection}
    engine = create_async_engine(
        url,
        connect_args=arguments,
        json_serializer=json_serializer,
        # Each connection has a thread, and the event loop waits until a new thread runs: 0.3 s on a busy
        # machine. So all connections are kept open.
        pool_size=CONNECTIONS,
        max_overflow=0,
        json_deserializer=_json,
        hide_parameters=True,  # parameters include tokens and prompts, and errors are logged
    )
    _, options = engine.dialect.create_connect_args(url)
    sqlite3.connect(":memory:", **{**options, **arguments}).close()
    sa.event.listen(engine.sync_engine, "connect", _set_up)
    return engine


def _json(text: str) -> Any:
    """Return a JSON value; text that is no JSON as it is, so that a damaged row hides no other row."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def check_file(url: sa.URL) -> None:
    """Make the database's folder and file for this user alone, and check that they can be used; blocks.

    Raises ConfigurationError, StoreUnavailable or sqlite3.Error. A missing parent folder is not made: it
    means a wrong path or a missing disk, not an empty queue. A failure here also spares the asynchronous
    driver a failed start, after which its thread would use a closed event loop.
    """
    path = Path(sqlite_path(url))
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"The folder of {path} cannot be made: {error.strerror}.") from error
    check_file_system(path)
    with suppress(OSError):  # SQLite's own error says what is wrong with the path
        make_file(path)
    with closing(sqlite3.connect(path, timeout=_busy_seconds(url))) as connection:
        connection.execute("PRAGMA schema_version")
        _switch_to_wal(connection, _busy_seconds(url))
    for kept in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        make_private(kept)


def _switch_to_wal(connection: sqlite3.Connection, seconds: float) -> None:
    """Give the file its write-ahead log, which it keeps; raises sqlite3.Error.

    Where two connections do this at the same moment, SQLite fails at once instead of waiting.
    """
    ends = time.monotonic() + seconds
    while True:
        try:
            connection.execute(_PRAGMAS[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= ends:
                raise
        else:
            return
        time.sleep(0.01)


def check_file_system(path: Path) -> None:
    """Raise ConfigurationError where the file at `path` would lie on a network file system; blocks."""
    if kind := network_file_system(path):
        raise ConfigurationError(
            f"queue.database: {quoted(path)} lies on a network file system ({kind}), where SQLite's queue is "
            "not safe: name a file on a disk of this machine, or a PostgreSQL database."
        )


def sqlite_path(url: sa.URL) -> str:
    """Return the absolute path of the database's file, for messages."""
    return str(Path(str(url.database)).absolute())


def _busy_seconds(url: sa.URL) -> float:
    seconds = float(str(url.query.get("timeout", _BUSY_SECONDS)))
    if not 0 <= seconds <= _MOST_BUSY_SECONDS:
        raise ValueError
    return seconds


def _set_up(connection: DBAPIConnection, _record: object) -> None:
    try:
        connection.create_function(BITS_APART, 2, stored_distance, deterministic=True)
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(pragma)
        cursor.close()
    except BaseException:
        connection.close()  # the pool does not have it yet, so its thread would never end
        raise

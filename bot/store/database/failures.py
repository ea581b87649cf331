"""Turns a driver's error into one sentence that says how to fix it."""

from __future__ import annotations

import sqlite3
import ssl

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bot.domain.errors import StoreUnavailable

TRANSLATED = (DBAPIError, PoolTimeout, sqlite3.Error, OSError)
_MISTAKES_OF_OURS = (IntegrityError, ProgrammingError, DataError, NotSupportedError)
_UNREACHABLE = (
    "{place} cannot be reached ({reason}): check that the server runs, and that queue.database has "
    "its address."
)
_NO_TLS = "{place} cannot be reached over TLS ({reason}): check ssl in queue.database, and the certificate."
_OTHER = "{place} cannot be used: {reason}."
# The keys are prefixes of SQLite's error names and of PostgreSQL's SQLSTATE codes.
_SENTENCES = {
    "SQLITE_FULL": "The disk that holds {place} is full: free some space.",
    "SQLITE_BUSY": "{place} is locked by another process: stop that process or wait until it is done.",
    "SQLITE_LOCKED": "{place} is locked by another process: stop that process or wait until it is done.",
    "SQLITE_CANTOPEN": "{place} cannot be opened: check that this account may write it and its folder.",
    "SQLITE_READONLY": "{place} cannot be written: check the permissions of the file and its folder.",
    "SQLITE_PERM": "{place} cannot be written: check the permissions of the file and its folder.",
    "SQLITE_NOTADB": "{place} is not a queue database: move it away, or name another file.",
    "SQLITE_CORRUPT": "{place} is damaged: restore it from a backup, or move it away.",
    "SQLITE_IOERR": "{place} cannot be read or written: the disk is full or broken.",
    "08": _UNREACHABLE,
    "25006": "{place} only lets itself be read: name the server that takes writes.",
    "28": "{place} refuses this user and password ({reason}): check them in queue.database, and pg_hba.conf.",
    "3D000": "{place} does not exist: create that database, or name another one in queue.database.",
    "42501": "{place} does not allow this user to keep a queue in it: {reason}.",
    "53100": "The disk that holds {place} is full: free some space.",
    "53300": "{place} has no connection left: raise its max_connections, or stop other programs.",
    "55P03": (
        "A backup or another long transaction holds the tables of {place}, so they cannot be brought up to "
        "date now: the start tries again."
    ),
    "57014": "{place} has cancelled a statement ({reason}): raise its statement_timeout, or ask who did it.",
    "57P": "{place} starts or stops ({reason}): wait until it has started, or read the server's log.",
}


def unavailable(error: Exception, place: str) -> StoreUnavailable | None:
    """Return the error to raise instead of `error`, or None if `error` shows a bug of this program."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0].rstrip(".")
    name = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None) or ""
    for code, sentence in _SENTENCES.items():
        if name.startswith(code):  # extended codes append to the plain one: SQLITE_IOERR_WRITE
            return StoreUnavailable(sentence.format(place=place, reason=reason))
    if isinstance(error, _MISTAKES_OF_OURS):
        return None
    if isinstance(cause, TimeoutError):
        return StoreUnavailable(f"{place} does not answer: check that it runs and can be reached.")
    sentence = _of_connection(cause) if place.startswith("postgresql") else _OTHER
    return StoreUnavailable(sentence.format(place=place, reason=reason))


def has_null_character(error: Exception) -> bool:
    """Return whether PostgreSQL refused a null character, which it keeps in no text."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return getattr(cause, "sqlstate", None) in ("22021", "22P05")


def is_deadlock(error: StoreUnavailable) -> bool:
    """Return whether PostgreSQL has ended the transaction, because another one waited for it as well."""
    return _sqlstate(error) == "40P01"


def is_locked_out(error: StoreUnavailable) -> bool:
    """Return whether PostgreSQL has ended the transaction, because a lock was not free in time."""
    return _sqlstate(error) == "55P03"


def _sqlstate(error: StoreUnavailable) -> str | None:
    cause = error.__cause__.orig if isinstance(error.__cause__, DBAPIError) else None
    return getattr(cause, "sqlstate", None)


def _of_connection(cause: BaseException | None) -> str:
    if isinstance(cause, ssl.SSLError):
        return _NO_TLS
    return _UNREACHABLE if isinstance(cause, OSError) else _OTHER

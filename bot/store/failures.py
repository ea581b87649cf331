"""Turns a driver's error into one sentence that says what to put right."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bot.errors import StoreUnavailable

TRANSLATED = (DBAPIError, PoolTimeout, sqlite3.Error, OSError)
_MISTAKES_OF_OURS = (IntegrityError, ProgrammingError, DataError, NotSupportedError)
_SENTENCES = {
    "SQLITE_FULL": "The disk that holds {place} is full: free some space.",
    "SQLITE_BUSY": "{place} is locked by another process: stop that process or wait until it is done.",
    "SQLITE_LOCKED": "{place} is locked by another process: stop that process or wait until it is done.",
    "SQLITE_CANTOPEN": "{place} cannot be opened: check that it is a file in a folder that may be written.",
    "SQLITE_READONLY": "{place} cannot be written: check the permissions of the file and its folder.",
    "SQLITE_PERM": "{place} cannot be written: check the permissions of the file and its folder.",
    "SQLITE_NOTADB": "{place} is not a queue database: move it away, or name another file.",
    "SQLITE_CORRUPT": "{place} is damaged: restore it from a backup, or move it away.",
    "SQLITE_IOERR": "{place} cannot be read or written: the disk is full or broken.",
}


def unavailable(error: Exception, place: str) -> StoreUnavailable | None:
    """The error to raise instead of `error`, or None when it shows a mistake in the program."""
    if isinstance(error, _MISTAKES_OF_OURS):
        return None
    cause = error.orig if isinstance(error, DBAPIError) else error
    name = getattr(cause, "sqlite_errorname", "")
    for code, sentence in _SENTENCES.items():
        if name.startswith(code):  # extended codes append to the plain one: SQLITE_IOERR_WRITE
            return StoreUnavailable(sentence.format(place=place))
    reason = str(cause).strip().splitlines()[:1] or [type(cause).__name__]
    return StoreUnavailable(f"{place} cannot be used: {reason[0]}.")

"""A process whose engine has died begins itself anew, and gives up where that has not helped.

A thread may hang inside the devices' driver, where nothing interrupts it: only a new process is rid of it.
The times of the restarts go along in the environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

VARIABLE = "SDJAX_BOT_RESTARTS"
MOST = 5
WITHIN_SECONDS = 3600.0
_STDERR = 2


def recorded(environ: Mapping[str, str], *, now: float) -> str | None:
    """What `VARIABLE` is to say after a restart at `now`, in seconds since the epoch.

    None where there were `MOST` within `WITHIN_SECONDS` already.
    """
    recent = [time for time in _times(environ.get(VARIABLE, "")) if abs(now - time) < WITHIN_SECONDS]
    if len(recent) >= MOST:
        return None
    return " ".join(f"{time:.0f}" for time in [*recent, now])


def count(environ: Mapping[str, str]) -> int:
    """How many restarts brought this process about."""
    return len([*_times(environ.get(VARIABLE, ""))])


def begin_anew(record: str) -> NoReturn:
    """Replace this process, whatever its threads do, by a new one with the same command line."""
    os.environ[VARIABLE] = record
    for number in [int(file.name) for file in Path("/dev/fd").iterdir()]:
        if number > _STDERR:  # a lock that a driver holds by an open file would shut the new process out
            with suppress(OSError):  # the listing's own is closed already
                os.set_inheritable(number, False)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - the very same command


def _times(record: str) -> Iterator[float]:
    for word in record.split():
        with suppress(ValueError):
            yield float(word)

"""Restarts a process whose engine has died, a limited number of times.

A thread may hang inside the devices' driver and cannot be interrupted, so only a new process helps. The
times of the restarts are passed to it in the environment.
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


def record(environ: Mapping[str, str], *, now: float) -> str | None:
    """Return the value of `VARIABLE` after a restart at `now`, in seconds since the epoch.

    Returns None after `MOST` restarts within `WITHIN_SECONDS`.
    """
    recent = [time for time in _times(environ.get(VARIABLE, "")) if abs(now - time) < WITHIN_SECONDS]
    if len(recent) >= MOST:
        return None
    return " ".join(f"{time:.0f}" for time in [*recent, now])


def count(environ: Mapping[str, str]) -> int:
    """Return how many restarts led to this process."""
    return len([*_times(environ.get(VARIABLE, ""))])


def last(environ: Mapping[str, str]) -> float:
    """Return when the last restart led to this process, in seconds since the epoch; 0 without any."""
    return max(_times(environ.get(VARIABLE, "")), default=0.0)


def restart(times: str) -> NoReturn:
    """Replace this process by a new one with the same command line; `times` is the value of `VARIABLE`."""
    os.environ[VARIABLE] = times
    for number in [int(file.name) for file in Path("/dev/fd").iterdir()]:
        if number > _STDERR:  # an open file may hold a driver's lock, which would block the new process
            with suppress(OSError):  # the descriptor of the listing is closed already
                os.set_inheritable(number, False)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - the same command


def _times(value: str) -> Iterator[float]:
    for word in value.split():
        with suppress(ValueError):
            yield float(word)

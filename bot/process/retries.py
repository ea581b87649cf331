"""Retries: of calls while the disk or the database cannot be used, and of endless work that fails."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from bot.domain.errors import StoreUnavailable

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds
FIRST_RESTART, LONGEST_RESTART = 0.5, 60.0  # seconds between an unexpected error and the next start

P = ParamSpec("P")
T = TypeVar("T")


async def while_unavailable(
    seconds: float, verb: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return what `verb` returns, called again after each StoreUnavailable for about `seconds`.

    The pauses grow and are random, so that processes do not all retry at once. Raises the last
    StoreUnavailable; every other error is raised at once.
    """

    try:  # tenacity takes a tenth of a millisecond, and hardly any call needs it
        return await verb(*args, **kwargs)
    except StoreUnavailable as error:
        failed = [error]

    async def attempt() -> T:  # tenacity awaits only what a coroutine function returns
        if failed:
            raise failed.pop()
        return await verb(*args, **kwargs)

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(StoreUnavailable),
        stop=stop_after_delay(seconds),
        wait=wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE, min=FIRST_PAUSE / 2),
        before_sleep=_log_retry,
        reraise=True,
    )
    return await retrying(attempt)


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning("retry in %.1f s: %s", state.upcoming_sleep, error)


async def keep_running(
    work: Callable[[], Awaitable[T]],
    name: str,
    *,
    fatal: tuple[type[Exception], ...] = (),
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Run `work`, again after each error, until it returns or raises one of `fatal`; log each error.

    The pauses grow up to LONGEST_RESTART seconds. After work that ran for longer the pauses are short again.
    """
    seconds = FIRST_RESTART
    while True:
        began = clock()
        try:
            return await work()
        except fatal:
            raise
        except Exception:
            if clock() - began > LONGEST_RESTART:
                seconds = FIRST_RESTART
            log.exception("the %s failed and starts again in %g s", name, seconds)
        await pause(seconds)
        seconds = min(LONGEST_RESTART, 2 * seconds)

"""Retries while the disk or the database cannot be used."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from bot.errors import StoreUnavailable

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds

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

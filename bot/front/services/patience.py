"""The patience of people: how long an answer waits for a queue that restarts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from bot.process.retries import while_unavailable

PATIENCE_SECONDS = 2.0  # a restarting database is back by then, and the person still waits

P = ParamSpec("P")
T = TypeVar("T")


async def patiently(verb: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a verb of the store returns; raises StoreUnavailable only after two seconds of retries."""
    return await while_unavailable(PATIENCE_SECONDS, verb, *args, **kwargs)

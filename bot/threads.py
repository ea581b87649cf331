"""Threads for calls that block: bounded for each kind of work, so that no kind starves another.

The event loop looks names up in its default executor, so nothing else may block there: a test holds that
`asyncio.to_thread` is used nowhere in this package.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Runs at most `most` calls at once, each in a thread called `name`.

    A call that hangs keeps its place until it ends. The end of the process waits for no call.
    """

    def __init__(self, name: str, *, most: int) -> None:
        self._name = name
        self._places = asyncio.Semaphore(most)

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns or raises. Where the caller is cancelled, the call goes on without it."""
        await self._places.acquire()
        loop = asyncio.get_running_loop()

        def leave() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
                loop.call_soon_threadsafe(self._places.release)

        call = functools.partial(contextvars.copy_context().run, work, *args, **kwargs)
        return await in_thread(call, self._name, at_end=leave)

    async def run_within(
        self, seconds: float, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As `run`; raises TimeoutError after `seconds`, which include the wait for a place."""
        async with asyncio.timeout(seconds):
            return await self.run(work, *args, **kwargs)


def in_thread(
    work: Callable[[], T], name: str, *, at_end: Callable[[], None] = lambda: None
) -> asyncio.Future[T]:
    """Run `work` in a thread that the end of the process need not wait for; `at_end` is called there."""
    finished: Future[T] = Future()
    finished.set_running_or_notify_cancel()  # from now on it has a result, wanted or not

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            finished.set_exception(error)
        else:
            finished.set_result(result)
        finally:
            at_end()

    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except BaseException:
        at_end()
        raise
    return asyncio.wrap_future(finished)

"""Threads for blocking calls, with a limit for each kind of work, so that no kind starves another.

Where anybody may ask for work, each owner has a share of the threads, so that none starves the others.

The event loop resolves host names in its default executor, so nothing else may block there: a test checks
that this package never uses `asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
T = TypeVar("T")
UNINTERRUPTIBLE = "uninterruptible"
Check = Callable[[str], None]
"""Called with the name of each piece of work before it begins; raises TooLong once the time is over."""


class Threads:
    """Runs at most `most` calls at once, each in a thread called `name`, and at most `share` of one owner.

    A call that hangs keeps its slot until it ends. The exit of the process waits for no call.
    """

    def __init__(self, name: str, *, most: int, share: int | None = None) -> None:
        self._name = name
        self._slots = asyncio.Semaphore(most)
        self._share = most if share is None else share
        self._shares: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return or raise what `work` returns or raises. Cancelling the caller does not end the call."""
        return await self.run_for((), functools.partial(work, *args, **kwargs))

    async def run_for(self, owners: Sequence[Hashable], work: Callable[[], T]) -> T:
        """Like `run`, once each owner, such as a person and then a server, has fewer calls than its share."""
        turns: list[asyncio.Semaphore] = []
        try:
            for turn in (*map(self._share_of, owners), self._slots):
                await turn.acquire()
                turns.append(turn)
        except BaseException:
            _free(turns)
            raise
        loop = asyncio.get_running_loop()

        def free_slot() -> None:
            with contextlib.suppress(RuntimeError):  # the loop may have been closed meanwhile
                loop.call_soon_threadsafe(_free, turns)

        call = functools.partial(contextvars.copy_context().run, work)
        return await in_thread(call, self._name, at_end=free_slot)

    def _share_of(self, owner: Hashable) -> asyncio.Semaphore:
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = asyncio.Semaphore(self._share)
        return share

    async def run_within(
        self, seconds: float, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Like `run`; raises TimeoutError after `seconds`, which include the wait for a slot."""
        async with asyncio.timeout(seconds):
            return await self.run(work, *args, **kwargs)


def _free(turns: Sequence[asyncio.Semaphore]) -> None:
    for turn in turns:
        turn.release()


def in_thread(
    work: Callable[[], T], name: str, *, at_end: Callable[[], None] = lambda: None
) -> asyncio.Future[T]:
    """Run `work` in a daemon thread of this name; the thread calls `at_end` after `work`."""
    finished: Future[T] = Future()
    finished.set_running_or_notify_cancel()  # cancelling the future must not stop `set_result` below

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - passed on to the future
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


def in_uninterruptible_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run `work`, such as loading or compiling, in a daemon thread of its own."""
    return in_thread(work, UNINTERRUPTIBLE)


def uninterruptible_thread_runs() -> bool:
    """Return whether a thread of `in_uninterruptible_thread` is still at work."""
    return any(thread.name == UNINTERRUPTIBLE for thread in threading.enumerate())


class TooLong(Exception):
    """The work has taken too long; `piece` is the name of the pieces that took the most time."""

    def __init__(self, piece: str) -> None:
        self.piece = piece
        super().__init__(piece)


class Deadline:
    """A `Check` that raises TooLong `seconds` after it was made, by the thread's processor time.

    A thread cannot be stopped, so work that may take long calls this between its pieces.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._now = clock()
        self._end = self._now + seconds
        self._piece = ""
        self._spent: defaultdict[str, float] = defaultdict(float)

    def __call__(self, piece: str) -> None:
        """Begin a piece of work."""
        before, self._now = self._now, self._clock()
        self._spent[self._piece] += self._now - before
        if self._now > self._end:
            raise TooLong(max(self._spent, key=self._spent.__getitem__))
        self._piece = piece


def unlimited(piece: str) -> None:
    """A `Check` without a limit."""

"""A thread for calls that may hang: the exit of the interpreter does not wait for it."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")
Call = tuple[Future[Any], Callable[[], Any]]


class DaemonThread:
    """Makes calls in a daemon thread called `name`, one after the other; the thread ends with this object.

    The threads of `concurrent.futures` are joined when the interpreter ends, however long their calls take.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=make_calls, args=(self._calls,), name=name, daemon=True)
        self._thread.start()
        weakref.finalize(self, self._calls.put, None)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Make a call after those before it, and return the future of its result or error."""
        future: Future[Any] = Future()
        self._calls.put((future, partial(function, *arguments)))
        return future

    def close(self) -> None:
        """Make the calls that were submitted, and return when the thread has ended."""
        self._calls.put(None)
        self._thread.join()


def make_calls(calls: queue.SimpleQueue[Call | None]) -> None:
    """Make each call of a queue until None comes."""
    while (call := calls.get()) is not None:
        fulfil(*call)
        del call  # nothing is held while the thread waits


def fulfil(future: Future[Result], call: Callable[[], Result]) -> None:
    """Make a call, unless its future is cancelled, and give the future the result or the error."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - passed on to the future
            future.set_exception(error)

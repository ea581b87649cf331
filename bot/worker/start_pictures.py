"""What is found out of start pictures outside the event loop, once for all images of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from bot.process.threads import Threads
from sdjax_engine.model.pictures import Fitted, fitted
from sdjax_engine.request import Request

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Once(Generic[K, T]):
    """Keeps the values that were used last. Few suffice: the images of a job begin soon after each other."""

    def __init__(self, *, most: int = 32) -> None:
        self._most = most
        self._tasks: dict[K, asyncio.Task[T]] = {}

    async def get(self, key: K, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the value of `key`, made once by `make` for all who wait. A failure is not kept."""
        task = self._tasks.pop(key, None)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.create_task(make(), name=f"start picture {key}")
        self._tasks[key] = task  # the dict is ordered: the last one was used last
        while len(self._tasks) > self._most:
            del self._tasks[next(iter(self._tasks))]
        return await asyncio.shield(task)


class StartPictures:
    """The fitted start pictures, by file names and size."""

    def __init__(self) -> None:
        self._threads = Threads("start pictures", most=1)
        self._fitted = Once[tuple[str, str | None, int, int], Fitted | None](most=8)

    async def fitted(self, request: Request, init_image: str | None, mask_image: str | None) -> Fitted | None:
        """Return the fitted start picture of `request`, whose files have these names.

        Raises InvalidRequest for a file that is no picture.
        """
        if init_image is None:
            return None
        key = (init_image, mask_image, request.width, request.height)
        return await self._fitted.get(key, lambda: self._threads.run(fitted, request))

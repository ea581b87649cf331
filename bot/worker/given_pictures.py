"""What is found out of given pictures outside the event loop, once for all images of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from bot.domain.jobs import MASK, SHOWING, pictures_in
from bot.process.threads import Threads
from sdjax_engine.model.pictures import Fitted, fitted
from sdjax_engine.request import Request

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Pixels = npt.NDArray[np.uint8]
START = "init_image"
SQUARE = " as a square"


class Once(Generic[K, T]):
    """Keeps the values that were used last. Few suffice: the images of a job begin soon after each other."""

    def __init__(self, *, most: int = 32) -> None:
        self._most = most
        self._tasks: dict[K, asyncio.Task[T]] = {}

    async def get(self, key: K, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the value of `key`, made once by `make` for all who wait. A failure is not kept."""
        task = self._tasks.pop(key, None)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.create_task(make(), name=f"given picture {key}")
        self._tasks[key] = task  # the dict is ordered: the last one was used last
        while len(self._tasks) > self._most:
            del self._tasks[next(iter(self._tasks))]
        return await asyncio.shield(task)


class GivenPictures:
    """The fitted start pictures, and the pixels of all given pictures, by file names and size."""

    def __init__(self) -> None:
        self._threads = Threads("given pictures", most=1)
        self._fitted = Once[tuple[str, str | None, int, int], Fitted | None](most=8)

    async def start(self, request: Request, given: Mapping[str, str]) -> Fitted | None:
        """Return the fitted start picture of `request`, whose given pictures have these files.

        Raises InvalidRequest for a file that is no picture.
        """
        if START not in given:
            return None
        key = (given[START], given.get(MASK), request.width, request.height)
        return await self._fitted.get(key, lambda: self._threads.run(fitted, request))

    async def pixels(self, request: Request, given: Mapping[str, str]) -> dict[str, Pixels]:
        """Return the pixels (height, width, 3) of the given pictures that show something, by their files.

        They are of the size to paint, as the network sees them: of an image prompt a square. Raises as
        `start`.
        """
        found, files = {}, pictures_in(request, given)
        for field in SHOWING:
            if field in given:
                is_square = field == "image_prompt"
                width, height = request.width, request.height
                sides = (min(width, height),) * 2 if is_square else (width, height)
                alone = replace(
                    request,
                    init_image=files[field],
                    mask_image=None,
                    width=sides[0],
                    height=sides[1],
                )
                picture = await self.start(alone, {START: given[field]})
                if picture is not None:  # one file may be given twice, and be seen differently
                    found[given[field] + SQUARE * is_square] = picture.pixels
        return found

"""Start pictures, decoded and fitted outside the event loop, once for all images of a job."""

from __future__ import annotations

import asyncio

from bot.process.threads import Threads
from sdjax_engine.model.pictures import Fitted, fitted
from sdjax_engine.request import Request

KEPT = 8  # pictures; few suffice, as the images of a job begin soon after each other

_Key = tuple[str | None, str | None, int, int]


class StartPictures:
    """A cache of the fitted start pictures that were used last, by file names and size."""

    def __init__(self) -> None:
        self._threads = Threads("start pictures", most=1)
        self._fitted: dict[_Key, asyncio.Task[Fitted | None]] = {}

    async def fitted(self, request: Request, init_image: str | None, mask_image: str | None) -> Fitted | None:
        """Return the fitted start picture of `request`, whose files have these names.

        Raises InvalidRequest for a file that is no picture.
        """
        if init_image is None:
            return None
        key = (init_image, mask_image, request.width, request.height)
        task = self._fitted.pop(key, None)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            fitting = self._threads.run(fitted, request)
            task = asyncio.create_task(fitting, name=f"start picture {init_image}")
        self._fitted[key] = task  # the dict is ordered: the last one was used last
        while len(self._fitted) > KEPT:
            del self._fitted[next(iter(self._fitted))]
        return await asyncio.shield(task)

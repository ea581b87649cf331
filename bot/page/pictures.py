"""Finished pictures: the gallery that finds them by words, person, server and model, and their files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from PIL import Image

from bot.domain.errors import MissingArtifact, ResultsUnavailable, UnknownJob, UnreadableJob
from bot.domain.jobs import ImageRecord, Job, Showing
from bot.page.guard import number_of
from bot.page.house import House
from bot.page.rights import Viewer
from bot.process.threads import Threads
from bot.store.operations.gallery import Search
from bot.store.queue.search import SEARCHED

ON_A_PAGE = 24
MOST_WORDS = 200  # characters
SMALL_SIDE = 320  # pixels
QUALITY = 80
MOST_THREADS = 2


async def read_gallery(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the first ON_A_PAGE requests that fit, each with its pictures, and where the search goes on."""
    search = Search(
        words=query.get("words", "")[:MOST_WORDS],
        user_id=number_of(query.get("person", "")),
        guild_id=number_of(query.get("server", "")),
        model=query.get("model", ""),
        public="public" in query,
        channels=frozenset(map(int, channels.split(","))) if (channels := query.get("channels")) else None,
    )
    after = query.get("after", "")
    after = after if after.isascii() and after.isalnum() else ""
    found = await house.store.gallery.find(search, after=after, limit=ON_A_PAGE)
    shown = [(job, pictures_of(job)) for job in found.jobs]
    return {"jobs": shown, "query": query, "further": found.further, "searched": SEARCHED}


class Pictures:
    """Answers requests for pictures."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._threads = Threads("page pictures", most=MOST_THREADS)

    async def answer(self, request: web.Request, viewer: Viewer) -> web.Response:
        """Return a picture that the viewer may see, small with `?small`; raises HTTPNotFound without one."""
        try:
            job = await self._house.store.jobs.get(request.match_info["job"])
            if not viewer.may_see(job):
                raise web.HTTPNotFound
            names = {str(image.index): image.artifact for image in job.images}  # of a held picture: None
            name = names.get(request.match_info["index"])
        except (UnknownJob, UnreadableJob):
            raise web.HTTPNotFound from None
        return await self.file(request, name)

    async def file(self, request: web.Request, name: str | None) -> web.Response:
        """Return the picture in a file, small with `?small`; raises HTTPNotFound without one."""
        try:
            if name is None:
                raise web.HTTPNotFound
            data = await self._house.artifacts.get(name, tidy=False)
        except (MissingArtifact, ResultsUnavailable):
            raise web.HTTPNotFound from None
        if "small" not in request.query:
            return web.Response(body=data, content_type="image/png")
        return web.Response(body=await self._threads.run(small, data), content_type="image/webp")


def small(data: bytes) -> bytes:
    """Return a picture as WebP with sides of at most SMALL_SIDE pixels."""
    with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
        picture.thumbnail((SMALL_SIDE, SMALL_SIDE))
        small = io.BytesIO()
        picture.convert("RGB").save(small, "WEBP", quality=QUALITY, method=2)
    return small.getvalue()


def pictures_of(job: Job) -> list[tuple[ImageRecord, bool]]:
    """Return the pictures of a job that are shown, and whether each is shown as a spoiler."""
    shown = [image for image in job.images if image.artifact is not None]
    return [(image, image.showing is Showing.SPOILER) for image in shown]

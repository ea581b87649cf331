"""Finished pictures: the gallery that finds, compares and packs them, favourites, and their files."""

from __future__ import annotations

import asyncio
import io
import re
import time
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from bot.delivery.pictures import thumbnail
from bot.domain.errors import BotError, MissingArtifact, ResultsUnavailable, UserMistake
from bot.domain.jobs import ImageRecord, Job, Showing
from bot.domain.levels import Level
from bot.page.audit import changes, whole_text_of
from bot.page.guard import HEADERS, back, form_of, number_of
from bot.page.house import House
from bot.page.rights import YES, Viewer
from bot.process.threads import Threads
from bot.store.operations.gallery import Search
from bot.store.queue.search import SEARCHED
from bot.store.rows.audit import OPERATOR
from bot.store.rows.jobs import every_value

ON_A_PAGE = 24
MOST_WORDS, MOST_DIGITS = 200, 10  # characters, digits of a seed
SMALL_SIDE = 320  # pixels
MOST_THREADS = 2
WHOSE = ("whose", "person", "server", "channel")
SAID = (*WHOSE, "words", "model", "seed", "since", "until", "level", "starred", "after")
"""Keys of the gallery's address that people choose, and that its links and forms pass on."""
MOST_PACKED, MOST_BYTES = 100, 256 * 2**20
"""The most pictures of an archive, and the bytes from which on it takes no more."""
ARCHIVE_SECONDS = 300.0
WAIT_SECONDS, SLOWEST = 10.0, 128 * 2**10
"""How long a browser may take for a part of an archive: some seconds, and one for each SLOWEST bytes."""
MOST_ARCHIVES = 4  # at once, each of another person
LEFT_OUT = "left-out.txt"
FIRST_YEAR = 315_532_800.0  # 1980: archives know no earlier times
NAMES = MappingProxyType(
    {
        "num_inference_steps": "steps",
        "guidance_scale": "guidance",
        "init_image": "image",
        "mask_image": "mask",
        "control_image": "control",
        "loras": "lora",
    }
)
"""Values of a recipe whose options of `/imagine` have another name."""
NOT_COMPARED = frozenset({"variants", "width", "height", "second_pass"})  # the last three have other names
FIRST_CHARACTERS = 11  # of a given picture's name, which tells whether it is the same picture
_MARK = re.compile(r"([A-Za-z0-9_-]{1,16})\.([0-9])")

Mark = tuple[str, int]
"""The request and the index of a picture that somebody has marked."""


async def read_gallery(house: House, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the first ON_A_PAGE requests that fit, each with its pictures, and where the search goes on."""
    search = _search(query)
    after = query.get("after", "")
    after = after if after.isascii() and after.isalnum() else ""
    found, stars = await asyncio.gather(
        house.store.gallery.find(search, after=after, limit=ON_A_PAGE),
        house.store.favourites.of(int(query.get("viewer", "0"))),
    )
    shown = [(job, [each for each in pictures_of(job) if search.has(each[0])]) for job in found.jobs]
    limits = {"searched": SEARCHED, "most": MOST_PACKED}
    facts = {"jobs": shown, "query": query, "further": found.further, **limits}
    return {**facts, "stars": frozenset(stars), "levels": list(Level), "said": said(query), "pair": None}


def said(query: Mapping[str, str]) -> dict[str, str]:
    """Return what people have chosen in an address of the gallery."""
    return {key: query[key] for key in SAID if query.get(key)}


def _search(query: Mapping[str, str]) -> Search:
    channels, level = query.get("channels"), query.get("level", "")
    return Search(
        words=query.get("words", "")[:MOST_WORDS],
        user_id=number_of(query.get("person", "")),
        guild_id=number_of(query.get("server", "")),
        model=query.get("model", ""),
        public="public" in query,
        channels=frozenset(map(int, channels.split(","))) if channels else None,
        channel_id=number_of(query.get("channel", "")),
        seed=_seed(query.get("seed", "")),
        level=Level(level) if level in tuple(Level) else None,
        since=_midnight(query.get("since", "")),
        until=_midnight(query.get("until", ""), days=1),
        starred_by=number_of(query.get("viewer", "")) if query.get("starred") else None,
    )


def _seed(text: str) -> int | None:
    """Return the seed in a text; None for an empty text, and -1, which no picture has, for any other."""
    if not text:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else -1


def _midnight(day: str, *, days: int = 0) -> float | None:
    """Return when a day begins, or one some days later; None for a text that is no day."""
    try:
        begins = datetime.combine(date.fromisoformat(day) + timedelta(days=days), datetime.min.time(), UTC)
    except (ValueError, OverflowError):
        return None
    return begins.timestamp()


class Pictures:
    """Answers requests for pictures."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._threads = Threads("page pictures", most=MOST_THREADS)
        self._packing: set[int] = set()  # the persons of archives that are made now

    async def answer(self, request: web.Request, viewer: Viewer) -> web.Response:
        """Return a picture that the viewer may see, small with `?small`; raises HTTPNotFound without one."""
        _, image = await self._seen(viewer, request.match_info["job"], request.match_info["index"])
        return await self.file(request, image.artifact)

    async def compared(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        """Return two marked pictures and how their recipes differ.

        Raises HTTPNotFound for what the viewer may not see, UserMistake `compare_two` for other marks.
        """
        marks = marks_of(request)
        if len(marks) != 2:
            raise UserMistake("compare_two")
        pair = [await self._seen(viewer, *mark) for mark in marks]
        first, second = (_settings(job, image) for job, image in pair)
        texts = changes(first, second, text=whole_text_of)
        differing = [(name, _words(old, new), _words(new, old)) for name, old, new in texts]
        return {"pair": pair, "differing": differing, "said": said(request.query), "names": NAMES}

    async def star(self, request: web.Request, viewer: Viewer) -> web.Response:
        """Make a request that the viewer may see a favourite of theirs, or none; raises HTTPNotFound."""
        job_id, favourites = request.match_info["job"], self._house.store.favourites
        if viewer.user_id == OPERATOR or not viewer.may_see(await self._job(job_id)):
            raise web.HTTPNotFound
        if (await form_of(request)).get("star") == YES:
            await favourites.add(viewer.user_id, job_id)
        else:
            await favourites.remove(viewer.user_id, job_id)
        return back(f"/gallery?{urlencode(said(request.query))}")

    async def archive(
        self, request: web.Request, query: Mapping[str, str], again: Callable[[], Awaitable[Viewer]]
    ) -> web.StreamResponse:
        """Send an archive of the marked pictures, without a mark of those that the gallery shows for `query`.

        `again` tells who the viewer is now, before each picture. The connection is closed after
        ARCHIVE_SECONDS, and when the browser takes less than SLOWEST bytes a second. Raises UserMistake
        `archive_busy`.
        """
        person = (await again()).user_id
        if person in self._packing or len(self._packing) >= MOST_ARCHIVES:
            raise UserMistake("archive_busy")
        self._packing.add(person)
        try:
            marks = marks_of(request) or [
                (job.id, image.index)
                for job, pictures in (await read_gallery(self._house, query))["jobs"]
                for image, _ in pictures
            ]
            named = {"Content-Disposition": 'attachment; filename="pictures.zip"'}
            answer = web.StreamResponse(headers={**HEADERS, **named, "Content-Type": "application/zip"})
            answer.force_close()
            with suppress(ConnectionError):
                async with asyncio.timeout(ARCHIVE_SECONDS):
                    await answer.prepare(request)
                    async for part in self._packed(marks, again):
                        async with asyncio.timeout(WAIT_SECONDS + len(part) / SLOWEST):
                            await answer.write(part)
        except TimeoutError:  # of a browser that is too slow, or of files that cannot be read
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._packing.discard(person)
        return answer

    async def _packed(
        self, marks: Sequence[Mark], again: Callable[[], Awaitable[Viewer]]
    ) -> AsyncIterator[bytes]:
        """Yield an archive picture by picture; LEFT_OUT names those that it does not have."""
        packed, left_out = _Packed(), [_name(*mark) for mark in marks[MOST_PACKED:]]
        archive = zipfile.ZipFile(packed, "w")  # stored: PNGs are compressed
        for mark in marks[:MOST_PACKED]:
            try:
                job, image = await self._seen(await again(), *mark)
                if packed.sent >= MOST_BYTES:
                    raise MissingArtifact("The archive is full.")
                data = await self._house.artifacts.get(image.artifact or "", tidy=False)
            except (web.HTTPException, BotError):
                left_out.append(_name(*mark))
                continue
            ended = time.gmtime(max(job.finished_at or 0.0, FIRST_YEAR))
            await self._threads.run(archive.writestr, zipfile.ZipInfo(_name(*mark), ended[:6]), data)
            yield packed.taken()
        if left_out:
            archive.writestr(LEFT_OUT, "\n".join(left_out))
        archive.close()
        yield packed.taken()

    async def _job(self, job_id: str) -> Job:
        try:
            return await self._house.store.jobs.get(job_id)
        except UserMistake:  # there is none, or one that this version cannot read
            raise web.HTTPNotFound from None

    async def _seen(self, viewer: Viewer, job_id: str, index: int | str) -> tuple[Job, ImageRecord]:
        """Return a job and its picture of this index; raises HTTPNotFound where it is not for the viewer."""
        job = await self._job(job_id)
        for image, _ in pictures_of(job):
            if str(image.index) == str(index) and viewer.may_see(job):
                return job, image
        raise web.HTTPNotFound

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
        return web.Response(
            body=await self._threads.run(thumbnail, data, side=SMALL_SIDE), content_type="image/webp"
        )


def marks_of(request: web.Request) -> list[Mark]:
    """Return the pictures that are marked in a form of the gallery, each once."""
    found = map(_MARK.fullmatch, request.query.getall("picture", []))
    return list(dict.fromkeys((each[1], int(each[2])) for each in found if each))


def _name(job_id: str, index: int) -> str:
    return f"{job_id}-{index + 1}.png"


def _settings(job: Job, image: ImageRecord) -> dict[str, Any]:
    """Return all that a picture depends on, by name."""
    recipe = job.recipe.from_image(image.index)
    values = {name: value for name, value in every_value(recipe).items() if name not in NOT_COMPARED}
    values |= {field: name[:FIRST_CHARACTERS] for field, name in recipe.given.items()}
    values["size"] = f"{recipe.width}x{recipe.height}"
    if (second := recipe.second_pass) is not None:
        values["hires"] = f"{second.width}x{second.height} {second.strength:g} {second.num_inference_steps}"
    values["loras"] = [f"{lora.name} {lora.weight:g}" for lora in recipe.loras]
    values["variations"] = [f"{each.seed} {each.strength:g}" for each in recipe.variations]
    return values


def _words(text: str, other: str) -> list[tuple[str, bool]]:
    """Return the words of a text, and whether each is in the other text too."""
    others = frozenset(other.split())
    return [(word, word in others) for word in text.split()]


class _Packed(io.BytesIO):
    """What an archive has written and nobody has taken yet; `sent` bytes before that are gone."""

    sent = 0

    def tell(self) -> int:
        return self.sent + super().tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self.sent + super().seek(offset - self.sent if whence == io.SEEK_SET else offset, whence)

    def taken(self) -> bytes:
        """Return what is there, and let go of it."""
        data = self.getvalue()
        self.sent += len(data)
        super().seek(0)
        self.truncate()
        return data


def pictures_of(job: Job) -> list[tuple[ImageRecord, bool]]:
    """Return the pictures of a job that are shown, and whether each is shown as a spoiler."""
    shown = [image for image in job.images if image.artifact is not None]
    return [(image, image.showing is Showing.SPOILER) for image in shown]

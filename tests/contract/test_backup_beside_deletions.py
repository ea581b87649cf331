"""Backups while pictures are painted, deleted and lost: they have every other picture that a row names."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from backups import backed_up
from recipes import RECIPE, origin
from stores import TTL, OpenStore

from bot.backup.manifest import PICTURES, Manifest
from bot.domain.errors import MissingArtifact
from bot.files import Artifacts, Files
from bot.store import Store

pytestmark = pytest.mark.usefixtures("reflected_once")

MOST = 10  # deletions beside a backup


class Place(Artifacts):
    """A place of pictures, and the queue of their jobs."""

    def __init__(self, folder: Path, url: str, store: Store) -> None:
        super().__init__(str(folder / "artifacts"))
        self.store, self.files = store, Files(store.files, self)
        self.jobs: dict[str, str] = {}  # by the name of their picture
        self.reads: Counter[str] = Counter()
        self._url, self._backups, self._painted = url, folder / "backups", 0

    async def paint(self, picture: bytes) -> str:
        """Finish a job with this picture, and return the picture's name."""
        self._painted += 1
        job = await self.store.jobs.enqueue(RECIPE, origin(self._painted))
        (claim,) = await self.store.leases.claim("worker", limit=1, ttl=TTL)
        name = await self.files.keep(picture, "png")
        await self.store.leases.complete(claim, artifact=name, seconds=1.0)
        self.jobs[name] = job.id
        return name

    async def delete_result(self, name: str) -> None:
        """Delete the result that has this picture, as its person does."""
        await self.files.drop(await self.store.deliveries.delete_result(self.jobs.pop(name), user_id=None))

    async def back_up(self) -> Manifest:
        """Make a backup, whose files are the pictures that it names."""
        made = await backed_up(self._url, self._backups, self)
        pictures = made.folder / PICTURES
        files = {str(file.relative_to(pictures)) for file in pictures.rglob("*") if file.is_file()}
        assert files == set(made.manifest.pictures)
        return made.manifest

    async def get(self, name: str, *, tidy: bool = True) -> bytes:
        self.reads[name] += 1
        return await super().get(name, tidy=tidy)


@pytest.fixture
async def sqlite_store(sqlite_url: str) -> AsyncIterator[Store]:
    """A store with the real clock, so that a picture painted again is newer than the one before."""
    store = await Store.open(sqlite_url)
    yield store
    await store.close()


async def test_a_backup_beside_jobs_and_deletions_has_the_picture_of_every_row(
    database_url: str, open_store: OpenStore, tmp_path: Path
) -> None:
    place, number, ended = Place(tmp_path, database_url, await open_store()), 0, asyncio.Event()

    async def paint_and_delete() -> None:
        nonlocal number
        while not ended.is_set():
            number += 1
            name = await place.paint(f"picture {number}".encode())
            if number % 2:
                await place.delete_result(name)

    painting = asyncio.create_task(paint_and_delete())
    made = []
    while number < 30 or len(made) < 3:
        made.append(await place.back_up())
    ended.set()
    await painting
    for each in made:
        assert not each.lost
        assert len(each.pictures) >= each.tables["jobs"].rows // 2 - 1
    assert len(made[-1].pictures) > len(made[0].pictures)


class DeletedWhenRead(Place):
    """A place where the first `left` reads delete, or only lose, the picture, and another one is painted."""

    left = MOST
    is_row_kept = False

    async def get(self, name: str, *, tidy: bool = True) -> bytes:
        if self.left and name in self.jobs:
            self.left -= 1
            await (self.delete(name) if self.is_row_kept else self.delete_result(name))
            self.jobs.clear()
            await self.paint(f"picture {self.left}".encode())
            raise MissingArtifact(name)
        return await super().get(name, tidy=tidy)


@pytest.mark.parametrize("is_row_kept", [False, True])
async def test_only_a_picture_whose_row_is_kept_is_lost(
    is_row_kept: bool, database_url: str, open_store: OpenStore, tmp_path: Path
) -> None:
    place = DeletedWhenRead(tmp_path, database_url, await open_store())
    place.is_row_kept = is_row_kept
    await place.paint(b"the first")
    made = await place.back_up()
    assert len(made.lost) == (MOST if is_row_kept else 0)
    assert list(made.pictures) == list(place.jobs)
    assert made.tables["jobs"].rows == MOST + 1


class DeletedBeforeRead(Place):
    """A place whose picture is deleted before each of the first `left` reads, and painted again after it."""

    left = 0

    async def get(self, name: str, *, tidy: bool = True) -> bytes:
        if not self.left:
            return await super().get(name, tidy=tidy)
        self.left -= 1
        if name in self.jobs:
            await self.delete_result(name)
        try:
            return await super().get(name, tidy=tidy)
        finally:
            await self.paint(b"a picture")


@pytest.mark.parametrize("times", [1, 4, 5])
async def test_a_picture_that_is_deleted_before_each_read_and_painted_again_is_in_the_backup(
    times: int, sqlite_url: str, sqlite_store: Store, tmp_path: Path
) -> None:
    place = DeletedBeforeRead(tmp_path, sqlite_url, sqlite_store)
    name = await place.paint(b"a picture")
    place.left = times
    made = await place.back_up()
    assert (list(made.pictures), list(made.lost), place.left) == ([name], [], 0)


class BackLate(Place):
    """A place whose first `missed` reads of `late` find no file, because it is being written again.

    The result of the lost picture `other` is deleted when it is read the second time.
    """

    missed = 0
    late = other = ""

    async def get(self, name: str, *, tidy: bool = True) -> bytes:
        data = await super().get(name, tidy=tidy)
        if name == self.other and self.reads[name] == 2:
            await self.delete_result(name)
        if name == self.other or self.reads[name] <= self.missed:
            raise MissingArtifact(name)
        return data


@pytest.mark.parametrize(("missed", "is_other_lost"), [(1, False), (2, False), (2, True)])
async def test_a_picture_that_is_being_written_again_meanwhile_is_in_the_backup(
    missed: int, is_other_lost: bool, sqlite_url: str, sqlite_store: Store, tmp_path: Path
) -> None:
    place = BackLate(tmp_path, sqlite_url, sqlite_store)
    place.missed, place.late = missed, await place.paint(b"a picture")
    if is_other_lost:
        place.other = await place.paint(b"another one")
    made = await place.back_up()
    assert (list(made.pictures), list(made.lost)) == ([place.late], [])
    assert place.reads[place.late] == missed + 1, "nothing is looked for again while the database waits"

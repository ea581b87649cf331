"""The pictures of a backup: copied, or shared with the backup before, and each checked by its hash."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from bot.backup.durable import refused_by_disk, sha256_of, write_durably
from bot.backup.manifest import PICTURES, hash_in_name, picture_file
from bot.domain.errors import BackupRefused, MissingArtifact
from bot.files.artifacts import Artifacts, is_name
from bot.process.threads import Threads

AT_ONCE = 8


async def collect(
    folder: Path, names: Collection[str], artifacts: Artifacts, *, earlier: Path | None
) -> set[str]:
    """Bring the pictures into the backup in `folder`; return the names of those that are gone or damaged.

    Raises BackupRefused where the disk does not take them, and StoreUnavailable where they cannot be read.
    `earlier` is a complete backup on the same disk: the file of an unchanged picture is shared with it.
    """
    threads = Threads("backup", most=AT_ONCE)
    missing = {name for name in names if not is_name(name)}
    names = set(names) - missing
    make_folders(folder, names)

    async def bring(name: str) -> None:
        file = picture_file(folder, name)
        if earlier is not None and await threads.run(_shared, picture_file(earlier, name), file, name):
            return
        try:
            data = await artifacts.get(name, tidy=False)  # a backup may read where it may not delete
        except MissingArtifact:
            missing.add(name)
        else:
            await threads.run(write_durably, file, data)

    await for_each(sorted(names), bring)
    return missing


async def bring_back(folder: Path, names: Collection[str], artifacts: Artifacts) -> None:
    """Store a backup's pictures in their place; raises BackupRefused for an unreadable or damaged one."""
    threads = Threads("backup", most=AT_ONCE)

    async def bring(name: str) -> None:
        data = await threads.run(_read, picture_file(folder, name))
        if await artifacts.put(data, name.rpartition(".")[2]) != name:
            raise BackupRefused(f"The picture {name} in {folder} is damaged: restore another backup.")

    await for_each(sorted(names), bring)


def make_folders(folder: Path, names: Collection[str]) -> None:
    """Make the folders of pictures in a backup; raises BackupRefused."""
    with refused_by_disk(folder, "written"):
        for parent in (folder / PICTURES, *{picture_file(folder, name).parent for name in names}):
            parent.mkdir(mode=0o700, exist_ok=True)


async def for_each(names: Collection[str], act: Callable[[str], Awaitable[None]]) -> None:
    """Await `act` of each name, AT_ONCE of them at a time; the first error ends all."""
    left = iter(names)

    async def work() -> None:
        for name in left:
            await act(name)

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(work())
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group


def _read(file: Path) -> bytes:
    with refused_by_disk(file, "read"):
        return file.read_bytes()


def _shared(earlier: Path, file: Path, name: str) -> bool:
    """Make `file` a hard link to the `earlier` file; return False where that is damaged or impossible."""
    try:
        if sha256_of(earlier) != hash_in_name(name):
            return False  # a damage must not go from backup to backup
        os.link(earlier, file)
    except OSError:  # it is not there, or the disk has no hard links
        return False
    return True

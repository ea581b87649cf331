"""Paths of this machine: whether something is there, which the bot writes to, and the space left for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from bot.config import Config
from bot.domain.errors import ConfigurationError
from bot.files.artifacts import open_place
from sdjax_engine.errors import in_bytes

LEAST_FREE = 2 * 2**30


@dataclass(frozen=True, kw_only=True)
class Disk:
    """A disk that the bot writes to, by one of its folders, and how many bytes are free."""

    folder: Path
    free: int

    @property
    def is_short(self) -> bool:
        """Whether so little is left that work will fail soon."""
        return self.free < LEAST_FREE

    def __str__(self) -> str:
        left = in_bytes(self.free)
        if self.is_short:
            return f"only {left} are left beside {self.folder}: free {in_bytes(LEAST_FREE)}."
        return f"{left} are left beside {self.folder}."


def disks_of(config: Config) -> Iterator[Disk]:
    """Yield each disk that the configuration's folders are on. A disk of the network may hang."""
    seen: dict[int, Path] = {}
    for folder in folders(config):
        there = nearest(folder)
        seen.setdefault(there.stat().st_dev, there)
    for there in seen.values():
        yield Disk(folder=there, free=shutil.disk_usage(there).free)


def folders(config: Config) -> Iterable[Path]:
    """Yield the folders of this machine that the bot writes to, there or not."""
    if file := database_file(config):
        yield file.parent
    if local := local_folder(config.queue.artifacts):
        yield local
    if config.engine.cache_dir:
        yield Path(config.engine.cache_dir).absolute()
    if config.provenance.sign and not config.provenance.certificate:
        yield Path(config.provenance.folder).absolute()


def database_file(config: Config) -> Path | None:
    """Return the file of the queue on SQLite; None for a server."""
    scheme, _, rest = config.queue.database.partition(":///")
    return Path(rest.partition("?")[0]).absolute() if scheme.startswith("sqlite") else None


def local_folder(url: str) -> Path | None:
    """Return the folder of an address of this machine; None for another."""
    try:
        files, root = open_place(url)
    except ConfigurationError:
        return None
    return Path(root) if isinstance(files, LocalFileSystem) else None


def nearest(path: Path) -> Path:
    """Return `path`, or the nearest folder above it that exists."""
    return next((each for each in (path, *path.parents) if is_path(Path.exists, each)), Path("/"))


def is_path(kind: Callable[[Path], bool], source: str | Path) -> bool:
    """Return whether there is a file of this kind that can be reached; a text that can be no path is none."""
    try:
        return kind(Path(source).expanduser())
    except (OSError, RuntimeError, ValueError):  # too long or closed, the home of nobody, a null character
        return False

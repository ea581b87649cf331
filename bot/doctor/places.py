"""The place for pictures, the space on disks, and who may read secrets."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from bot.app.local_paths import database_file, disks_of, is_path, local_folder, nearest
from bot.app.named_files import (
    mistakes_in_files,
    mistakes_in_opened_watermark,
    mistakes_in_watermark,
)
from bot.app.tracing import mistakes_in_tracing
from bot.config import Config
from bot.doctor.findings import Finding, well, wrong
from bot.files.artifacts import open_place
from bot.process.private_files import OTHERS
from bot.process.threads import in_thread
from bot.store.database.postgresql_server import has_password
from bot.telemetry.redaction import redact

PICTURES, DISK, MODES, FILES, TRACES = "pictures", "disk", "modes", "files", "traces"
_WORDS = b"sdjax-bot doctor"


async def pictures(url: str) -> AsyncIterator[Finding]:
    """Write, read, rename and delete a small file where pictures are kept."""
    yield await in_thread(lambda: _tried(url), PICTURES)


def _tried(url: str) -> Finding:
    place = redact(url)
    files, root = open_place(url)
    if isinstance(files, LocalFileSystem) and not is_path(Path.exists, root):
        folder = nearest(Path(root))
        if not takes_files(folder):
            return wrong(f"{place} cannot be made in {folder}: give that to the bot's user.")
        return well(f"{place} is not there yet: the first start makes it.")
    return _in_place(files, root, place)


def _in_place(files: Any, root: str, place: str) -> Finding:
    first, second = (f"{root}/.doctor-{secrets.token_hex(8)}" for _ in range(2))
    step = "written"
    try:
        files.pipe_file(first, _WORDS)
        step = "read"
        if bytes(files.cat_file(first)) != _WORDS:
            return wrong(f"{place} gives other bytes than were written: look at its disk or cache.")
        step = "renamed"
        files.mv(first, second)
        first = second
        step = "deleted"
        files.rm_file(second)
    except Exception as error:  # noqa: BLE001 - clients of object stores have errors of their own kinds
        words = (getattr(error, "strerror", None) or str(error)).partition("\n")[0] or type(error).__name__
        _remove(files, first)
        return wrong(f"{place} cannot be {step}: {words}. Check its permissions, or credentials.")
    return well(f"{place} can be written, read, renamed and deleted.")


def _remove(files: Any, name: str) -> None:
    try:
        files.rm_file(name)
    except Exception:  # noqa: BLE001 - it may not be there, and the place has failed already
        return


async def disks(config: Config) -> AsyncIterator[Finding]:
    """Say how much space the disks have that the configuration's folders are on."""
    # A disk of the network may hang: that must not stop the event loop.
    for disk in await in_thread(lambda: list(disks_of(config)), DISK):
        yield wrong(str(disk)) if disk.is_short else well(str(disk))


def takes_files(folder: Path) -> bool:
    """Return whether a file can be created in `folder`, by trying: the mode does not tell on every disk."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


async def files(config: Config, *, front: bool) -> AsyncIterator[Finding]:
    """Say what is wrong with the files that the configuration names; without `front`, those of a worker."""
    mistakes = await in_thread(lambda: _in_files(config, front=front), FILES)
    for mistake in mistakes:
        yield wrong(mistake)
    if not mistakes:
        yield well("the files of tokens, certificates and keywords can be used.")


def _in_files(config: Config, *, front: bool) -> list[str]:
    watermark = [*mistakes_in_watermark(config), *mistakes_in_opened_watermark(config)] if front else []
    return [*mistakes_in_files(config, front=front), *watermark]


async def traces(config: Config) -> AsyncIterator[Finding]:
    """Say whether traces can be exported, if the configuration wants them."""
    mistakes = mistakes_in_tracing(config.traces, os.environ)
    for mistake in mistakes:
        yield wrong(mistake)
    if config.traces.export and not mistakes:
        yield well("they can be exported; no collector was asked.")


async def modes(config: Config, file: Path | None, files: Sequence[Path] = ()) -> AsyncIterator[Finding]:
    """Say which files and folders with secrets other users can read; the arguments are those of `examine`."""
    problems = await in_thread(lambda: _problems(config, file, files), MODES)
    for problem in problems:
        yield wrong(problem)
    if not problems:
        yield well("no other user reads the secrets, the queue or the pictures.")


def _problems(config: Config, file: Path | None, files: Sequence[Path]) -> list[str]:
    return [problem for path in (*_secret(config, file), *files) if (problem := _problem(path))]


def _secret(config: Config, file: Path | None) -> Iterable[Path]:
    for named in (config.discord.token_file, config.web.token_file, config.provenance.private_key):
        if named:
            yield Path(named)
    if file is not None and has_password(config.queue.database):
        yield file
    if queue := database_file(config):
        yield queue
    if (local := local_folder(config.queue.artifacts)) is not None:
        yield local
    if config.provenance.sign and not config.provenance.certificate:
        yield Path(config.provenance.folder)


def _problem(path: Path) -> str | None:
    """Return what to do about a file or folder; None where it is well, or not there yet."""
    try:
        found = path.stat()
    except (FileNotFoundError, ValueError):  # a null character; `files` reports it
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # no file, maybe a secret in its place; `files` reports it
            return None
        return f"{path} cannot be looked at: {error.strerror}."
    # The bot may use a file of another owner through its group, such as a mounted secret or volume.
    own = found.st_uid == os.getuid()
    if not found.st_mode & OTHERS & ~(0 if own else stat.S_IRWXG):
        return None
    if own:
        return f"other users can read {path}: chmod {'700' if path.is_dir() else '600'} {path}"
    mode = "770" if path.is_dir() else "640"
    return f"other users can read {path}: chgrp {os.getgid()} {path} && chmod {mode} {path}"

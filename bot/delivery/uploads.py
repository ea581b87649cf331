"""The files of a message: read from where results are kept, and made smaller until Discord takes them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import discord

from bot.delivery.content import MessageContent
from bot.delivery.pictures import PictureFile, fit_and_sign
from bot.delivery.refusals import DeliveryDelayed, FilesGone
from bot.errors import MissingArtifact, StoreUnavailable
from bot.files.artifacts import Artifacts
from bot.jobs import Job
from bot.provenance.signing import Signing
from bot.threads import Threads

FITTED_AT_ONCE = 2  # few, since each grid takes memory
MIB = 1024 * 1024
ENVELOPE = 64 * 1024  # bytes of a request beside its file: the layout, and the multipart frame
MAX_REQUEST = 25 * MIB - ENVELOPE
DIRECT_LIMIT = discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES
KNOWN_LIMITS = (50 * MIB, MAX_REQUEST, DIRECT_LIMIT)  # of boosted servers, of requests, of all other places


class Uploads:
    """Reads the pictures of messages from `artifacts`, and makes files of them, which `signing` signs."""

    def __init__(self, artifacts: Artifacts, signing: Signing | None = None) -> None:
        self._artifacts = artifacts
        self._signing = signing or Signing()
        self._threads = Threads("pictures", most=FITTED_AT_ONCE)
        self._quick_threads = Threads("manifests", most=FITTED_AT_ONCE)  # manifests do not wait for grids

    async def load(self, content: MessageContent) -> list[list[bytes]]:
        """Return the files of each picture to show; raises FilesGone, DeliveryDelayed for a failing disk."""
        files: dict[str, bytes] = {}
        gone = []
        for name in [name for picture in content.pictures for name in picture.artifacts]:
            try:
                files[name] = await self._artifacts.get(name)
            except MissingArtifact:
                gone.append(name)
            except StoreUnavailable as error:
                raise DeliveryDelayed(str(error)) from error
        if gone:
            raise FilesGone(gone)
        return [[files[name] for name in picture.artifacts] for picture in content.pictures]

    async def fit(
        self, content: MessageContent, pictures: Sequence[Sequence[bytes]], limit: int
    ) -> list[PictureFile]:
        """Return a file for each picture of `content`, from the files of `load`, in all of `limit` bytes."""
        whole = sum(len(file) for picture in pictures for file in picture)
        return [
            await self._fitted(files, limit * sum(map(len, files)) // whole, picture.first)
            for picture, files in zip(content.pictures, pictures, strict=True)
        ]

    async def _fitted(self, files: Sequence[bytes], limit: int, first: int) -> PictureFile:
        single = len(files) == 1 and len(files[0]) <= limit - self._signing.room
        if single and not self._signing:
            return PictureFile(data=files[0], suffix=".png")
        threads = self._quick_threads if single else self._threads
        return await threads.run(functools.partial(fit_and_sign, files, limit, self._signing, first=first))


def size_of(files: Sequence[PictureFile]) -> int:
    """Return the bytes of all files together."""
    return sum(len(file.data) for file in files)


def next_limit(size: int) -> int:
    """Return the limit to try after files of `size` bytes: the next lower limit of Discord, or half."""
    return max((limit for limit in KNOWN_LIMITS if limit < size), default=size // 2)


def limit_of(client: discord.Client, job: Job) -> int:
    """Return the file limit of the job's server in bytes; of an unknown server, the limit of direct messages.

    The server's boosts determine the limit. The limit in an interaction includes the person's subscription,
    which does not apply to a bot's uploads.
    """
    guild = client.get_guild(job.origin.guild_id) if job.origin.guild_id else None
    return min(guild.filesize_limit, MAX_REQUEST) if guild else DIRECT_LIMIT

"""The files of a message: read from where results are kept, and made smaller until Discord takes them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import discord

from bot.delivery.content import MessageContent, PictureContent
from bot.delivery.pictures import PictureFile, fit_and_sign
from bot.delivery.refusals import DeliveryDelayed, FilesGone
from bot.domain.errors import MissingArtifact, PictureUnsigned, StoreUnavailable
from bot.files.artifacts import Artifacts
from bot.process.threads import Threads
from bot.provenance.signing import Signing

GIVEN_SHARE = 512 * 1024  # bytes that a given picture counts at most, as it is made small
FITTED_AT_ONCE = 2  # few, since each grid takes memory
MIB = 1024 * 1024
ENVELOPE = 64 * 1024  # bytes of a request beside its file: the layout, and the multipart frame
MAX_REQUEST = 25 * MIB - ENVELOPE
FILE_LIMIT = 20 * MIB  # of every place since September 2026; discord.py still has 10 MiB
SURE_LIMIT = 10 * MIB  # no place takes less
KNOWN_LIMITS = (50 * MIB, MAX_REQUEST, FILE_LIMIT, 20_000_000, SURE_LIMIT)  # boosted, requests, all places
LEARNED_SECONDS, MOST_LEARNED = 6 * 3600.0, 10_000


class UploadLimits:
    """The sizes of files that each place takes: Discord's limits, lowered for a while by its refusals.

    A place is the id of a channel, or of a person for direct messages.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._learned: dict[int, tuple[int, float]] = {}  # by place: the limit, and until when it holds

    def of(self, place: int, guild: discord.Guild | None = None) -> int:
        """Return the limit of a place, in a server or outside, in bytes.

        The server's boosts determine the limit. The limit in an interaction includes the person's
        subscription, which does not apply to a bot's uploads.
        """
        limit = min(max(guild.filesize_limit, FILE_LIMIT), MAX_REQUEST) if guild else FILE_LIMIT
        learned, until = self._learned.get(place, (limit, 0.0))
        return min(limit, learned) if self._clock() < until else limit

    def refused(self, place: int, size: int) -> int:
        """Note that a place refused `size` bytes, and return the next limit to try there."""
        limit = next_limit(size)
        if limit >= SURE_LIMIT:
            self._learned.pop(place, None)
            self._learned[place] = limit, self._clock() + LEARNED_SECONDS
            while len(self._learned) > MOST_LEARNED:
                del self._learned[next(iter(self._learned))]
        return limit


class Uploads:
    """Reads the pictures of messages from `artifacts`, and makes files of them, which `signing` signs."""

    def __init__(self, artifacts: Artifacts, signing: Signing | None = None) -> None:
        self._artifacts = artifacts
        self._signing = signing or Signing()
        self._threads = Threads("pictures", most=FITTED_AT_ONCE)
        self._quick_threads = Threads("manifests", most=FITTED_AT_ONCE)  # manifests do not wait for grids

    async def without_gone(self, content: MessageContent) -> MessageContent:
        """Return `content` without given pictures whose files are gone; raises DeliveryDelayed as `load`."""
        try:
            return await without_gone(content, self._artifacts)
        except StoreUnavailable as error:
            raise DeliveryDelayed(str(error)) from error

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
        """Return a file for each picture of `content`, from the files of `load`, in all of `limit` bytes.

        Raises DeliveryDelayed for a picture that must be signed and cannot be.
        """
        both = list(zip(content.pictures, pictures, strict=True))
        shares = [min(sum(map(len, files)), GIVEN_SHARE if one.given else limit) for one, files in both]
        try:
            return [
                await self._fitted(files, limit * share // sum(shares), picture)
                for (picture, files), share in zip(both, shares, strict=True)
            ]
        except PictureUnsigned as error:
            raise DeliveryDelayed(str(error)) from error

    async def _fitted(self, files: Sequence[bytes], limit: int, picture: PictureContent) -> PictureFile:
        single = len(files) == 1 and len(files[0]) <= limit - self._signing.room and not picture.given
        if single and not self._signing:
            return PictureFile(data=files[0], suffix=".png")
        threads = self._quick_threads if single else self._threads
        how = functools.partial(fit_and_sign, first=picture.first, given=picture.given)
        return await threads.run(how, files, limit, self._signing)


async def without_gone(content: MessageContent, artifacts: Artifacts) -> MessageContent:
    """Return `content` without the given pictures whose files are gone; raises StoreUnavailable."""
    kept = []
    for picture in content.pictures:
        with suppress(MissingArtifact):
            for name in picture.artifacts if picture.given else ():
                await artifacts.get(name)
            kept.append(picture)
    return replace(content, pictures=tuple(kept))


def size_of(files: Sequence[PictureFile]) -> int:
    """Return the bytes of all files together."""
    return sum(len(file.data) for file in files)


def next_limit(size: int) -> int:
    """Return the limit to try after files of `size` bytes: the next lower limit of Discord, or half."""
    return max((limit for limit in KNOWN_LIMITS if limit < size), default=size // 2)

"""Perceptual hashes of what a worker paints and starts from, and whether pictures like these are blocked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bot.domain.errors import StartRefused
from bot.domain.hashes import hash_of_file, hash_of_pixels
from bot.domain.jobs import Claim
from bot.process.retries import while_unavailable
from bot.process.threads import Threads
from bot.store.moderation.known import Known

START_KNOWN = "start_known"
KEPT = 32  # hashes; few suffice, as the images of a job begin soon after each other


@dataclass(frozen=True, kw_only=True)
class Found:
    """The hash of a picture, and whether the picture is like a blocked one."""

    hash: int
    blocked: bool


class KnownPictures:
    """Hashes pictures outside the event loop; a look-up is retried for about `retry_seconds`."""

    def __init__(self, known: Known, *, retry_seconds: float) -> None:
        self._known = known
        self._retry_seconds = retry_seconds
        self._threads = Threads("hashes", most=1)
        self._starts: dict[str, int] = {}

    async def look_up(self, claim: Claim, pixels: npt.NDArray[np.uint8]) -> Found:
        """Return what is known of a painted picture; raises StoreUnavailable."""
        number = await self._threads.run(hash_of_pixels, pixels)
        return Found(hash=number, blocked=await self._is_blocked(claim, number))

    async def check_start(self, claim: Claim, picture: bytes | None) -> int | None:
        """Return the hash of the cleaned file that an image starts from; None without one.

        Raises StartRefused for a picture that is like a blocked one, and StoreUnavailable.
        """
        if picture is None or claim.init_image is None:
            return None
        number = await self._hash_of_start(claim.init_image, picture)
        if await self._is_blocked(claim, number):
            raise StartRefused("The start picture is like a blocked one.", failure=START_KNOWN)
        return number

    async def _hash_of_start(self, name: str, picture: bytes) -> int:
        number = self._starts.get(name)
        if number is None:
            number = self._starts[name] = await self._threads.run(hash_of_file, picture)
            while len(self._starts) > KEPT:
                del self._starts[next(iter(self._starts))]
        return number

    async def _is_blocked(self, claim: Claim, number: int) -> bool:
        async def look() -> bool:
            blocking, refused = self._known.blocking, self._known.is_refused
            return await blocking(claim.guild_id, number) is not None or await refused(claim.guild_id, number)

        return await while_unavailable(self._retry_seconds, look)

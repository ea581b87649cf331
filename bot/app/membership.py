"""This process among those that share the queue: it joins, is heard of, and leaves.

Two processes never work under one name, and none starts that keeps results where the others do not look.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bot.config import Config
from bot.errors import ConfigurationError, NameTaken, StoreUnavailable
from bot.names import take_name
from bot.places import place_of
from bot.store.processes import Living, Process
from bot.store.store import Store
from bot.threads import in_uninterruptible_thread

log = logging.getLogger(__name__)

BEAT_SECONDS = 5.0
LIFE_SECONDS = 20.0  # without a beat, after which a process is taken for dead
FRONTS = ("front", "both")  # the roles that speak with Discord


class Membership:
    """The place of one process among the others; `beat_seconds` and `life_seconds` as above."""

    def __init__(
        self,
        store: Store,
        process: Process,
        *,
        beat_seconds: float = BEAT_SECONDS,
        life_seconds: float = LIFE_SECONDS,
    ) -> None:
        self._store = store
        self._process = process
        self._beat_seconds = beat_seconds
        self._life_seconds = life_seconds
        self._fronts = 1

    @property
    def fronts(self) -> int:
        """How many fronts live, as far as is known; 1 at least."""
        return self._fronts

    @property
    def name(self) -> str:
        """What this process is called."""
        return self._process.name

    async def join(self) -> None:
        """Be counted among the living.

        One that keeps results elsewhere is in the way only if it lives: that shows with its next beat. Raises
        ConfigurationError where it does, NameTaken where a stranger bears our name.
        """
        seen: dict[str, float] = {}
        while misfits := await self._store.members.join(self._process, ttl=self._life_seconds):
            for other in misfits:
                if other.expires_at > seen.setdefault(other.name, other.expires_at):
                    raise ConfigurationError(_misfit(self._process, other))
            await asyncio.sleep(self._beat_seconds / 5)

    async def run(self) -> None:
        """Be heard of for ever, and leave to the others what the dead have left.

        The dead are looked for only by who was heard of itself for a whole life: after a stop of them all,
        or of the database, the first to be back is not the last. Raises NameTaken like `join`.
        """
        beats = 0
        while True:
            await asyncio.sleep(self._beat_seconds)
            try:
                if not await self._store.members.beat(self._process, ttl=self._life_seconds):
                    log.warning("this process was taken for dead, and what it had was left to others")
                    await self.join()
                    beats = 0
                beats += 1
                living = await self._store.members.living()
                self._fronts = max(1, sum(other.role in FRONTS for other in living))
                if beats * self._beat_seconds > self._life_seconds:
                    for name in await self._store.members.release_dead():
                        log.warning("%s is gone, and what it had is left to others", name)
            except StoreUnavailable as error:
                log.error("this process cannot be heard of: %s", error)
                beats = 0

    async def leave(self) -> None:
        """Count no more among the living."""
        try:
            await self._store.members.leave(self._process)
        except StoreUnavailable as error:
            log.warning("the others will find out by themselves that this process has gone: %s", error)


@asynccontextmanager
async def joined(config: Config, store: Store, role: str) -> AsyncIterator[Membership]:
    """A membership under the first name of this host that no other living process has, until left.

    Raises ConfigurationError where the others keep results in another place.
    """
    place = await in_uninterruptible_thread(lambda: place_of(config.queue.artifacts))
    async with AsyncExitStack() as stack:
        first = 1
        while True:
            name = stack.enter_context(take_name(config.queue.database, role, first=first))
            process = Process(
                name=name.name, secret=name.secret, role=role, machine=socket.gethostname(), place=place
            )
            membership = Membership(store, process)
            try:
                await membership.join()
            except NameTaken:  # by another machine of the same name, or in another container
                first = name.number + 1
            else:
                break
        try:
            yield membership
        finally:
            await membership.leave()


def _misfit(ours: Process, other: Living) -> str:
    where = "on this machine" if other.machine == ours.machine else f"on {other.machine}"
    return (
        f"{other.name} ({other.role}, {where}) keeps results in another place than this process would: let "
        "queue.artifacts name one that all of them reach, such as s3://BUCKET/FOLDER or a shared folder."
    )

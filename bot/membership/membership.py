"""The membership of this process: it joins the queue, sends heartbeats, and leaves."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bot.config import Config
from bot.domain.errors import ConfigurationError, NameTaken, StoreUnavailable
from bot.membership.folders import folder_id
from bot.membership.names import take_name
from bot.membership.processes import LivingProcess, Process, Processes
from bot.process.threads import in_uninterruptible_thread
from bot.telemetry.metrics import WELL

log = logging.getLogger(__name__)

BEAT_SECONDS = 5.0
TTL_SECONDS = 20.0  # a process without a heartbeat for this long counts as dead
FRONTS = ("front", "both")  # the roles that are connected to Discord


class Membership:
    """One process among `processes`; `beat_seconds` and `ttl_seconds` are as above."""

    def __init__(
        self,
        processes: Processes,
        process: Process,
        *,
        beat_seconds: float = BEAT_SECONDS,
        ttl_seconds: float = TTL_SECONDS,
    ) -> None:
        self._processes = processes
        self._process = process
        self._beat_seconds = beat_seconds
        self._ttl_seconds = ttl_seconds
        self._fronts = 1
        self._answer = WELL

    async def health(self) -> str:
        """Return "well", or why the last heartbeat was not written: a database may be read-only."""
        return self._answer

    @property
    def fronts(self) -> int:
        """How many fronts were alive at the last heartbeat; at least 1."""
        return self._fronts

    @property
    def name(self) -> str:
        """The name of this process."""
        return self._process.name

    async def join(self) -> None:
        """Join the living processes.

        A process with another folder of results may be dead, so `join` waits for its next heartbeat or for
        the end of its TTL. Raises ConfigurationError after its heartbeat, and NameTaken where a living
        process on another machine has the same name.
        """
        expiries: dict[str, float] = {}
        while others := await self._processes.join(self._process, ttl=self._ttl_seconds):
            for other in others:
                if other.expires_at > expiries.setdefault(other.name, other.expires_at):
                    raise ConfigurationError(_other_folder(self._process, other))
            await asyncio.sleep(self._beat_seconds / 5)

    async def run(self) -> None:
        """Send heartbeats until cancelled, and release the jobs of dead processes.

        Raises NameTaken and ConfigurationError like `join`.
        """
        # Reap dead processes only after beating for one whole TTL, so that the first process back after an
        # outage does not reap the others.
        beats = 0
        while True:
            await asyncio.sleep(self._beat_seconds)
            try:
                if not await self._processes.beat(self._process, ttl=self._ttl_seconds):
                    log.warning("this process counted as dead, and its jobs were released: it joins again")
                    await self.join()
                    beats = 0
                beats += 1
                living = await self._processes.living()
                self._fronts = max(1, sum(other.role in FRONTS for other in living))
                if beats * self._beat_seconds > self._ttl_seconds:
                    for name in await self._processes.release_dead():
                        log.warning("%s is dead, and its jobs were released", name)
                self._answer = WELL
            except StoreUnavailable as error:
                log.error("no heartbeat of this process: %s", error)
                beats, self._answer = 0, str(error)

    async def leave(self) -> None:
        """Leave the living processes."""
        try:
            await self._processes.leave(self._process)
        except StoreUnavailable:  # the outage's line says why; naming the error here would drop this line
            log.warning("this process could not leave the queue, and counts as dead in a while")


@asynccontextmanager
async def joined(config: Config, processes: Processes, role: str) -> AsyncIterator[Membership]:
    """Join under the first name of this host that no other living process has; leave at the end.

    Raises ConfigurationError where the living processes keep results in another folder.
    """
    folder = await in_uninterruptible_thread(lambda: folder_id(config.queue.artifacts))
    async with AsyncExitStack() as stack:
        first = 1
        while True:
            name = stack.enter_context(take_name(config.queue.database, role, first=first))
            process = Process(
                name=name.name, secret=name.secret, role=role, machine=socket.gethostname(), folder=folder
            )
            membership = Membership(processes, process)
            try:
                await membership.join()
            except NameTaken:  # a machine of the same name, or another container, has it
                first = name.number + 1
            else:
                break
        try:
            yield membership
        finally:
            await membership.leave()


def _other_folder(ours: Process, other: LivingProcess) -> str:
    where = "on this machine" if other.machine == ours.machine else f"on {other.machine}"
    return (
        f"{other.name} ({other.role}, {where}) keeps results in another place than this process would: let "
        "queue.artifacts name one that all of them reach, such as s3://BUCKET/FOLDER or a shared folder."
    )

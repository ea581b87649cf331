"""The outbox: sends every message that is due, and stores how it ended, whatever dies in between.

Each kind of messages says how one is claimed, sent and settled. A message that is sent again is searched for
before it is posted, so a crash between sending and settling shows nothing twice. While the store cannot be
written, only the settling of what was sent is retried.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from bot.delivery.refusals import DeliveryDelayed
from bot.domain.errors import DeliveryRefused, StoreUnavailable
from bot.domain.outbox import Due
from bot.store.database.database import WakeUp
from bot.store.rows.outbox import OutboxVerbs
from bot.telemetry.metrics import WELL

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
LONGEST_WAIT = 300.0
LONGEST_PUT_OFF = 600.0  # also the limit of Discord's Retry-After; well below the store's FURTHEST_RETRY
SILENCE_SECONDS = 60.0
MAX_ATTEMPTS = 105  # the waits between them take at least four hours, six on average
LATER, GAVE_UP = "later", "gave_up"

D = TypeVar("D", bound=Due)
S = TypeVar("S", bound="HasOutcome")


def backoff(attempts: int, jitter: float) -> float:
    """Return the seconds to wait after `attempts` failures; `jitter`, in [0, 1), spreads the retries."""
    return min(LONGEST_WAIT, 2.0 ** min(attempts, 10)) * (0.5 + jitter / 2)


class HasOutcome(Protocol):
    """What was sent, with the outcome to store."""

    @property
    def outcome(self) -> str:
        """The outcome."""


class Outbox(ABC, Generic[D, S]):
    """Sends the messages of one kind that are due for `front`, several at once.

    `name` is that of a message in the log; it may name fields of `due`. `at_once` are sent at the same time.
    Messages of a kind that `gives_up` end after MAX_ATTEMPTS.
    """

    name: str
    at_once: int
    gives_up = True

    def __init__(
        self, verbs: OutboxVerbs[D], wake_up: WakeUp, *, front: str, clock: Callable[[], float]
    ) -> None:
        self._verbs = verbs
        self._wake_up = wake_up
        self._front = front
        self._clock = clock
        self._read_at = time.monotonic()
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._claiming = asyncio.Lock()

    @abstractmethod
    async def send(self, due: D) -> S:
        """Send a message, or edit it; return what was sent.

        Raises DeliveryRefused with the outcome to store, or DeliveryDelayed.
        """

    @abstractmethod
    async def settle(self, due: D, outcome: str, sent: S | None) -> None:
        """Store how a message ended; nothing was `sent` where it was refused or given up."""

    async def run(self) -> None:
        """Send until cancelled; a message that is cancelled is sent again by the next start."""
        try:
            while True:
                if not await self._start_some():
                    await self._wake_up.wait(POLL_SECONDS)
        finally:
            await _cancelled(list(self._sending.values()))

    async def health(self) -> str:
        """Return "well", or why no messages are read."""
        silence = time.monotonic() - self._read_at
        return WELL if silence < SILENCE_SECONDS else f"the outbox was last read {silence:.0f} s ago"

    async def flush(self, *, seconds: float) -> None:
        """Wait until every message that is due now is sent, for at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while await self._start_some() or self._sending:
                    await self._one_sent()
        except TimeoutError:
            if self._sending:
                log.warning("%d messages wait for the next start to be delivered", len(self._sending))
            else:
                log.warning("the outbox could not be read: messages that are due wait for the next start")

    async def _start_some(self) -> bool:
        """Begin to send the messages that are due; False if none is, or if the store cannot be read.

        Only one claim runs at a time: `flush` runs beside `run`, and the second of two claims would take the
        messages of the first.
        """
        async with self._claiming:
            room = self.at_once - len(self._sending)
            if room <= 0:
                await self._one_sent()
                return True
            try:
                new = await self._verbs.claim(self._front, limit=room, held=[*self._sending])
            except StoreUnavailable as error:
                log.error("the outbox cannot be read: %s", error)
                return False
            self._read_at = time.monotonic()
            for due in new:
                task = asyncio.create_task(self._attempt(due), name=f"delivery {due.id}")
                self._sending[due.id] = task
                task.add_done_callback(functools.partial(self._sent, due.id))
            return bool(new)

    async def _one_sent(self) -> None:
        """Wait until one of the running attempts has ended; return at once where none runs."""
        if self._sending:
            await asyncio.wait(list(self._sending.values()), return_when=asyncio.FIRST_COMPLETED)

    def _sent(self, row_id: int, _task: asyncio.Task[None]) -> None:
        self._sending.pop(row_id, None)

    async def _attempt(self, due: D) -> None:
        """Send one message; an error affects this message only."""
        try:
            await self._try(due)
        except StoreUnavailable as error:
            log.error("the delivery of %s cannot be recorded: %s", self.name.format(due=due), error)
            await asyncio.sleep(POLL_SECONDS)

    async def _try(self, due: D) -> str:
        """Send one message, and return the outcome that is stored, or LATER."""
        name = self.name.format(due=due)
        try:
            sent = await self.send(due)
        except DeliveryRefused as error:
            log.warning("%s cannot be delivered: %s", name, error.outcome)
            return await self._settled(due, error.outcome, None)
        except (DeliveryDelayed, StoreUnavailable) as error:
            log.warning("%s is delivered later: %s", name, error)
            return await self._postpone(due, getattr(error, "seconds", 0.0))
        except Exception:
            log.exception("%s could not be sent, because of an unexpected error; it is tried again", name)
            return await self._postpone(due)
        return await self._settled(due, sent.outcome, sent)

    async def _settled(self, due: D, outcome: str, sent: S | None) -> str:
        """Store how a message ended, as soon as the store can be written; return the outcome."""
        while True:
            try:
                await self.settle(due, outcome, sent)
            except StoreUnavailable as error:
                name = self.name.format(due=due)
                log.error("the delivery of %s cannot be recorded: %s", name, error)
                await asyncio.sleep(POLL_SECONDS)
            else:
                return outcome

    async def _postpone(self, due: D, seconds: float = 0.0) -> str:
        if self.gives_up and (made := due.attempts + 1) >= MAX_ATTEMPTS:
            log.error("%s is given up after %d attempts", self.name.format(due=due), made)
            return await self._settled(due, GAVE_UP, None)
        wait = backoff(due.attempts, random.random())  # noqa: S311 - spreads load, guards nothing
        # A later retry time would mean that the clock was set back, and be due at once. While Discord's rate
        # limit holds, the rate guard delays each attempt without a request.
        wait = min(max(wait, seconds), LONGEST_PUT_OFF)
        await self._verbs.retry(due, at=self._clock() + wait)
        return LATER


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

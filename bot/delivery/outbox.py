"""The outbox: sends every message that is due, and stores how it ended, whatever dies in between.

Each kind of messages says how one is claimed, sent and settled. A message that is sent again is searched for
before it is posted, so a crash between sending and settling shows nothing twice. If a message was sent and
not settled, only the settling is retried.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from bot.delivery.refusals import DeliveryDelayed
from bot.domain.errors import DeliveryRefused, StoreUnavailable
from bot.domain.outbox import Due
from bot.store.database.database import WakeUp
from bot.store.rows.outbox import OutboxVerbs
from bot.telemetry.metrics import WELL
from bot.telemetry.tracing import Stages

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
LONGEST_WAIT = 300.0
LONGEST_PUT_OFF = 600.0  # also the limit of Discord's Retry-After; well below the store's FURTHEST_RETRY
SILENCE_SECONDS = 60.0
MAX_ATTEMPTS = 105  # the waits between them take at least four hours, six on average
LATER, GAVE_UP = "later", "gave_up"

D = TypeVar("D", bound=Due)
S = TypeVar("S")


def backoff(attempts: int, jitter: float) -> float:
    """Return the seconds to wait after `attempts` failures; `jitter`, in [0, 1), spreads the retries."""
    return min(LONGEST_WAIT, 2.0 ** min(attempts, 10)) * (0.5 + jitter / 2)


@dataclass(kw_only=True)
class Attempt:
    """One attempt to send a message: its stages, and the outcome that was stored, or LATER."""

    stages: Stages
    outcome: str = LATER


class Messages(ABC, Generic[D, S]):
    """A kind of messages: which are due, how one is sent, and how its end is stored.

    `at_once` are sent at the same time. Messages of a kind that `gives_up` end after MAX_ATTEMPTS.
    """

    at_once: int
    gives_up: bool

    def __init__(self, *, verbs: OutboxVerbs, wake_up: WakeUp, clock: Callable[[], float]) -> None:
        self.verbs = verbs
        self.wake_up = wake_up
        self.clock = clock

    @abstractmethod
    def name_of(self, due: D) -> str:
        """Return the name of a message in the log."""

    @abstractmethod
    async def claim(self, *, limit: int, held: Collection[int]) -> list[D]:
        """Claim messages that are due now, without those in `held`."""

    @asynccontextmanager
    async def attempt(self, due: D) -> AsyncIterator[Attempt]:  # noqa: ARG002 - other kinds lock by it
        """Give the context of an attempt."""
        yield Attempt(stages=Stages())

    @abstractmethod
    async def send(self, due: D, stages: Stages) -> S:
        """Send a message, or edit it.

        Raises DeliveryRefused with the outcome to store, or DeliveryDelayed.
        """

    def same(self, before: D, now: D) -> bool:
        """Return whether a message that was sent still shows what it must show."""
        return replace(before, attempts=now.attempts, fencing_token=now.fencing_token) == now

    @abstractmethod
    async def settle(self, due: D, outcome: str | None, sent: S | None) -> str:
        """Store how a message ended, `outcome` or by what was `sent`; return the outcome."""

    async def retry(self, due: D, *, at: float) -> None:
        """Make a message due again at `at`."""
        await self.verbs.retry(due, at=at)


class Outbox(Generic[D, S]):
    """Sends the messages of one kind that are due, several at once."""

    def __init__(self, messages: Messages[D, S]) -> None:
        self._messages = messages
        self._read_at = time.monotonic()
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._unsettled: dict[object, tuple[D, S]] = {}  # by subject
        self._claiming = asyncio.Lock()

    async def run(self) -> None:
        """Send until cancelled; a message that is cancelled is sent again by the next start."""
        try:
            while True:
                if not await self._start_some():
                    await self._messages.wake_up.wait(POLL_SECONDS)
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
            room = self._messages.at_once - len(self._sending)
            if room <= 0:
                await self._one_sent()
                return True
            try:
                new = await self._messages.claim(limit=room, held=[*self._sending])
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
            async with self._messages.attempt(due) as attempt:
                attempt.outcome = await self._settle(due, attempt.stages)
        except StoreUnavailable as error:
            log.error("the delivery of %s cannot be recorded: %s", self._messages.name_of(due), error)
            await asyncio.sleep(POLL_SECONDS)

    async def _settle(self, due: D, stages: Stages) -> str:
        """Send one message, and return the outcome that is stored, or LATER."""
        name = self._messages.name_of(due)
        try:
            sent = self._sent_before(due) or await self._messages.send(due, stages)
        except DeliveryRefused as error:
            log.warning("%s cannot be delivered: %s", name, error.outcome)
            return await self._messages.settle(due, error.outcome, None)
        except DeliveryDelayed as error:
            log.warning("%s is delivered later: %s", name, error)
            return await self._postpone(due, error.seconds)
        except StoreUnavailable as error:
            log.warning("%s is delivered later: %s", name, error)
            return await self._postpone(due)
        except Exception:
            log.exception(
                "%s could not be sent, because of an unexpected error; it is tried again later", name
            )
            return await self._postpone(due)
        stages.enter("record")
        self._unsettled[due.subject] = due, sent
        outcome = await self._messages.settle(due, None, sent)
        del self._unsettled[due.subject]
        return outcome

    def _sent_before(self, due: D) -> S | None:
        """Return what was sent and not settled; None without it, or if the message has changed."""
        before, sent = self._unsettled.get(due.subject, (None, None))
        return sent if before is not None and self._messages.same(before, due) else None

    async def _postpone(self, due: D, seconds: float = 0.0) -> str:
        if self._messages.gives_up and (made := due.attempts + 1) >= MAX_ATTEMPTS:
            log.error("%s is given up after %d attempts", self._messages.name_of(due), made)
            return await self._messages.settle(due, GAVE_UP, None)
        wait = backoff(due.attempts, random.random())  # noqa: S311 - spreads load, guards nothing
        # A later retry time would mean that the clock was set back, and be due at once. While Discord's rate
        # limit holds, the rate guard delays each attempt without a request.
        wait = min(max(wait, seconds), LONGEST_PUT_OFF)
        await self._messages.retry(due, at=self._messages.clock() + wait)
        return LATER


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

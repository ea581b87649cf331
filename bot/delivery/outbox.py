"""The outbox: sends the result of every finished job, then marks the delivery.

A result is an edit of the job's own message, which is idempotent, or a new message. The sender searches for
an earlier copy before it posts a new message again, so a crash between sending and marking shows no result
twice. If a result was sent but not marked, only the marking is retried.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import time
from collections.abc import Callable, Sequence

from bot.delivery.progress import MessageLocks
from bot.delivery.refusals import DeliveryDelayed, FilesGone
from bot.delivery.render import render, without_picture
from bot.delivery.sender import Sender, Sent
from bot.domain.errors import DeliveryRefused, StoreUnavailable
from bot.domain.jobs import Delivery, Job
from bot.store.store import Store
from bot.telemetry.metrics import WELL, DeliveryMetrics, Metrics
from bot.telemetry.tracing import NO_TRACING, Stages, Tracing, about
from bot.texts.catalogue import Texts
from sdjax_engine.request import Offer

log = logging.getLogger(__name__)

AT_ONCE = 8
POLL_SECONDS = 1.0
LONGEST_WAIT = 300.0
LONGEST_PUT_OFF = 600.0  # also the limit of Discord's Retry-After; well below the store's FURTHEST_RETRY
SILENCE_SECONDS = 60.0
MAX_ATTEMPTS = 105  # the waits between them take at least four hours, six on average
LATER, GAVE_UP = "later", "gave_up"
SHOWN = ("edited", "sent", "sent_directly", "refused", "deleted")  # outcomes that are no failures
LOST_SECONDS = 600.0  # how long a result waits for its files to be repainted


def backoff(attempts: int, jitter: float) -> float:
    """Return the seconds to wait after `attempts` failures; `jitter`, in [0, 1), spreads the retries."""
    return min(LONGEST_WAIT, 2.0 ** min(attempts, 10)) * (0.5 + jitter / 2)


class Outbox:
    """Sends the results that are due for `front`, several at once, one at a time for each job.

    `offers` decide which buttons a picture has. With `label`, results say that they are AI-generated. Both
    may change. `tracing` records a span for each attempt.
    """

    def __init__(
        self,
        store: Store,
        sender: Sender,
        message_locks: MessageLocks,
        *,
        front: str,
        clock: Callable[[], float],
        offers: Sequence[Offer] = (),
        label: bool = True,
        metrics: DeliveryMetrics | None = None,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._store = store
        self._sender = sender
        self._message_locks = message_locks
        self._front = front
        self._clock = clock
        self.offers = offers
        self.label = label
        self._metrics = metrics or Metrics().delivery
        self._tracing = tracing
        self._read_at = time.monotonic()
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._unmarked: dict[str, tuple[Job, Sent]] = {}  # by job
        self._claiming = asyncio.Lock()

    async def run(self) -> None:
        """Deliver until cancelled; a delivery that is cancelled is repeated by the next start."""
        try:
            while True:
                if not await self._start_some():
                    await self._store.wake_ups.results.wait(POLL_SECONDS)
        finally:
            await _cancelled(list(self._sending.values()))

    async def health(self) -> str:
        """Return "well", or why no results are read."""
        silence = time.monotonic() - self._read_at
        return WELL if silence < SILENCE_SECONDS else f"the outbox was last read {silence:.0f} s ago"

    async def flush(self, *, seconds: float) -> None:
        """Wait until every result that is due now is sent, for at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while await self._start_some() or self._sending:
                    await self._one_sent()
        except TimeoutError:
            if self._sending:
                log.warning("%d results wait for the next start to be delivered", len(self._sending))
            else:
                log.warning("the outbox could not be read: results that are due wait for the next start")

    async def _start_some(self) -> bool:
        """Begin to send the results that are due; False if none is, or if the store cannot be read.

        Only one claim runs at a time: `flush` runs beside `run`, and the second of two claims would take the
        deliveries of the first.
        """
        async with self._claiming:
            room = AT_ONCE - len(self._sending)
            if room <= 0:
                await self._one_sent()
                return True
            try:
                new = await self._store.deliveries.claim(self._front, limit=room, held=[*self._sending])
            except StoreUnavailable as error:
                log.error("the outbox cannot be read: %s", error)
                return False
            self._read_at = time.monotonic()
            for delivery in new:
                task = asyncio.create_task(self._attempt(delivery), name=f"delivery {delivery.id}")
                self._sending[delivery.id] = task
                task.add_done_callback(functools.partial(self._sent, delivery.id))
            return bool(new)

    async def _one_sent(self) -> None:
        """Wait until one of the running deliveries has ended; return at once where none runs."""
        if self._sending:
            await asyncio.wait(list(self._sending.values()), return_when=asyncio.FIRST_COMPLETED)

    def _sent(self, delivery_id: int, _task: asyncio.Task[None]) -> None:
        self._sending.pop(delivery_id, None)

    async def _attempt(self, delivery: Delivery) -> None:
        """Send one result; an error affects this delivery only."""
        job, stages, outcome = delivery.job, Stages(), LATER
        with about(job.id, traceparent=job.origin.traceparent):
            try:
                async with self._message_locks.of(job.id):
                    outcome = await self._settle(delivery, stages)
            except StoreUnavailable as error:
                log.error("the delivery cannot be recorded: %s", error)
                stages.end()
                await asyncio.sleep(POLL_SECONDS)
            finally:
                self._report(delivery, stages, outcome)

    async def _settle(self, delivery: Delivery, stages: Stages) -> str:
        """Send one result, and return the outcome that is stored, or LATER."""
        try:
            sent = self._sent_before(delivery.job) or await self._send(delivery, stages)
        except DeliveryRefused as error:
            log.warning("the result cannot be delivered: %s", error.outcome)
            await self._mark(delivery, error.outcome)
            return error.outcome
        except DeliveryDelayed as error:
            log.warning("the result is delivered later: %s", error)
            return await self._postpone(delivery, error.seconds)
        except Exception:
            log.exception(
                "the result could not be sent, because of an unexpected error; it is tried again later"
            )
            return await self._postpone(delivery)
        stages.enter("record")
        self._unmarked[delivery.job.id] = delivery.job, sent
        wanted = await self._mark(delivery, sent.outcome, sent)
        del self._unmarked[delivery.job.id]
        if not wanted:
            await self._sender.withdraw(delivery.job, sent)
        return sent.outcome

    def _report(self, delivery: Delivery, stages: Stages, outcome: str) -> None:
        """Log how an attempt ended and how long each stage took, and record its span."""
        stages.end()
        durations, lane = stages.durations, str(delivery.job.recipe.lane)
        log.info(
            "delivery %s, after %.2f s",
            *(outcome, durations["total"]),
            extra={"lane": lane, "durations": durations},
        )
        self._tracing.record_stages(
            "deliver",
            parent=delivery.job.origin.traceparent,
            stages=stages,
            attributes={
                "job": delivery.job.id,
                "lane": lane,
                "front": self._front,
                "attempt": delivery.attempts + 1,
                "outcome": outcome,
            },
            failed=outcome not in (*SHOWN, LATER),
        )

    def _sent_before(self, job: Job) -> Sent | None:
        """Return the message that was sent and not marked; None without one, or if the result has changed."""
        before, sent = self._unmarked.get(job.id, (None, None))
        if before is None:
            return None
        same = before.images == job.images and before.ruling == job.ruling and before.appeal is job.appeal
        return sent if same else None

    async def _mark(self, delivery: Delivery, outcome: str, sent: Sent | None = None) -> bool:
        """Store the outcome, and return whether the job still exists."""
        message_id, channel_id = (sent.message_id, sent.channel_id) if sent else (None, None)
        wanted = await self._store.deliveries.mark_delivered(
            delivery, outcome=outcome, message_id=message_id, channel_id=channel_id
        )
        self._metrics.deliveries.labels(outcome).inc()
        return wanted

    async def _send(self, delivery: Delivery, stages: Stages) -> Sent:
        job = delivery.job
        stages.enter("files")
        if job.deleted_at is not None:
            raise DeliveryRefused("deleted")
        texts = Texts.for_locale(job.origin.locale)
        content = render(job, None, texts, offers=self.offers, label=self.label)
        try:
            return await self._sender.deliver(delivery, content, entered=stages.enter)
        except FilesGone as gone:
            lost = await self._store.files.want(gone.names)
            if lost.failure is None and self._clock() < lost.since + LOST_SECONDS:
                raise DeliveryDelayed(f"{gone}, and are painted again") from None
            return await self._sender.deliver(delivery, without_picture(content, texts), entered=stages.enter)

    async def _postpone(self, delivery: Delivery, seconds: float = 0.0) -> str:
        if (made := delivery.attempts + 1) >= MAX_ATTEMPTS:
            log.error("the delivery is given up after %d attempts", made)
            await self._mark(delivery, GAVE_UP)
            return GAVE_UP
        self._metrics.retries.inc()
        wait = backoff(delivery.attempts, random.random())  # noqa: S311 - spreads load, guards nothing
        # A later retry time would mean that the clock was set back, and be due at once. While Discord's rate
        # limit holds, the rate guard delays each attempt without a request.
        wait = min(max(wait, seconds), LONGEST_PUT_OFF)
        await self._store.deliveries.retry(delivery, at=self._clock() + wait)
        return LATER


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

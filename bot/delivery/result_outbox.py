"""The results of finished jobs, as the outbox sends them.

A result is an edit of the job's own message, which is idempotent, or a new message.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

from bot.delivery.outbox import LATER, Attempt, Messages
from bot.delivery.progress import MessageLocks
from bot.delivery.refusals import DeliveryDelayed, FilesGone
from bot.delivery.render import render, without_picture
from bot.delivery.sender import Sender, Sent
from bot.domain.errors import DeliveryRefused
from bot.domain.jobs import Delivery
from bot.store.store import Store
from bot.telemetry.metrics import DeliveryMetrics, Metrics
from bot.telemetry.tracing import NO_TRACING, Stages, Tracing, about
from bot.texts.catalogue import Texts
from sdjax_engine.request import Offer

log = logging.getLogger(__name__)

SHOWN = ("edited", "sent", "sent_directly", "refused", "deleted")  # outcomes that are no failures
LOST_SECONDS = 600.0  # how long a result waits for its files to be repainted


class Results(Messages[Delivery, Sent]):
    """The results that are due for `front`, one at a time for each job.

    `offers` decide which buttons a picture has. With `label`, results say that they are AI-generated. Both
    may change. `tracing` records a span for each attempt.
    """

    at_once = 8
    gives_up = True

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
        super().__init__(verbs=store.deliveries, wake_up=store.wake_ups.results, clock=clock)
        self._store = store
        self._sender = sender
        self._message_locks = message_locks
        self._front = front
        self.offers = offers
        self.label = label
        self._metrics = metrics or Metrics().delivery
        self._tracing = tracing

    def name_of(self, due: Delivery) -> str:  # noqa: ARG002 - the log names the job beside it
        """Return the same for every result."""
        return "the result"

    async def claim(self, *, limit: int, held: Collection[int]) -> list[Delivery]:
        """Claim results that are due now."""
        return await self._store.deliveries.claim(self._front, limit=limit, held=held)

    @asynccontextmanager
    async def attempt(self, due: Delivery) -> AsyncIterator[Attempt]:
        """Hold the lock of the job's message, then log how the attempt ended and record its span."""
        job, attempt = due.job, Attempt(stages=Stages())
        with about(job.id, traceparent=job.origin.traceparent):
            try:
                async with self._message_locks.of(job.id):
                    yield attempt
            finally:
                self._report(due, attempt)

    async def send(self, due: Delivery, stages: Stages) -> Sent:
        """Show the result, without its pictures where their files stay lost."""
        job = due.job
        stages.enter("files")
        if job.deleted_at is not None:
            raise DeliveryRefused("deleted")
        texts = Texts.for_locale(job.origin.locale)
        content = render(job, None, texts, offers=self.offers, label=self.label)
        try:
            return await self._sender.deliver(due, content, entered=stages.enter)
        except FilesGone as gone:
            lost = await self._store.files.want(gone.names)
            if lost.failure is None and self.clock() < lost.since + LOST_SECONDS:
                raise DeliveryDelayed(f"{gone}, and are painted again") from None
            return await self._sender.deliver(due, without_picture(content, texts), entered=stages.enter)

    def same(self, before: Delivery, now: Delivery) -> bool:
        """Return whether the result has not changed."""
        old, new = before.job, now.job
        return old.images == new.images and old.ruling == new.ruling and old.appeal is new.appeal

    async def settle(self, due: Delivery, outcome: str | None, sent: Sent | None) -> str:
        """Store how the delivery ended; delete the message of a job that was deleted meanwhile."""
        outcome = outcome or (sent.outcome if sent else "")
        message_id, channel_id = (sent.message_id, sent.channel_id) if sent else (None, None)
        wanted = await self._store.deliveries.mark_delivered(
            due, outcome=outcome, message_id=message_id, channel_id=channel_id
        )
        self._metrics.deliveries.labels(outcome).inc()
        if sent is not None and not wanted:
            await self._sender.withdraw(due.job, sent)
        return outcome

    async def retry(self, due: Delivery, *, at: float) -> None:
        """Make the delivery due again at `at`."""
        self._metrics.retries.inc()
        await super().retry(due, at=at)

    def _report(self, due: Delivery, attempt: Attempt) -> None:
        """Log how an attempt ended and how long each stage took, and record its span."""
        stages, outcome = attempt.stages, attempt.outcome
        stages.end()
        durations, lane = stages.durations, str(due.job.recipe.lane)
        log.info(
            "delivery %s, after %.2f s",
            *(outcome, durations["total"]),
            extra={"lane": lane, "durations": durations},
        )
        self._tracing.record_stages(
            "deliver",
            parent=due.job.origin.traceparent,
            stages=stages,
            attributes={
                "job": due.job.id,
                "lane": lane,
                "front": self._front,
                "attempt": due.attempts + 1,
                "outcome": outcome,
            },
            failed=outcome not in (*SHOWN, LATER),
        )

"""The outbox of the results of finished jobs.

A result is an edit of the job's own message, which is idempotent, or a new message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from bot.delivery.outbox import LATER, Outbox
from bot.delivery.progress import MessageLocks
from bot.delivery.refusals import DeliveryDelayed, FilesGone
from bot.delivery.render import render, without_picture
from bot.delivery.sender import Sender, Sent
from bot.domain.errors import DeliveryRefused
from bot.domain.jobs import Delivery
from bot.store.queue.deliveries import DELETED
from bot.store.store import Store
from bot.telemetry.metrics import DeliveryMetrics, Metrics
from bot.telemetry.tracing import NO_TRACING, Stages, Tracing, about
from bot.texts.catalogue import Texts
from sdjax_engine.request import Offer

log = logging.getLogger(__name__)

SHOWN = ("edited", "sent", "sent_directly", "refused", DELETED)  # outcomes that are no failures
LOST_SECONDS = 600.0  # how long a result waits for its files to be repainted


class Results(Outbox[Delivery, Sent]):
    """Sends the results that are due for `front`, one at a time for each job.

    `offers` decide which buttons a picture has. With `label`, results say that they are AI-generated. Both
    may change. `tracing` records a span for each attempt.
    """

    name = "the result"  # the log names the job beside it
    at_once = 8

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
        super().__init__(store.deliveries, store.wake_ups.results, front=front, clock=clock)
        self._store = store
        self._sender = sender
        self._message_locks = message_locks
        self.offers = offers
        self.label = label
        self._metrics = metrics or Metrics().delivery
        self._tracing = tracing
        self._stages: dict[int, Stages] = {}

    async def _attempt(self, due: Delivery) -> None:
        """Log how long each stage took, too, and record a span."""
        with about(due.job.id, traceparent=due.job.origin.traceparent):
            await super()._attempt(due)

    async def _try(self, due: Delivery) -> str:
        self._stages[due.id], outcome = Stages(), LATER
        try:
            async with self._message_locks.of(due.job.id):
                outcome = await super()._try(due)
        finally:
            self._report(due, self._stages.pop(due.id), outcome)
        if outcome == LATER:
            self._metrics.retries.inc()
        return outcome

    async def send(self, due: Delivery) -> Sent:
        """Show the result, without its pictures where their files stay lost."""
        job, stages = due.job, self._stages[due.id]
        stages.enter("files")
        if job.deleted_at is not None:
            await self._sender.withdraw_earlier(due)
            raise DeliveryRefused(DELETED)
        texts = Texts.for_locale(job.origin.locale)
        content = render(job, None, texts, offers=self.offers, label=self.label)
        try:
            return await self._sender.deliver(due, content, entered=stages.enter)
        except FilesGone as gone:
            lost = await self._store.files.want(gone.names)
            if lost.failure is None and self._clock() < lost.since + LOST_SECONDS:
                raise DeliveryDelayed(f"{gone}, and are painted again") from None
            return await self._sender.deliver(due, without_picture(content, texts), entered=stages.enter)

    async def settle(self, due: Delivery, outcome: str, sent: Sent | None) -> None:
        """Store how the delivery ended; delete the message of a job that was deleted meanwhile."""
        self._stages[due.id].enter("record")
        message_id, channel_id = (sent.message_id, sent.channel_id) if sent else (None, None)
        wanted = await self._store.deliveries.mark_delivered(
            due, outcome=outcome, message_id=message_id, channel_id=channel_id
        )
        self._metrics.deliveries.labels(outcome).inc()
        if sent is not None and not wanted:
            await self._sender.withdraw(due.job, sent)

    def _report(self, due: Delivery, stages: Stages, outcome: str) -> None:
        """Log how an attempt ended and how long each stage took, and record its span."""
        stages.end()
        durations, lane = stages.durations, str(due.job.recipe.lane)
        log.info(
            "delivery %s, after %.2f s",
            *(outcome, durations["total"]),
            extra={"lane": lane, "durations": durations},
        )
        self._tracing.record(
            "deliver",
            parent=due.job.origin.traceparent,
            work=stages,
            attributes={
                "job": due.job.id,
                "lane": lane,
                "front": self._front,
                "attempt": due.attempts + 1,
                "outcome": outcome,
            },
            failed=outcome not in (*SHOWN, LATER),
        )

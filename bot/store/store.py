"""The durable queue: every verb is one transaction."""

from __future__ import annotations

from collections.abc import Callable

from bot.metrics import Metrics, StoreMetrics
from bot.store.backlog import BacklogVerbs
from bot.store.clock import Clock
from bot.store.database import Database
from bot.store.deliveries import DeliveryVerbs
from bot.store.files import FileVerbs
from bot.store.forgetting import ForgettingVerbs
from bot.store.leases import LeaseVerbs
from bot.store.offers import OfferVerbs
from bot.store.positions import PositionVerbs
from bot.store.processes import ProcessVerbs
from bot.store.queue import QueueVerbs
from bot.store.retention import RetentionVerbs


class Store(
    QueueVerbs,
    PositionVerbs,
    OfferVerbs,
    LeaseVerbs,
    DeliveryVerbs,
    ProcessVerbs,
    FileVerbs,
    RetentionVerbs,
    ForgettingVerbs,
    BacklogVerbs,
):
    """Jobs, images, leases, deliveries, processes and what is known of files, in one database.

    It survives a kill at any moment.

    Any verb raises StoreUnavailable, whose message is one sentence, when the database cannot be used;
    then nothing was changed.
    """

    @classmethod
    async def open(
        cls, url: str, *, clock: Callable[[], float] | None = None, metrics: StoreMetrics | None = None
    ) -> Store:
        """Connect to `url` (`sqlite:///file` or `postgresql://…`) and bring its tables up to date.

        `clock` stands in for the queue's own. Raises StoreUnavailable, or ConfigurationError for a URL that
        can never work.
        """
        metrics = metrics or Metrics().store
        database = await Database.open(url)
        database.on_failure = metrics.failures.inc
        if clock is not None:
            return cls(database, clock if isinstance(clock, Clock) else Clock(clock, clock))
        store = cls(database, Clock(server=database.has_time, on_jump=metrics.clock_steps.inc))
        await store.tell_time()
        return store

    @property
    def clock(self) -> Callable[[], float]:
        """The time by which everything in the queue is written."""
        return self._clock

    async def close(self) -> None:
        """Close the connections; verbs that run must have returned."""
        await self._database.close()

"""The durable queue: every verb is one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable

from bot.store.database import Database
from bot.store.deliveries import DeliveryVerbs
from bot.store.files import FileVerbs
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
):
    """Jobs, images, leases, deliveries, processes and what is known of files, in one database.

    It survives a kill at any moment.

    Any verb raises StoreUnavailable, whose message is one sentence, when the database cannot be used;
    then nothing was changed.
    """

    @classmethod
    async def open(cls, url: str, *, clock: Callable[[], float] = time.time) -> Store:
        """Connect to `url` (`sqlite:///file` or `postgresql://…`) and bring its tables up to date.

        Raises StoreUnavailable, or ConfigurationError for a URL that can never work.
        """
        return cls(await Database.open(url), clock)

    async def close(self) -> None:
        """Close the connections; verbs that run must have returned."""
        await self._database.close()

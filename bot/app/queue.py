"""What every role shares: the queue, the files of pictures, and a name among those who work on them."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bot.app.membership import Membership, joined
from bot.artifacts import Artifacts
from bot.config import Config
from bot.lifetime import Running
from bot.store import Store
from bot.sweeper import Sweeper, bounds_of


@dataclass(frozen=True, kw_only=True)
class Queue:
    """The shared queue as one process sees it."""

    store: Store
    artifacts: Artifacts
    membership: Membership
    sweeper: Sweeper

    @property
    def name(self) -> str:
        """This process's name, which no other living one has."""
        return self.membership.name

    def start(self, running: Running) -> None:
        """Be heard of by the others, hear of them, and sweep in our turn, for as long as `running` lasts."""
        running.start(self.membership.run(), "membership")
        running.start(self.store.listen(), "wake-ups")
        running.start(self.sweeper.run(), "sweeper")


async def open_queue(config: Config, role: str, stack: AsyncExitStack) -> Queue:
    """Connect, and join those who work on it; `stack` leaves and closes it again.

    Raises ConfigurationError or StoreUnavailable.
    """
    store = await Store.open(config.queue.database)
    stack.push_async_callback(store.close)
    artifacts = Artifacts(config.queue.artifacts)
    membership = await stack.enter_async_context(joined(config, store, role))
    sweeper = Sweeper(store, artifacts, bounds_of(config.retention), clock=time.time)
    return Queue(store=store, artifacts=artifacts, membership=membership, sweeper=sweeper)

"""What every role shares: the queue, the files of pictures, and a name among those who work on them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bot.app.watching import watch
from bot.artifacts import Artifacts
from bot.config import Config
from bot.membership.membership import Membership, joined
from bot.membership.processes import Processes
from bot.metrics import Metrics
from bot.shutdown import BackgroundTasks
from bot.store import Store
from bot.sweeper import Sweeper, bounds_of
from bot.web.health import Check


@dataclass(frozen=True, kw_only=True)
class Queue:
    """The shared queue as one process sees it.

    `metrics` count what the process does, `checks` say whether each of its parts is well.
    """

    store: Store
    artifacts: Artifacts
    membership: Membership
    sweeper: Sweeper
    metrics: Metrics
    checks: dict[str, Check] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """This process's name, which no other living one has."""
        return self.membership.name

    def start(self, tasks: BackgroundTasks) -> None:
        """Be heard of by the others, hear of them, and sweep in our turn, for as long as `tasks` runs."""
        tasks.start(self.membership.run(), "membership")
        tasks.start(self.store.listen(), "wake-ups")
        tasks.start(self.sweeper.run(), "sweeper")


PARTS = {"front": ("gateway", "outbox"), "worker": ("engine",), "both": ("gateway", "outbox", "engine")}
"""What each role has to open before it is well."""


async def starting() -> str:
    """Say that a part of the process is not there yet."""
    return "starting"


async def open_queue(config: Config, role: str, stack: AsyncExitStack) -> Queue:
    """Connect, join those who work on it, and let operators look on; `stack` ends it all.

    Raises ConfigurationError or StoreUnavailable.
    """
    metrics = Metrics()
    store = await Store.open(config.queue.database, metrics=metrics.store)
    stack.push_async_callback(store.close)
    artifacts = Artifacts(config.queue.artifacts)
    membership = await stack.enter_async_context(joined(config, Processes(store.shared), role))
    sweeper = Sweeper(store, artifacts, bounds_of(config.retention), clock=store.clock)
    queue = Queue(store=store, artifacts=artifacts, membership=membership, sweeper=sweeper, metrics=metrics)
    queue.checks.update(dict.fromkeys(PARTS[role], starting))
    await watch(config, store, metrics, queue.checks, stack)
    return queue

"""What every role has: the store, the files of pictures, a name, a sweeper, metrics and health."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bot.app.monitoring import monitor
from bot.app.tracing import open_tracing
from bot.config import Config
from bot.domain.errors import ConfigurationError, NameTaken
from bot.files.artifacts import Artifacts
from bot.files.sweeper import Sweeper, bounds_of
from bot.membership.membership import Membership, joined
from bot.membership.processes import Processes
from bot.process.shutdown import BackgroundTasks
from bot.store import Store
from bot.telemetry.log import name_process
from bot.telemetry.metrics import Metrics
from bot.telemetry.tracing import Tracing
from bot.web.server import Check


@dataclass(frozen=True, kw_only=True)
class Queue:
    """One process's access to the shared queue.

    `metrics` count the work of the process, and `tracing` records its spans. `checks` tell whether each part
    of the process is well.
    """

    store: Store
    artifacts: Artifacts
    membership: Membership
    sweeper: Sweeper
    metrics: Metrics
    tracing: Tracing
    checks: dict[str, Check] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of this process: no other living process has it."""
        return self.membership.name

    def change(self, config: Config) -> None:
        """Keep results and jobs as long as another configuration says."""
        self.sweeper.bounds = bounds_of(config.retention)

    def start(self, tasks: BackgroundTasks) -> None:
        """Start the heartbeat, the wake-ups and the sweeper."""
        tasks.keep(self.membership.run, "membership", fatal=(NameTaken, ConfigurationError))
        tasks.keep(self.store.listen, "wake-ups")
        tasks.keep(self.sweeper.run, "sweeper")


CHECKED_PARTS = {
    "front": ("gateway", "outbox"),
    "worker": ("engine",),
    "both": ("gateway", "outbox", "engine"),
}
"""The parts that each role must open before it is well."""


async def starting() -> str:
    """The check of a part that is not open yet."""
    return "starting"


async def open_queue(config: Config, role: str, stack: AsyncExitStack) -> Queue:
    """Connect to the store, join the living processes, and serve metrics and health; `stack` ends all three.

    Raises ConfigurationError or StoreUnavailable.
    """
    metrics = Metrics()
    store = await Store.open(config.queue.database, metrics=metrics.store)
    stack.push_async_callback(store.close)
    artifacts = Artifacts(config.queue.artifacts)
    membership = await stack.enter_async_context(joined(config, Processes(store.shared), role))
    name_process(membership.name)
    tracing = open_tracing(config.traces, os.environ, name=membership.name, role=role)
    stack.push_async_callback(tracing.close)
    sweeper = Sweeper(store, artifacts, bounds_of(config.retention), clock=store.clock)
    queue = Queue(
        store=store,
        artifacts=artifacts,
        membership=membership,
        sweeper=sweeper,
        metrics=metrics,
        tracing=tracing,
    )
    queue.checks["membership"] = membership.health
    queue.checks.update(dict.fromkeys(CHECKED_PARTS[role], starting))
    await monitor(config, store, metrics, queue.checks, stack)
    return queue

"""The role `worker`: paints the queue's images. It needs no token and no connection to Discord."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from bot.app.queue import Queue, open_queue
from bot.app.reloading import Load, Reloading, Take
from bot.config import Config, ModelConfig
from bot.config.policy import PolicyConfig
from bot.domain.channels import ChannelKind, flagged_in
from bot.domain.jobs import Showing, Showings
from bot.moderation.pictures import PictureRules, strictest
from bot.process.retries import while_unavailable
from bot.process.shutdown import BackgroundTasks, Shutdown, ShutdownRequested, run_process
from bot.process.threads import in_uninterruptible_thread
from bot.store.tables.fleet import MOST_CHARACTERS
from bot.worker.cache_filling import wait_for_cache
from bot.worker.opening import open_engine, read_defaults, specs_of
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine
from sdjax_engine.memory.devices import device_kind

log = logging.getLogger(__name__)

CLOSE_SECONDS = 10.0
Report = Callable[[str], None]


def run_worker(config: Config, *, load: Load, ready: Callable[[], None] = lambda: None) -> None:
    """Run a worker until SIGINT or SIGTERM; calls `load` and `ready`, and raises, like `serve`."""
    run_process(lambda shutdown: serve(config, shutdown=shutdown, report=log.info, load=load, ready=ready))


async def serve(
    config: Config,
    *,
    shutdown: Shutdown,
    report: Report,
    load: Load | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Paint the queue's images until `shutdown`; call `ready` once the worker claims images.

    `load` reads the configuration again at each request of `shutdown` to reload.
    Raises ConfigurationError, StoreUnavailable, UnreadableCheckpoint or EngineClosed.
    """
    async with AsyncExitStack() as stack:
        queue = await open_queue(config, "worker", stack)
        tasks = await stack.enter_async_context(BackgroundTasks(shutdown))
        queue.start(tasks)
        try:
            complete = await tasks.wait_for(with_defaults(config, report))
            await publish(complete, queue)
            worker = await open_worker(complete, queue, report, tasks, stack)
            if load is not None:
                prepare = functools.partial(_prepare, worker=worker, queue=queue, report=report)
                reloading = Reloading(config, load, prepare)
                tasks.keep(lambda: reloading.run(shutdown.reload), "reload")
            ready()
            await run_until_shutdown(worker, tasks, shutdown)
        except ShutdownRequested:
            log.info("shut down")


async def _prepare(config: Config, *, worker: Worker, queue: Queue, report: Report) -> Take:
    return await prepare_worker(await with_defaults(config, report), worker=worker, queue=queue)


async def prepare_worker(config: Config, *, worker: Worker, queue: Queue) -> Take:
    """Read the models of another configuration, and return the step that takes it.

    `config` has the defaults of its checkpoints. Raises UnreadableCheckpoint and DevicesFailed.
    """
    change = await in_uninterruptible_thread(lambda: worker.engine.read_models(specs_of(config)))

    async def take() -> None:
        queue.change(config)
        await while_unavailable(config.queue.lease_seconds, publish, config, queue)
        failures = await worker.change(
            change, rules=rules_by_model(config), drain_seconds=config.queue.drain_seconds
        )
        for name, error in failures.items():
            log.error("%s", Config.say_again(f"{name} is not offered: {error}"))

    return take


async def with_defaults(config: Config, report: Report) -> Config:
    """Return the configuration with the defaults of its checkpoints; raises UnreadableCheckpoint."""
    return await in_uninterruptible_thread(lambda: read_defaults(config, report))


async def publish(config: Config, queue: Queue) -> None:
    """Publish the offers for fronts; `config` has the defaults of its checkpoints."""
    await queue.store.offers.publish([model.offer for model in config.models])


async def open_worker(
    config: Config, queue: Queue, report: Report, tasks: BackgroundTasks, stack: AsyncExitStack
) -> Worker:
    """Open the engine, and make its worker; `stack` closes the engine.

    `config` has the defaults of its checkpoints.
    """
    turn = await tasks.wait_for(wait_for_cache(config))
    stack.push_async_callback(turn.close)
    engine = await tasks.wait_for(in_uninterruptible_thread(lambda: open_engine(config, report)))
    stack.push_async_callback(close, engine)
    stack.push_async_callback(turn.close)  # before the engine: a stopped warm-up looks complete
    turn.follow(engine)
    lease = config.queue.lease_seconds
    worker = Worker(
        engine,
        queue.store,
        queue.artifacts,
        name=queue.name,
        lease_seconds=lease,
        drain_seconds=config.queue.drain_seconds,
        # Only after `open_engine`: `device_kind` makes JAX choose its devices.
        accelerator=config.engine.accelerator or device_kind()[:MOST_CHARACTERS],
        rules=rules_by_model(config),
        metrics=queue.metrics.worker,
        tracing=queue.tracing,
    )
    queue.checks["engine"] = worker.health
    return worker


def rules_by_model(config: Config) -> dict[str, PictureRules]:
    """Return the rules of the pictures of each model, by its name."""
    return {model.name: rules_of(model, config.policy) for model in config.models}


def rules_of(model: ModelConfig, policy: PolicyConfig) -> PictureRules:
    """Return how pictures of this model are judged and shown.

    The policies of servers are bounded by the operator's bounds; without these by the operator's own policy;
    without this by the operator's values for the model.
    """
    sources = (model, policy, policy.bounds)
    shown = {kind: _shown(*(flagged_in(kind, source) for source in sources)) for kind in ChannelKind}
    return PictureRules(
        levels=model.picture_levels,
        threshold=model.picture_threshold,
        own={kind: own for kind, (own, _) in shown.items()},
        mildest={kind: mildest for kind, (_, mildest) in shown.items()},
    )


def _shown(own: tuple[str, ...], said: tuple[str, ...], bounds: tuple[str, ...]) -> tuple[Showings, Showings]:
    """Return how a model's pictures are shown without a policy, and the mildest that a policy may say."""
    shown = _showings(own)
    return strictest(shown, _showings(bounds)) if bounds else shown, _showings(bounds or said or own)


def _showings(configured: tuple[str, ...]) -> Showings:
    mild, explicit, extreme = map(Showing, configured)
    return mild, explicit, extreme


async def run_until_shutdown(worker: Worker, tasks: BackgroundTasks, shutdown: Shutdown) -> None:
    """Run the worker until a shutdown is requested, then wait for the images that it is painting.

    Images that have not begun go back to the queue. A second request gives the others back too.
    """
    painting = tasks.start(worker.run(), "worker")
    try:
        await tasks.wait_for_shutdown()
    finally:
        worker.drain()
        await shutdown.drain(painting)


async def close(engine: Engine) -> None:
    """Close the engine, whose requests have ended; wait CLOSE_SECONDS at most, as devices may hang."""
    await asyncio.wait({in_uninterruptible_thread(lambda: engine.close(drain=False))}, timeout=CLOSE_SECONDS)

"""Every endless loop of a process goes on after unexpected errors, and the process stays."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from recipes import ORIGIN, recipe
from serving import until

from bot.app import front, monitoring
from bot.app.reloading import Reloading
from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.membership.processes import Processes
from bot.process.shutdown import Shutdown
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.files.picture_files import Files
from bot.store.files.retention import Retention
from bot.store.moderation.review_messages import ReviewMessages
from bot.store.queue.deliveries import Deliveries
from bot.store.queue.jobs import Jobs
from bot.store.queue.leases import Leases
from bot.store.queue.offers import Offers
from bot.store.sessions.boards import SessionShowing
from bot.store.sessions.posts import Posts
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine

SMALL = recipe(width=64, height=64, model="tiny", num_inference_steps=3)
OF_FRONTS: Mapping[str, tuple[type, str]] = {
    "membership": (Processes, "living"),
    "wake-ups": (Store, "listen"),
    "sweeper": (Retention, "take_duty"),
    "outbox": (Deliveries, "claim"),
    "progress": (Jobs, "active"),
    "reviews": (ReviewMessages, "claim"),
    "posts": (Posts, "claim"),
    "group sessions": (SessionShowing, "keep"),
    "offers": (Offers, "published"),
    "reload": (Reloading, "reload"),
    "loop watch": (monitoring.LoopWatch, "run"),
}
"""The loops of a front, each with a verb that it calls at every turn, or that runs as long as the loop."""
AS_LONG_AS_IT_RUNS = {"wake-ups", "loop watch"}
OF_WORKERS: Mapping[str, tuple[type, str]] = {
    "claims": (Leases, "claim"),
    "heartbeats": (Offers, "announce"),
    "unoffered images": (Offers, "fail_unoffered"),
    "lost files": (Files, "claim_lost"),
}


class Sabotage:
    """Lets each loop fail once, as by a mistake in the code, and counts the calls of its verb."""

    def __init__(self, loops: Mapping[str, tuple[type, str]], monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        self._loops = loops
        self._monkeypatch = monkeypatch

    def begin(self, *names: str) -> None:
        """Sabotage these loops from their next call on."""
        for name in names:
            owner, verb = self._loops[name]
            self._monkeypatch.setattr(owner, verb, self._failing_once(name, getattr(owner, verb)))

    def _failing_once(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            if self.calls[name] == 1:
                raise ZeroDivisionError(name)
            return await real(*arguments, **options)

        return call


def configured(sandbox: Sandbox, folder: Path) -> Config:
    (folder / "token").write_text("a-token", encoding="utf-8")
    address = {"api_url": sandbox.api_url, "gateway_url": sandbox.gateway_url}
    return Config.parse(
        {
            "discord": {**address, "token_file": str(folder / "token")},
            "queue": {
                "database": f"sqlite+aiosqlite:///{folder}/queue.sqlite3",
                "artifacts": str(folder / "artifacts"),
            },
        }
    )


@pytest.mark.usefixtures("discord_address")
async def test_every_loop_of_a_front_goes_on_after_an_unexpected_error(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.files.sweeper.SWEEP_SECONDS", 0.05)
    config, shutdown, ready = configured(sandbox, tmp_path), Shutdown(), asyncio.Event()
    sabotage = Sabotage(OF_FRONTS, monkeypatch)
    sabotage.begin(*AS_LONG_AS_IT_RUNS)
    serving = front.serve(config, shutdown=shutdown, load=lambda: config, ready=ready.set)
    process, waiting = asyncio.create_task(serving), asyncio.create_task(ready.wait())
    await asyncio.wait({process, waiting}, return_when=asyncio.FIRST_COMPLETED)
    sabotage.begin(*OF_FRONTS.keys() - AS_LONG_AS_IT_RUNS)

    async def all_go_on() -> bool:
        shutdown.reload.set()
        return all(sabotage.calls[name] > 1 for name in OF_FRONTS)

    await until(all_go_on)
    assert not process.done()
    shutdown.request()
    await process


async def test_every_loop_of_a_worker_goes_on_after_an_unexpected_error(
    tiny_engine: Engine, store: Store, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.process.memory.SECONDS_BETWEEN_TRIMS", 0.05)
    sabotage = Sabotage(OF_WORKERS, monkeypatch)
    worker = Worker(tiny_engine, store, artifacts, name="worker", lease_seconds=30.0, grace_seconds=0.05)
    process = asyncio.create_task(worker.run())
    job = await store.jobs.enqueue(SMALL, ORIGIN)

    async def ended() -> bool:
        return (await store.jobs.get(job.id)).state.final

    await until(ended)
    sabotage.begin(*OF_WORKERS)

    async def all_go_on() -> bool:
        return all(sabotage.calls[name] > 1 for name in OF_WORKERS)

    await until(all_go_on)
    assert not process.done()
    worker.drain()
    await process

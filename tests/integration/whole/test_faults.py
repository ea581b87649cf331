"""Faults around the shipped processes: no job is lost, the processes recover and log the fault."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio
from evening import alive, write_role
from scene import FaultScene, full_disk, on_stage, running, send

from bot.sandbox.client import InteractionFailed
from bot.sandbox.server import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
LONG = {"steps": 48, "variants": 4}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(
    tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path, compile_cache: Path
) -> AsyncIterator[FaultScene]:
    """Both processes for all tests of this file. Their checkpoint is deleted after their start."""
    folder = tmp_path_factory.mktemp("faults")
    checkpoint = Path(shutil.copytree(tiny_checkpoint, folder / "checkpoint"))
    async with (
        Sandbox() as sandbox,
        on_stage(sandbox, folder, cache=compile_cache, checkpoint=checkpoint) as scene,
    ):
        shutil.rmtree(checkpoint)
        yield scene
        for role in (scene.front, scene.worker):
            assert "Traceback" not in role.logs()
        assert sandbox.violations == []


async def test_a_worker_goes_on_after_its_checkpoint_folder_was_deleted(scene: FaultScene) -> None:
    await scene.delivered(await scene.ask(variants=2))


async def test_a_lost_gateway_session_is_resumed_and_an_invalid_one_replaced(scene: FaultScene) -> None:
    before = await scene.metric(scene.front, 'sdjax_gateway_events_total{event="identified"}')
    asked = [await scene.ask(**LONG)]
    scene.sandbox.misbehave(drop_gateway=True)
    await scene.counted(scene.front, 'sdjax_gateway_events_total{event="resumed"}', 1)
    scene.sandbox.misbehave(reconnect=True)
    await scene.counted(scene.front, 'sdjax_gateway_events_total{event="resumed"}', 2)
    scene.sandbox.misbehave(invalidate_session=True)
    await scene.counted(scene.front, 'sdjax_gateway_events_total{event="identified"}', before + 1)
    await scene.front.well(scene.operator)
    asked.append(await scene.ask())
    await scene.delivered(*asked)
    assert "shard 0 has lost the connection to Discord" in scene.front.logs()


async def test_many_429_answers_delay_results_and_lose_none(scene: FaultScene) -> None:
    scene.sandbox.misbehave(rest_429=20, retry_after=0.1, on="/messages/")
    await scene.delivered(*[await scene.ask(variants=2) for _ in range(4)])
    assert await scene.metric(scene.front, 'sdjax_discord_requests_total{outcome="429"}') >= 20


async def test_many_5xx_answers_delay_results_and_lose_none(scene: FaultScene) -> None:
    asked = [await scene.ask(**LONG)]
    await scene.queued(asked[0])
    scene.sandbox.misbehave(rest_5xx=25, on="/messages/")
    await scene.delivered(*asked)
    assert await scene.metric(scene.front, 'sdjax_discord_requests_total{outcome="5xx"}') >= 25
    assert await scene.metric(scene.front, "sdjax_delivery_retries_total") >= 1
    assert "the result is delivered later" in scene.front.logs()


async def test_slow_answers_of_discord_lose_no_result(scene: FaultScene) -> None:
    scene.sandbox.misbehave(slow_ms=1200)
    try:
        await scene.delivered(*[await scene.ask() for _ in range(3)])
    finally:
        scene.sandbox.misbehave(slow_ms=0)


async def test_a_full_disk_refuses_requests_and_accepted_jobs_are_delivered(scene: FaultScene) -> None:
    asked = [await scene.ask(**LONG) for _ in range(2)]
    for interaction in asked:
        await scene.queued(interaction)
    with full_disk(scene.front, scene.worker):
        refused = await scene.ask()
        message = await scene.mina.message_of(refused, timeout=20.0)
        assert "cannot be reached right now" in str(message), message
        assert await scene.metric(scene.front, "sdjax_store_failures_total") >= 1
        await scene.counted(scene.worker, "sdjax_store_failures_total", 1)
    await scene.delivered(*asked)


@pytest.mark.parametrize("jumps", [(signal.SIGUSR1,), (signal.SIGUSR2, signal.SIGUSR2)])
async def test_a_clock_jump_loses_no_lease_and_no_job(
    scene: FaultScene, jumps: tuple[signal.Signals, ...]
) -> None:
    taken = 'sdjax_images_total{event="taken_back"}'
    before = await scene.metric(scene.worker, taken)
    asked = [await scene.ask(**LONG) for _ in range(2)]
    await scene.queued(asked[-1])
    for number in jumps:
        send(scene.front, number)
        send(scene.worker, number)
        await asyncio.sleep(0.1)
    asked.append(await scene.ask())
    await scene.delivered(*asked)
    await scene.counted(scene.worker, "sdjax_clock_steps_total", 1)
    assert await scene.metric(scene.worker, taken) == before
    assert "clock has jumped" in scene.worker.logs()


def is_stopped(pid: int) -> bool:
    """Whether all threads of a process are stopped."""
    try:
        files = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:  # a thread has just ended
        return False
    return {file.rpartition(")")[2].split()[0] for file in files} == {"T"}


async def hang(scene: FaultScene) -> None:
    """Stop the worker outside its transactions: inside one it would hold SQLite's lock.

    Its threads run on for a moment after the signal, so the check must wait until all threads have stopped.
    """
    while True:
        send(scene.worker, signal.SIGSTOP)
        while not is_stopped(running(scene.worker).process.pid):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.01)
        with closing(sqlite3.connect(scene.database, timeout=0.2)) as look:
            try:
                look.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                send(scene.worker, signal.SIGCONT)
                await asyncio.sleep(0.05)
            else:
                return


async def test_a_hanging_worker_loses_its_images_and_changes_nothing_afterwards(
    scene: FaultScene, tmp_path: Path, tiny_checkpoint: Path, compile_cache: Path
) -> None:
    folder = scene.worker.config.parent
    other = write_role(
        *(folder, "worker", scene.sandbox),
        name="other",
        cache=compile_cache,
        checkpoint=str(tiny_checkpoint),
        forked=True,
    )
    asked = [await scene.ask(**LONG) for _ in range(2)]
    await scene.counted(scene.front, "sdjax_images_running", 4)
    await hang(scene)
    try:
        async with alive([other]):
            await scene.delivered(*asked)
            assert await scene.metric(other, 'sdjax_images_total{event="taken_back"}') >= 1
            send(scene.worker, signal.SIGCONT)
            await scene.counted(scene.worker, 'sdjax_images_total{event="lost"}', 1)
    finally:
        send(scene.worker, signal.SIGCONT)
    await scene.worker.well(scene.operator)
    await scene.delivered(*asked, await scene.ask())
    assert "taken back: their worker sent no heartbeat" in other.logs()


async def test_a_command_without_a_front_fails_as_in_discord(scene: FaultScene) -> None:
    await scene.front.kill()
    with pytest.raises(InteractionFailed):
        await scene.queued(await scene.ask())
    await scene.front.start()
    await scene.front.well(scene.operator)
    await scene.delivered(await scene.ask())

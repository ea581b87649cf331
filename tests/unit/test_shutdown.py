"""Background tasks and the two requests to shut down, with a failure injected at each seam."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from bot.process.shutdown import BackgroundTasks, Shutdown, ShutdownRequested


async def forever() -> None:
    await asyncio.Event().wait()


async def fail(error: Exception, *, after: asyncio.Event | None = None) -> None:
    if after is not None:
        await after.wait()
    raise error


@pytest.mark.parametrize("with_result", [False, True])
async def test_a_shutdown_ends_a_wait_even_when_its_result_is_there(with_result: bool) -> None:
    shutdown, result = Shutdown(), asyncio.get_running_loop().create_future()
    async with BackgroundTasks(shutdown) as tasks:
        shutdown.request()
        if with_result:
            await asyncio.sleep(0)
            result.set_result(None)
        with pytest.raises(ShutdownRequested):
            await tasks.wait_for(result)
    assert result.cancelled() is not with_result


async def test_a_second_failure_during_the_drain_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    first, second = ZeroDivisionError("first"), ValueError("second")

    async def body() -> None:
        later = asyncio.Event()
        async with BackgroundTasks(Shutdown()) as tasks:
            tasks.start(fail(first), "gateway")
            sibling = tasks.start(fail(second, after=later), "outbox")
            try:
                await tasks.wait_for_shutdown()
            finally:
                later.set()
                await asyncio.wait({sibling})

    with pytest.raises(ZeroDivisionError, match="first"):
        await body()
    [record] = [record for record in caplog.records if record.name == "bot.process.shutdown"]
    assert "outbox" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is second


async def test_a_failed_task_is_raised_itself_and_its_siblings_run_until_the_body_has_drained() -> None:
    siblings: list[asyncio.Task[None]] = []
    drained = []
    error = ZeroDivisionError("of the task")

    async def body() -> None:
        async with BackgroundTasks(Shutdown()) as tasks:
            tasks.start(fail(error), "fails")
            siblings.append(tasks.start(forever(), "sibling"))
            try:
                await tasks.wait_for_shutdown()
            finally:
                for _ in range(20):
                    await asyncio.sleep(0)
                drained.append(not siblings[0].done())

    with pytest.raises(ZeroDivisionError) as raised:
        await body()
    assert raised.value is error
    assert drained == [True]
    assert siblings[0].cancelled()


async def test_a_task_s_failure_comes_before_a_shutdown_and_before_a_result() -> None:
    shutdown = Shutdown()
    async with BackgroundTasks(shutdown) as tasks:
        tasks.start(fail(ZeroDivisionError()), "fails")
        await asyncio.sleep(0)
        shutdown.request()
        with pytest.raises(ZeroDivisionError):
            await tasks.wait_for(asyncio.sleep(0))


async def test_a_body_that_is_cancelled_cancels_its_wait_and_every_task() -> None:
    waited, started = asyncio.get_running_loop().create_future(), asyncio.Queue()

    async def body() -> None:
        async with BackgroundTasks(Shutdown()) as tasks:
            started.put_nowait(tasks.start(forever(), "forever"))
            await tasks.wait_for(waited)

    running = asyncio.create_task(body())
    task = await started.get()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert waited.cancelled()
    assert task.cancelled()


async def test_a_hangup_asks_for_a_reload_and_for_the_end_where_the_terminal_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = os.openpty()
    monkeypatch.setattr("bot.process.shutdown.STDIN", theirs)
    shutdown = Shutdown()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    shutdown.listen()
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait_for(shutdown.reload.wait(), 5)
        assert not shutdown.requested.is_set()
        os.close(ours)
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait_for(shutdown.requested.wait(), 5)
    finally:
        for number, handler in before.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, handler)
        os.close(theirs)


async def test_each_signal_is_a_request() -> None:
    shutdown, loop = Shutdown(), asyncio.get_running_loop()
    shutdown.listen()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(20):
            await shutdown.requested.wait()
        assert not shutdown.now.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        async with asyncio.timeout(20):
            await shutdown.now.wait()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)


def test_a_process_with_a_thread_that_still_compiles_ends_without_unloading_libraries() -> None:
    program = """
import atexit, threading
from bot.process.shutdown import run_process
from bot.process.threads import in_uninterruptible_thread
async def main(shutdown):
    in_uninterruptible_thread(threading.Event().wait)
atexit.register(print, "unloaded")
run_process(main)
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=60, check=False, stdout=subprocess.PIPE)
    assert (ended.returncode, ended.stdout) == (0, b"")

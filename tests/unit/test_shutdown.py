"""Background tasks and the two requests to shut down, with a failure injected at each seam."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from bot.process.shutdown import BackgroundTasks, Shutdown, ShutdownRequested
from bot.process.threads import in_uninterruptible_thread, uninterruptible_thread_runs


async def forever() -> None:
    await asyncio.Event().wait()


async def fail(error: Exception, *, after: asyncio.Event | None = None) -> None:
    if after is not None:
        await after.wait()
    raise error


async def test_a_wait_returns_its_result_while_the_tasks_go_on() -> None:
    async with BackgroundTasks(Shutdown()) as tasks:
        task = tasks.start(forever(), "forever")
        assert await tasks.wait_for(asyncio.sleep(0, "result")) == "result"
        assert not task.done()
    assert task.cancelled()


async def test_a_wait_raises_its_own_failure() -> None:
    async with BackgroundTasks(Shutdown()) as tasks:
        with pytest.raises(ZeroDivisionError):
            await tasks.wait_for(fail(ZeroDivisionError()))


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
                await asyncio.sleep(0.01)
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


async def test_a_task_that_ends_without_a_failure_ends_a_wait() -> None:
    async with BackgroundTasks(Shutdown()) as tasks:
        tasks.start(asyncio.sleep(0), "ends")
        with pytest.raises(ShutdownRequested):
            await tasks.wait_for_shutdown()


async def test_a_task_that_is_cancelled_from_outside_cancels_a_wait() -> None:
    async with BackgroundTasks(Shutdown()) as tasks:
        tasks.start(forever(), "forever").cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks.wait_for_shutdown()


async def test_a_body_that_is_cancelled_cancels_its_wait_and_every_task() -> None:
    waited, started = asyncio.get_running_loop().create_future(), []

    async def body() -> None:
        async with BackgroundTasks(Shutdown()) as tasks:
            started.append(tasks.start(forever(), "forever"))
            await tasks.wait_for(waited)

    running = asyncio.create_task(body())
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert waited.cancelled()
    assert started[0].cancelled()


async def test_leaving_waits_for_the_end_of_each_task_with_any_error() -> None:
    ended = []

    async def slow_to_end() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0.01)
            ended.append("slow")
            raise ZeroDivisionError

    async with BackgroundTasks(Shutdown()) as tasks:
        tasks.start(slow_to_end(), "slow")
        await asyncio.sleep(0)
    assert ended == ["slow"]


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


async def test_a_drain_outlasts_the_first_request_and_ends_with_the_second() -> None:
    shutdown, work = Shutdown(), asyncio.create_task(forever())
    shutdown.request()
    draining = asyncio.create_task(shutdown.drain(work))
    await asyncio.sleep(0.01)
    assert not work.done()
    shutdown.request()
    await draining
    assert work.cancelled()


async def test_a_drain_waits_for_the_end_of_the_work_and_raises_no_failure_of_it() -> None:
    now = asyncio.Event()
    work = asyncio.create_task(fail(ZeroDivisionError(), after=now))
    draining = asyncio.create_task(Shutdown().drain(work))
    await asyncio.sleep(0.01)
    assert not draining.done()
    now.set()
    await draining
    assert isinstance(work.exception(), ZeroDivisionError)


async def test_a_cancelled_drain_cancels_the_work_and_waits_for_its_end() -> None:
    work = asyncio.create_task(forever())
    draining = asyncio.create_task(Shutdown().drain(work))
    await asyncio.sleep(0.01)
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining
    assert work.cancelled()


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


async def test_a_thread_counts_as_uninterruptible_until_its_work_ends() -> None:
    go_on = threading.Event()
    finished = in_uninterruptible_thread(go_on.wait)
    assert uninterruptible_thread_runs()
    go_on.set()
    assert await finished
    async with asyncio.timeout(20):
        while uninterruptible_thread_runs():  # noqa: ASYNC110 - the end of a thread sets no event
            await asyncio.sleep(0.01)


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

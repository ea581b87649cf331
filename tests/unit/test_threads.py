"""Threads for calls that block."""

import asyncio
import subprocess
import sys
import threading
from functools import partial

import pytest

from bot.process.threads import Deadline, Threads, TooLong


async def test_a_call_that_hangs_keeps_one_slot_until_it_ends() -> None:
    threads, hung = Threads("test", most=2), threading.Event()
    with pytest.raises(TimeoutError):
        await threads.run_within(0.01, hung.wait)
    assert await threads.run(lambda: "beside it") == "beside it"
    waiting = asyncio.create_task(threads.run(hung.wait))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await threads.run_within(0.01, lambda: "behind both")
    hung.set()
    assert await waiting
    assert await threads.run(lambda: "after them") == "after them"


async def test_the_calls_of_one_owner_leave_threads_to_the_others() -> None:
    threads, hung, began = Threads("test", most=2, share=1), threading.Event(), list[int]()

    def hang(number: int) -> None:
        began.append(number)
        hung.wait()

    calls = [asyncio.create_task(threads.run_for(["one"], partial(hang, number))) for number in range(4)]
    await asyncio.sleep(0)
    calls[0].cancel()  # its call goes on, and counts
    calls[1].cancel()  # it has not begun
    assert await threads.run_for(["other"], lambda: "beside them") == "beside them"
    assert began == [0]
    hung.set()
    await asyncio.gather(*calls[2:])
    assert began == [0, 2, 3]
    assert await threads.run_for(["one"], lambda: "after them") == "after them"


async def test_the_calls_of_one_owner_leave_a_shared_turn_to_others() -> None:
    threads, hung, began = Threads("test", most=2, share=1), threading.Event(), list[str]()

    def note(name: str) -> None:
        began.append(name)
        hung.wait()

    calls = [threads.run_for([name, "server"], partial(note, name)) for name in ("a", "a", "a", "b")]
    running = asyncio.gather(*calls)
    await asyncio.sleep(0)
    hung.set()
    await running
    assert began == ["a", "b", "a", "a"]


async def test_the_error_of_a_call_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await Threads("test", most=1).run(lambda: 1 // 0)


def test_a_process_ends_although_a_call_hangs() -> None:
    program = """
import asyncio, contextlib, threading
from bot.process.threads import Threads
async def main():
    with contextlib.suppress(TimeoutError):
        await Threads("test", most=1).run_within(0.01, threading.Event().wait)
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


def test_the_piece_that_took_the_most_time_is_named_once_the_time_is_over() -> None:
    now = [5.0]
    check = Deadline(1.0, lambda: now[0])
    for piece, seconds in (("", 0.1), ("Slow", 0.3), ("Last", 0.2), ("Slow", 0.1), ("Last", 0.15)):
        check(piece)
        now[0] += seconds
    check("More")  # 0.85 s
    now[0] += 0.2
    with pytest.raises(TooLong) as late:
        check("None")
    assert late.value.piece == "Slow"

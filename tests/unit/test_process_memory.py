"""The heap is trimmed regularly while a worker runs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bot.process import memory


async def test_the_heap_is_trimmed_regularly_until_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    twice, times = threading.Event(), list[int]()

    def count() -> None:
        times.append(1)
        if len(times) == 2:
            twice.set()

    monkeypatch.setattr(memory, "trim", count)
    monkeypatch.setattr(memory, "SECONDS_BETWEEN_TRIMS", 0.0)
    trimming = asyncio.create_task(memory.trim_regularly())
    assert await asyncio.to_thread(twice.wait, 10.0)
    trimming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trimming


def test_a_trim_needs_no_particular_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.trim()
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _name: object())
    memory.trim()

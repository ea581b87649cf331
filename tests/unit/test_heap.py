"""The heap is trimmed regularly while a worker runs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bot.process import heap


async def test_the_heap_is_trimmed_regularly_until_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    twice, times = threading.Event(), list[int]()

    def count() -> None:
        times.append(1)
        if len(times) == 2:
            twice.set()

    monkeypatch.setattr(heap, "trim", count)
    monkeypatch.setattr(heap, "SECONDS_BETWEEN_TRIMS", 0.0)
    trimming = asyncio.create_task(heap.trim_regularly())
    assert await asyncio.to_thread(twice.wait, 10.0)
    trimming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trimming


def test_a_trim_needs_no_particular_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    heap.trim()
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _name: object())
    heap.trim()

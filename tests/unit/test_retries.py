"""Retries of what the disk or the database refuses."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest
from stores import Clock

from bot.domain.errors import StoreUnavailable
from bot.process.retries import FIRST_PAUSE, LONGEST_PAUSE, LONGEST_RESTART, keep_running, while_unavailable


class Refusing:
    """A verb whose first `times` calls fail."""

    def __init__(self, times: int, error: type[Exception] = StoreUnavailable) -> None:
        self.calls = 0
        self._times = times
        self._error = error

    async def __call__(self, value: str, *, twice: bool) -> str:
        self.calls += 1
        if self.calls <= self._times:
            raise self._error("the disk is full")
        return value * 2 if twice else value


async def test_a_verb_is_called_again_until_the_store_can_be_used(caplog: pytest.LogCaptureFixture) -> None:
    verb = Refusing(2)
    with caplog.at_level(logging.WARNING, logger="bot.process.retries"):
        assert await while_unavailable(60.0, verb, "a", twice=True) == "aa"
    assert verb.calls == 3
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == ["the disk is full"] * 2


async def test_the_last_error_is_raised_once_the_time_is_over() -> None:
    verb = Refusing(1000)
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await while_unavailable(0.3, verb, "a", twice=False)
    assert verb.calls > 1


async def test_any_other_error_is_raised_at_once() -> None:
    verb = Refusing(1, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        await while_unavailable(60.0, verb, "a", twice=False)
    assert verb.calls == 1


async def test_the_pauses_are_random_and_grow_between_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def slept(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", slept)
    random.seed(1)
    for _ in range(50):
        await while_unavailable(60.0, Refusing(12), "a", twice=False)
    first, last = pauses[::12], pauses[11::12]
    assert FIRST_PAUSE / 2 <= min(pauses) < FIRST_PAUSE * 0.6
    assert max(first) <= FIRST_PAUSE < max(pauses[1::12])
    assert 0.9 * LONGEST_PAUSE < max(last) <= LONGEST_PAUSE


class Failing:
    """Work whose first starts fail; it ends with the next."""

    def __init__(self, failures: int, *, clock: Clock, seconds: float = 0.0) -> None:
        self.left = failures
        self.pauses: list[float] = []
        self._clock = clock
        self._seconds = seconds

    async def __call__(self) -> str:
        self._clock.now += self._seconds
        if self.left:
            self.left -= 1
            raise ZeroDivisionError
        return "ended"

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


async def test_endless_work_that_fails_is_logged_and_starts_again_after_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    work = Failing(9, clock=clock)
    with caplog.at_level(logging.ERROR, logger="bot.process.retries"):
        assert await keep_running(work, "outbox", pause=work.pause, clock=clock) == "ended"
    assert work.pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST_RESTART, LONGEST_RESTART]
    assert caplog.records[0].getMessage() == "the outbox failed and starts again in 0.5 s"
    assert len(caplog.records) == 9


async def test_pauses_begin_anew_after_work_that_ran_for_long() -> None:
    clock = Clock()
    work = Failing(4, clock=clock, seconds=LONGEST_RESTART + 1)
    await keep_running(work, "outbox", pause=work.pause, clock=clock)
    assert work.pauses == [0.5] * 4


async def test_a_fatal_error_ends_endless_work() -> None:
    clock = Clock()
    work = Failing(1, clock=clock)
    with pytest.raises(ZeroDivisionError):
        await keep_running(work, "outbox", fatal=(ZeroDivisionError,), pause=work.pause, clock=clock)

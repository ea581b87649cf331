"""Steps run in their order, are reported, and fail alone; stopping waits for the running step only."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import pytest

from sdjax_engine.request import Lane
from sdjax_engine.scheduler.thread import Wanted
from sdjax_engine.startup.warm_up import Requests, Step, WarmUp

DEADLINE = 20.0
LANE, OTHER = ((Lane(model="tiny", height=size, width=size, guided=True), False) for size in (16, 32))
FROM_PICTURE = (LANE[0], True)


def never(error: Exception) -> None:
    raise AssertionError(f"a step failed: {error}")


def step(
    name: str, make: Callable[[], None] = lambda: None, fail: Callable[[Exception], None] = never
) -> Step:
    return Step(name=name, make=make, fail=fail)


@dataclass
class RunningRequests:
    """Whether requests run, and what they wait for, set by a test."""

    has_requests: bool = True
    awaited: Collection[Wanted] = ()


def warm_up(
    *steps: Step, report: Callable[[str], None] = lambda _line: None, requests: Requests | None = None
) -> WarmUp:
    """Return a warm-up, which gives way where there are `requests`."""
    return WarmUp(
        steps,
        done=["the first"],
        at_once=1,
        report=report,
        seconds=lambda: 2.0,
        requests=requests or RunningRequests(),
        gives_way=requests is not None,
    )


def test_a_waiting_caller_continues_although_the_report_fails() -> None:
    def report(line: str) -> None:
        if line.startswith("everything"):
            raise OSError("standard error is closed")

    assert warm_up(step("a"), report=report).wait(DEADLINE)


def test_a_step_that_fails_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    def break_down() -> None:
        raise ValueError("a program of it is wrong")

    said: list[str] = []
    failures: list[Exception] = []
    steps = step("bad", make=break_down, fail=failures.append), step("good")
    with caplog.at_level(logging.ERROR):
        assert warm_up(*steps, report=said.append).wait(DEADLINE)
    assert [str(failure) for failure in failures] == ["a program of it is wrong"]
    assert said[1:] == [
        "bad cannot be made ready: a program of it is wrong (2 of 3)",
        "ready for good after 2.0 s",
        "everything ready after 2.0 s, but for 1 of 3",
    ]
    assert "bad could not be made ready" in caplog.text


def test_a_step_under_way_ends_and_no_other_begins_after_the_last_was_said_to_be() -> None:
    begun, opened = threading.Event(), threading.Event()
    made: list[str] = []

    def make() -> None:
        begun.set()
        assert opened.wait(DEADLINE)
        made.append("first")

    warming = warm_up(step("first", make=make), step("second", make=lambda: made.append("second")))
    assert begun.wait(DEADLINE)
    warming.begin_no_more()
    assert (warming.stopped, warming.wait(0)) == (True, False)
    opened.set()
    warming.stop()
    assert (made, warming.wait(0)) == (["first"], True)


def test_a_warm_up_that_begins_no_more_begins_only_the_half_that_a_request_waits_for() -> None:
    made: list[str] = []
    steps = [
        replace(step("pictures", lambda: made.append("pictures")), opens=frozenset([FROM_PICTURE])),
        replace(step("lane", lambda: made.append("lane")), opens=frozenset([LANE, FROM_PICTURE])),
    ]
    here, opened = RunningRequests(awaited=[LANE]), threading.Event()

    def report(_line: str) -> None:
        here.awaited = []
        opened.set()

    warming = WarmUp(steps, at_once=1, report=report, seconds=lambda: 2.0, requests=here, ending=True)
    assert opened.wait(DEADLINE)
    warming.stop()
    assert made == ["lane"]


@pytest.mark.parametrize("end", ["painted", "somebody waits for it", "out of patience"])
def test_a_step_yields_to_running_pictures(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd, made = RunningRequests(), threading.Event()
    monkeypatch.setattr(
        "sdjax_engine.startup.warm_up.PATIENCE", 0.3 if end == "out of patience" else 10 * DEADLINE
    )
    warming = warm_up(step("next", made.set), requests=crowd)
    if end != "out of patience":
        assert not made.wait(0.5)
    crowd.has_requests = end != "painted"
    crowd.awaited = [LANE] if end == "somebody waits for it" else []
    assert made.wait(DEADLINE)
    assert warming.wait(DEADLINE)


def test_stopping_does_not_wait_for_running_pictures() -> None:
    made = threading.Event()
    warming = warm_up(step("next", made.set), requests=RunningRequests())
    warming.stop()
    assert warming.wait(0)
    assert not made.is_set()

"""The lines of the log about an outage of the queue."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from bot.domain.errors import StoreUnavailable
from bot.store.database.outage import LINE_SECONDS, MOST_REASONS, SETTLED_SECONDS, Outage
from bot.telemetry.log import flush, set_up
from bot.telemetry.tracing import about

FULL, LOCKED = "The disk is full.", "The file is locked."
loops = logging.getLogger("bot.a_loop")


class Scene:
    """The current outage, if any, a clock, and the log that a process writes."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._stream = io.StringIO()
        self._outage: Outage | None = None
        set_up("info", "text", self._stream)

    def fail(self, reason: str = FULL) -> None:
        """Fail once, and log it as a loop does."""
        error = StoreUnavailable(reason)
        if self._outage is None:
            self._outage = Outage(lambda: self.now)
        self._outage.failed(error)
        loops.error("nothing can be claimed: %s", error)

    def work(self) -> None:
        """Use the database once."""
        if self._outage is not None and self._outage.worked():
            self._outage = None

    def fail_for(self, seconds: int) -> None:
        """Fail ten times a second."""
        for _ in range(10 * seconds):
            self.fail()
            self.now += 0.1

    def work_for(self, seconds: float) -> None:
        """Use the database twice a second."""
        ends = self.now + seconds
        while self.now < ends:
            self.work()
            self.now += 0.5
        self.work()

    def lines(self) -> list[str]:
        """The messages that were written, with their level."""
        flush()
        return [line.split(maxsplit=2)[2] for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def scene() -> Iterator[Scene]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield Scene()
    root.handlers[:] = handlers
    root.setLevel(level)


BEGUN = f"ERROR   bot.store.database.outage the queue cannot be used: {FULL}"


def ended(seconds: int) -> str:
    return f"WARNING bot.store.database.outage the queue can be used again, after {seconds} s"


def test_a_short_outage_has_one_line_at_its_beginning_and_one_at_its_end(scene: Scene) -> None:
    scene.fail_for(11)
    assert scene.lines() == [BEGUN]
    scene.work_for(SETTLED_SECONDS)
    assert scene.lines() == [BEGUN, ended(11)]
    scene.work_for(LINE_SECONDS)
    assert scene.lines() == [BEGUN, ended(11)]


def test_a_long_outage_has_one_line_a_minute(scene: Scene) -> None:
    scene.fail_for(150)
    scene.work_for(SETTLED_SECONDS)
    last = [
        f"ERROR   bot.store.database.outage the queue cannot be used, for {n} s now: {FULL}"
        for n in (60, 120)
    ]
    assert scene.lines() == [BEGUN, *last, ended(150)]


def test_successes_between_failures_end_no_outage(scene: Scene) -> None:
    scene.fail()
    scene.work_for(SETTLED_SECONDS - 6)  # reads succeed while the disk is full
    scene.fail()
    scene.work_for(SETTLED_SECONDS)
    assert scene.lines() == [BEGUN, ended(39)]


def test_the_next_outage_is_told_again(scene: Scene) -> None:
    for _ in range(2):
        scene.fail_for(1)
        scene.work_for(SETTLED_SECONDS)
    assert scene.lines() == [BEGUN, ended(1)] * 2


def test_alternating_reasons_are_told_together_and_none_is_lost(scene: Scene) -> None:
    for _ in range(70):
        scene.fail(FULL)
        scene.fail(LOCKED)
        scene.now += 1.0
    scene.fail("The file is damaged.")
    scene.work_for(SETTLED_SECONDS)
    assert scene.lines() == [
        BEGUN,
        f"ERROR   bot.store.database.outage the queue cannot be used, for 60 s now: {LOCKED} {FULL}",
        f"{ended(70)}; other failures meanwhile: The file is damaged.",
    ]


def test_reasons_that_never_repeat_do_not_fill_a_line(scene: Scene) -> None:
    for number in range(1000):
        scene.fail(f"No {number}.")
    scene.now += LINE_SECONDS
    scene.fail("The last.")
    assert scene.lines()[1].count("No ") == MOST_REASONS


def test_other_errors_are_logged_during_an_outage(scene: Scene) -> None:
    scene.fail()
    loops.error("nothing can be kept: %s", StoreUnavailable("Results cannot be written."))
    loops.error("nothing can be claimed: %s", ValueError("a bug"))
    loops.error("%(one)s is no tuple", {"one": "this"})
    assert scene.lines() == [
        BEGUN,
        "ERROR   bot.a_loop nothing can be kept: Results cannot be written.",
        "ERROR   bot.a_loop nothing can be claimed: a bug",
        "ERROR   bot.a_loop this is no tuple",
    ]


def test_the_lines_name_no_job(scene: Scene) -> None:
    with about("3f9k2"):
        scene.fail()
    assert scene.lines() == [BEGUN]

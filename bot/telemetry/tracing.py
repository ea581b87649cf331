"""The subject and the stages of work, for the log and for traces: one trace a job, from command to delivery.

    command ──► queue ──► paint ──► deliver          one trace a job
    a front     ├──────────────┘    a front
                a worker, for each image

The command's span has the `traceparent` that the job's row keeps. The others are its children. The classes
here record nothing: `bot.telemetry.otlp` has those that export.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

Attributes = Mapping[str, str | int | float | bool]
"""Attributes of a span. Never prompts, names of people or tokens."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_subject: ContextVar[Mapping[str, Any]] = ContextVar("subject", default=_NOTHING)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage; both times are in seconds since the epoch."""

    name: str
    began: float
    ended: float


class Stages:
    """The stages of one piece of work, one after the other; a stage may come again.

    `wall`, in seconds since the epoch, is read once. Only the `steady` clock counts after that: a jump of the
    system's clock changes no duration. Any thread may enter a stage.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.perf_counter
    ) -> None:
        self._steady = steady
        self._offset = wall() - steady()
        self._lock = threading.Lock()
        self._ended: list[Stage] = []
        self._running = ""
        self.began = self._running_since = self._now()

    def enter(self, name: str) -> None:
        """End the running stage, and begin another; does nothing if the stage `name` runs already."""
        with self._lock:
            if name == self._running:
                return
            now = self._now()
            if self._running:
                self._ended.append(Stage(name=self._running, began=self._running_since, ended=now))
            self._running, self._running_since = name, now

    def end(self) -> None:
        """End the stage that runs."""
        self.enter("")

    @property
    def all(self) -> tuple[Stage, ...]:
        """The stages that have ended, in order."""
        return tuple(self._ended)

    @property
    def ended(self) -> float:
        """When the last stage ended, in seconds since the epoch; the beginning, if none has."""
        return self._ended[-1].ended if self._ended else self.began

    @property
    def durations(self) -> Mapping[str, float]:
        """The seconds of each stage by its name, and of the whole as `total`; milliseconds are kept."""
        seconds: dict[str, float] = defaultdict(float)
        for stage in self._ended:
            seconds[stage.name] += stage.ended - stage.began
        seconds["total"] = self.ended - self.began
        return {name: round(value, 3) for name, value in seconds.items()}

    def _now(self) -> float:
        return self._offset + self._steady()


class Span:
    """A span that has begun; this class records nothing.

    `traceparent` names the span as W3C Trace Context does; None: it is not recorded.
    """

    traceparent: str | None = None

    def end(self, stages: Stages, attributes: Attributes) -> None:
        """Record the span with these stages. A span that is not ended is not recorded."""


class Tracing:
    """Records spans; this class records nothing. No method waits, except `close`."""

    def begin(self, name: str, stages: Stages) -> Span:
        """Return the first span of a new trace; it begins when `stages` began."""
        del name, stages
        return Span()

    def record(
        self,
        name: str,
        *,
        parent: str | None,
        work: Stage | Stages,
        attributes: Attributes,
        failed: bool = False,
    ) -> None:
        """Record a span, and the stages of its `work` as spans below it.

        `parent` is the `traceparent` of the job. Nothing is recorded for a job without a trace.
        """

    async def close(self) -> None:
        """Export what is left, for a few seconds at most."""


NO_TRACING: Final = Tracing()


@contextmanager
def about(
    job_id: str, *, image: int | None = None, lane: str | None = None, traceparent: str | None = None
) -> Iterator[None]:
    """Add these to every line logged inside the block, in this task and the tasks it starts.

    `image` is an image's id, `traceparent` that of the job; the lines name its trace.
    """
    trace = None if traceparent is None else traceparent.split("-")[1]
    said = {"job": job_id, "image": image, "lane": lane, "trace": trace}
    before = _subject.set({name: value for name, value in said.items() if value is not None})
    try:
        yield
    finally:
        _subject.reset(before)


def subject() -> Mapping[str, Any]:
    """Return what the work of this task is about: values by the names of `about`, `trace` the trace's id."""
    return _subject.get()

"""A JAX profiler's trace of an engine: each device's programs, and the host's work.

The devices' times are those of XLA's operations, which the profiler records on the threads that compute, not
of the calls that queued them.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

HOST = "engine: "
"""The prefix of the host's annotations."""


@dataclass(frozen=True, kw_only=True)
class TraceSpan:
    """A piece of work, `what`, from `begin` to `end` in seconds."""

    what: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.end - self.begin


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The programs of each device in order, and the host's work, from `begin` to `end`."""

    devices: dict[int, list[TraceSpan]]
    host: list[TraceSpan]
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.end - self.begin

    def busy(self, device: int) -> float:
        """Return the share of the time in which a device ran a program."""
        return sum(span.seconds for span in self.devices[device]) / self.seconds

    def gaps(self, device: int) -> list[TraceSpan]:
        """Return when a device was idle, and the programs before and after."""
        return [
            TraceSpan(what=f"{before.what} to {after.what}", begin=before.end, end=after.begin)
            for before, after in pairwise(self.devices[device])
            if after.begin > before.end
        ]

    def meanwhile(self, gap: TraceSpan) -> Iterator[TraceSpan]:
        """Yield the host's work in a gap."""
        for span in self.host:
            begin, end = max(gap.begin, span.begin), min(gap.end, span.end)
            if begin < end:
                yield TraceSpan(what=span.what, begin=begin, end=end)


def read_timeline(folder: Path) -> Timeline:
    """Read the profiler's files in `folder`, from the first to the last run."""
    [path] = folder.rglob("*.trace.json.gz")
    with gzip.open(path) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    devices = {device: _programs(spans) for device, spans in _operations(events).items()}
    runs = [span for spans in devices.values() for span in spans if span.what == "denoise"]
    begin, end = min(span.begin for span in runs), max(span.end for span in runs)
    return Timeline(
        devices={device: list(_within(spans, begin, end)) for device, spans in sorted(devices.items())},
        host=list(_within(_annotations(events), begin, end)),
        begin=begin,
        end=end,
    )


def _operations(events: Iterable[dict[str, Any]]) -> dict[int, dict[tuple[str, str], list[TraceSpan]]]:
    """Return XLA's operations: device → (program, execution) → operations."""
    found: dict[int, dict[tuple[str, str], list[TraceSpan]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        told = event.get("args") or {}
        if "hlo_op" in told and "device_ordinal" in told:
            execution = told["hlo_module"].removeprefix("jit_"), told["run_id"]
            found[int(told["device_ordinal"])][execution].append(_span(told["hlo_op"], event))
    return found


def _programs(executions: dict[tuple[str, str], list[TraceSpan]]) -> list[TraceSpan]:
    """Return each execution from its first operation to its last; they do not overlap."""
    spans = sorted(
        (min(each.begin for each in operations), max(each.end for each in operations), what)
        for (what, _), operations in executions.items()
    )
    programs: list[TraceSpan] = []
    for begin, end, what in spans:
        free = programs[-1].end if programs else begin
        programs.append(TraceSpan(what=what, begin=max(begin, free), end=max(end, free)))
    return programs


def _annotations(events: Iterable[dict[str, Any]]) -> list[TraceSpan]:
    spans = [
        _span(event["name"].removeprefix(HOST), event) for event in events if event["name"].startswith(HOST)
    ]
    return sorted(spans, key=lambda span: span.begin)


def _span(what: str, event: dict[str, Any]) -> TraceSpan:
    begin = event["ts"] / 1e6
    return TraceSpan(what=what, begin=begin, end=begin + event["dur"] / 1e6)


def _within(spans: Sequence[TraceSpan], begin: float, end: float) -> Iterator[TraceSpan]:
    for span in spans:
        if begin <= span.begin and span.end <= end:
            yield span

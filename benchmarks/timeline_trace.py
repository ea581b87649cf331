"""What JAX's profiler saw of an engine: which program each device ran when, and what the host did meanwhile.

The devices' times are those of XLA's own operations, which the profiler records where they run (on the CPU
on the threads that compute), not those of the calls that queued them.
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
"""What the host's annotations begin with."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """From `begin` to `end`, in seconds, `what` was done."""

    what: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.begin


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The programs of each device, in order, and what the host did, from `begin` to `end`."""

    devices: dict[int, list[Span]]
    host: list[Span]
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long the timeline is."""
        return self.end - self.begin

    def busy(self, device: int) -> float:
        """The share of the time in which a device had a program in work."""
        return sum(span.seconds for span in self.devices[device]) / self.seconds

    def gaps(self, device: int) -> list[Span]:
        """When a device had nothing in work, and which programs were before and after."""
        return [
            Span(what=f"{before.what} to {after.what}", begin=before.end, end=after.begin)
            for before, after in pairwise(self.devices[device])
            if after.begin > before.end
        ]

    def meanwhile(self, gap: Span) -> Iterator[Span]:
        """What the host did in a gap."""
        for span in self.host:
            begin, end = max(gap.begin, span.begin), min(gap.end, span.end)
            if begin < end:
                yield Span(what=span.what, begin=begin, end=end)


def read_timeline(folder: Path) -> Timeline:
    """Read what the profiler wrote into `folder`, from the first to the last of its runs."""
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


def _operations(events: Iterable[dict[str, Any]]) -> dict[int, dict[tuple[str, str], list[Span]]]:
    """XLA's operations: device → program and execution → operations."""
    found: dict[int, dict[tuple[str, str], list[Span]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        told = event.get("args") or {}
        if "hlo_op" in told and "device_ordinal" in told:
            execution = told["hlo_module"].removeprefix("jit_"), told["run_id"]
            found[int(told["device_ordinal"])][execution].append(_span(told["hlo_op"], event))
    return found


def _programs(executions: dict[tuple[str, str], list[Span]]) -> list[Span]:
    """Each execution from its first operation to its last, none before the one before it has ended."""
    spans = sorted(
        (min(each.begin for each in operations), max(each.end for each in operations), what)
        for (what, _), operations in executions.items()
    )
    programs: list[Span] = []
    for begin, end, what in spans:
        free = programs[-1].end if programs else begin
        programs.append(Span(what=what, begin=max(begin, free), end=max(end, free)))
    return programs


def _annotations(events: Iterable[dict[str, Any]]) -> list[Span]:
    spans = [
        _span(event["name"].removeprefix(HOST), event) for event in events if event["name"].startswith(HOST)
    ]
    return sorted(spans, key=lambda span: span.begin)


def _span(what: str, event: dict[str, Any]) -> Span:
    begin = event["ts"] / 1e6
    return Span(what=what, begin=begin, end=begin + event["dur"] / 1e6)


def _within(spans: Sequence[Span], begin: float, end: float) -> Iterator[Span]:
    for span in spans:
        if begin <= span.begin and span.end <= end:
            yield span

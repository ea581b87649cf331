"""How lanes share the devices, and how that changes while an image waits; no I/O.

The pace of a lane, in seconds per step, is measured while other lanes share the devices. A step takes less
time when another lane runs out of work, and more when another lane gets work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One lane: its seats, the taken seats, and its present seconds per step.

    `left` are the steps of all waiting and running images, `inflow` the steps that arrive in a second.
    """

    seats: int
    taken: int
    pace: float
    left: float
    inflow: float


def faster(lane: str, steps: float, flows: Mapping[str, Flow]) -> float:
    """Return the ratio of the expected seconds of so many steps of a lane to those at its present pace.

    Lanes share the devices' time in proportion to their wanted seats. Another lane may finish its work
    meanwhile; after that it takes only the time that its inflow needs.
    """
    mine = flows[lane]
    busy = {name: flow for name, flow in flows.items() if flow.taken or name == lane}
    taken = sum(max(1, flow.taken) for flow in busy.values())
    # Seconds of all devices for one step of one image.
    costs = {name: flow.pace * max(1, flow.taken) / taken / flow.seats for name, flow in busy.items()}
    left = {name: flow.left * costs[name] for name, flow in busy.items() if name != lane}
    coming = {name: flow.inflow * costs[name] for name, flow in busy.items() if name != lane}
    work, now = steps * costs[lane], max(1, mine.taken) / taken
    if not left or work <= 0:
        return 1.0
    took = 0.0
    while True:
        wanted = mine.seats + sum(flows[name].seats for name in left)
        free = max(0.1, 1 - sum(coming[name] for name in coming if name not in left))
        rate = free * mine.seats / wanted
        drains = {
            name: left[name] / (free * flows[name].seats / wanted - coming[name])
            for name in left
            if free * flows[name].seats / wanted > coming[name]
        }
        ends = min(drains.values(), default=work / rate)
        if work / rate <= ends:
            return (took + work / rate) * now / (steps * costs[lane])
        took, work = took + ends, work - ends * rate
        left = {
            name: left[name] - ends * (free * flows[name].seats / wanted - coming[name])
            for name in left
            if drains.get(name) != ends
        }

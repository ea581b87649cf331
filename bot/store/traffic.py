"""How lanes share the devices, and how that will change while one waits; no I/O.

What a step takes in a lane is measured while others take turns with it. Once the others have nothing left it
goes faster, and slower once more of them have work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One lane: its seats, how many of them are taken, and the seconds that a step takes there as it is now.

    `left` are the steps of all images that wait or run, `inflow` those that come in a second.
    """

    seats: int
    taken: int
    pace: float
    left: float
    inflow: float


def faster(lane: str, steps: float, flows: Mapping[str, Flow]) -> float:
    """What part of the seconds told by its present pace so many steps of a lane will take.

    The devices' time goes to lanes by the seats that each wants. Each other lane is worked off meanwhile, and
    then takes no more than what comes in.
    """
    mine = flows[lane]
    busy = {name: flow for name, flow in flows.items() if flow.taken or name == lane}
    taken = sum(max(1, flow.taken) for flow in busy.values())
    # Seconds of all devices that one step of one image takes.
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

"""Decides which units to start, drain and remove, so that each group has its target of units; no I/O.

A unit is one process on the cluster. The units of a group share a generation as long as they run with the
same configuration and version. Units of an earlier generation drain as those of the present one begin to
paint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

PATIENCE_SECONDS = 120.0
"""How long a new unit waits for resources before a unit of an earlier generation makes room for it."""


class Phase(StrEnum):
    """The phase of a unit's life."""

    PENDING = "pending"  # Ray has not placed it, or is placing it again
    STARTING = "starting"
    PAINTING = "painting"
    DRAINING = "draining"
    ENDED = "ended"  # after a drain


ACTIVE = (Phase.PENDING, Phase.STARTING, Phase.PAINTING)
_FIRST_TO_GO = {Phase.PENDING: 0, Phase.STARTING: 1, Phase.PAINTING: 2}


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One unit; `since` is when it entered its phase, in seconds of a steady clock."""

    name: str
    group: str
    generation: str
    phase: Phase
    since: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """How many units of a generation a group should have."""

    group: str
    generation: str
    count: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many units of each group to start, and the names of the units to drain and to remove."""

    start: Mapping[str, int]
    drain: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


def plan(targets: Sequence[Target], units: Sequence[Unit], *, now: float) -> Plan:
    """Return what to do now. A unit that Ray has not placed is removed, not drained: it holds no image."""
    start: dict[str, int] = {}
    going: list[Unit] = []
    known = {target.group for target in targets}
    going += [unit for unit in units if unit.group not in known and unit.phase in ACTIVE]
    for target in targets:
        ours = [unit for unit in units if unit.group == target.group]
        new = [unit for unit in ours if unit.generation == target.generation and unit.phase in ACTIVE]
        if (missing := target.count - len(new)) > 0:
            start[target.group] = missing
        going += _first(new, -missing)
        going += _replaced(target, ours, new, now=now)
    drain = tuple(unit.name for unit in going if unit.phase is not Phase.PENDING)
    unplaced = [unit.name for unit in going if unit.phase is Phase.PENDING]
    ended = [unit.name for unit in units if unit.phase is Phase.ENDED]
    return Plan(start=start, drain=drain, remove=(*ended, *unplaced))


def _first(units: Sequence[Unit], count: int) -> list[Unit]:
    """Return the units to give up first: those furthest from painting, then the latest."""
    order = sorted(units, key=lambda unit: (_FIRST_TO_GO[unit.phase], -unit.since, unit.name))
    return order[: max(0, count)]


def _replaced(target: Target, ours: Sequence[Unit], new: Sequence[Unit], *, now: float) -> list[Unit]:
    """Return the units of earlier generations that are not needed any more, or that must make room."""
    old = [unit for unit in ours if unit.generation != target.generation and unit.phase in ACTIVE]
    painting = sum(unit.phase is Phase.PAINTING for unit in new)
    surplus = _first(old, len(old) - max(0, target.count - painting))
    waits = any(unit.phase is Phase.PENDING and now - unit.since > PATIENCE_SECONDS for unit in new)
    makes_room = any(unit.phase is Phase.DRAINING for unit in ours)
    return surplus or (_first(old, 1) if waits and not makes_room else [])

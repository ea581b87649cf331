"""The controller: looks at the work that waits and at the units, and starts and drains units.

The controller keeps no state and reads the cluster at each look. A failed look or a dead controller costs
time only.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from bot.config import Config
from bot.domain.errors import StoreUnavailable
from bot.fleet.groups import launches, sizes
from bot.fleet.launch import Launch
from bot.fleet.planning import ACTIVE, Phase, Plan, Target, Unit, plan
from bot.fleet.sizing import History, Size, needs, wanted
from bot.fleet.unit_process import UnitState
from bot.store import Store
from bot.store.queue.demand import Demand

log = logging.getLogger(__name__)

STAND_IN_SECONDS = 120.0  # how long images wait for a group's first worker after the last poll


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a controller does: a configuration's text, the drained groups, and whether all are drained."""

    config: str = field(repr=False)
    drained: frozenset[str] = frozenset()
    stopping: bool = False

    def parsed(self) -> Config:
        """Return the configuration; raises ConfigurationError."""
        return Config.parse(tomllib.loads(self.config))


@dataclass(frozen=True, kw_only=True)
class GroupReport:
    """What a group has and should have. `phases` counts its units; `old` are of earlier generations."""

    group: str
    target: int
    phases: Mapping[Phase, int]
    old: int
    images: int
    work_seconds: float
    troubles: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The groups at the last look; `problem` is why a look failed, or empty."""

    groups: tuple[GroupReport, ...] = ()
    units: int = 0
    looks: int = 0
    problem: str = ""


class Cluster(Protocol):
    """The units on a cluster. Each method returns within a few seconds."""

    def units(self) -> Mapping[str, UnitState]:
        """Return the state of every unit, by name GROUP/GENERATION/ID; PENDING for an unplaced one."""

    def start(self, name: str, launch: Launch) -> None:
        """Let the cluster place a unit."""

    def drain(self, name: str) -> None:
        """Ask a unit to end its work."""

    def remove(self, name: str) -> None:
        """End a unit at once, for good."""


class Controller:
    """Applies one `spec` to a cluster, look by look. `clock` is steady, in seconds."""

    def __init__(self, spec: Spec, cluster: Cluster, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._spec = spec
        self._config = spec.parsed()
        self._launches = launches(self._config, spec.config)
        self._sizes = sizes(self._config)
        self._cluster = cluster
        self._clock = clock
        self._store: Store | None = None
        self._is_known = False  # whether the demand has rows for our classes
        self._seen: dict[str, History] = {}
        self._since: dict[tuple[str, Phase], float] = {}
        self._stands_in = False
        self.report = Report()

    async def run(self) -> None:
        """Poll every few seconds until cancelled; a failed poll is repeated."""
        while True:
            try:
                await self.look()
            except StoreUnavailable as error:
                self._failed(error)
            except Exception as error:
                log.exception("polling the fleet failed")
                self._failed(f"{type(error).__name__}: {error}")
            await asyncio.sleep(self._config.fleet.check_seconds)

    async def look(self) -> None:
        """Compare the units with the waiting work, and start and end units. Raises StoreUnavailable."""
        demand = () if self._spec.stopping else await (await self._opened()).demands.rows()
        now, states = self._clock(), self._cluster.units()
        units = self._units(states, now)
        targets = self._targets(demand, units, now)
        self._apply(plan(targets, units, now=now))
        await self._stand_in(demand, units)
        self.report = self._reported(targets, units, states, demand)

    async def _opened(self) -> Store:
        if self._store is None:
            self._store = await Store.open(self._config.queue.database)
        if not self._is_known:
            await self._store.demands.know(size.accelerator for size in self._sizes)
            self._is_known = True
        return self._store

    async def close(self) -> None:
        """Close the connections to the queue."""
        if self._store is not None:
            await self._store.close()

    def _failed(self, problem: str | StoreUnavailable) -> None:
        log.error("the fleet stays as it is: %s", problem)
        self.report = replace(self.report, problem=str(problem), looks=self.report.looks + 1)

    def _units(self, states: Mapping[str, UnitState], now: float) -> list[Unit]:
        since = {
            (name, state.phase): self._since.get((name, state.phase), now) for name, state in states.items()
        }
        self._since = since
        found = []
        for name, state in states.items():
            group, generation, _ = name.split("/")
            found.append(
                Unit(
                    name=name,
                    group=group,
                    generation=generation,
                    phase=state.phase,
                    since=since[name, state.phase],
                )
            )
        return found

    def _targets(self, demand: Sequence[Demand], units: Sequence[Unit], now: float) -> list[Target]:
        if self._spec.stopping:
            return []
        needed = needs(demand, [size for size in self._sizes if size.group not in self._spec.drained])
        counts = {group.name: group.least for group in self._config.fleet.groups}  # of fronts
        for size in self._sizes:
            # During an upgrade a worker of the earlier generation and its successor count as one.
            mine = [unit for unit in units if unit.group == size.group and unit.phase in ACTIVE]
            new = sum(map(self._is_new, mine))
            counts[size.group], self._seen[size.group] = wanted(
                size,
                needed.get(size.group, 0),
                current=max(new, len(mine) - new),
                seen=self._seen.get(size.group, ()),
                now=now,
            )
        return [
            Target(
                group=name,
                generation=self._launches[name].generation,
                count=0 if name in self._spec.drained else count,
            )
            for name, count in counts.items()
        ]

    def _apply(self, found: Plan) -> None:
        for group, count in found.start.items():
            launch = self._launches[group]
            for _ in range(count):
                self._cluster.start(f"{group}/{launch.generation}/{secrets.token_hex(4)}", launch)
        for name in found.drain:
            self._cluster.drain(name)
        for name in found.remove:
            self._cluster.remove(name)
        if found.start or found.drain or found.remove:
            log.info("started %s, drained %d, removed %d", found.start, len(found.drain), len(found.remove))

    async def _stand_in(self, demand: Sequence[Demand], units: Sequence[Unit]) -> None:
        """Offer lanes that only groups without a painting worker could paint, so that their images wait.

        Lanes of a model that some worker paints are left out: if that worker does not offer one, none will.
        """
        paint = {unit.group for unit in units if unit.phase is Phase.PAINTING and self._is_new(unit)}
        away = [size for size in self._sizes if size.group not in paint | self._spec.drained]
        there = [size for size in self._sizes if size.group in paint]
        models = _models(away) - _models(there)
        lanes = sorted({row.lane for row in demand if row.model in models and (row.images or row.running)})
        if lanes or self._stands_in:
            ttl = max(STAND_IN_SECONDS, 4 * self._config.fleet.check_seconds)
            store = await self._opened()
            await store.offers.stand_in(f"fleet {self._config.fleet.name}", lanes=lanes, ttl=ttl)
            self._stands_in = bool(lanes)

    def _is_new(self, unit: Unit) -> bool:
        """Whether the unit is of its group's present generation: an earlier one may lack a model."""
        launch = self._launches.get(unit.group)
        return launch is not None and unit.generation == launch.generation

    def _reported(
        self,
        targets: Sequence[Target],
        units: Sequence[Unit],
        states: Mapping[str, UnitState],
        demand: Sequence[Demand],
    ) -> Report:
        bounds = {size.group: size for size in self._sizes}
        groups = []
        for target in targets:
            ours = [unit for unit in units if unit.group == target.group]
            size = bounds.get(target.group)
            mine = [
                row
                for row in demand
                if size and row.accelerator == size.accelerator and row.model in size.models
            ]
            troubles = (f"{states[unit.name].machine}: {states[unit.name].trouble}" for unit in ours)
            groups.append(
                GroupReport(
                    group=target.group,
                    target=target.count,
                    phases={phase: sum(unit.phase is phase for unit in ours) for phase in Phase},
                    old=sum(unit.generation != target.generation for unit in ours),
                    images=sum(row.images for row in mine),
                    work_seconds=sum(row.work_seconds for row in mine),
                    troubles=tuple(
                        trouble
                        for unit, trouble in zip(ours, troubles, strict=True)
                        if states[unit.name].trouble and unit.phase is not Phase.PAINTING
                    ),
                )
            )
        return Report(groups=tuple(groups), units=len(units), looks=self.report.looks + 1)


def _models(sizes: Sequence[Size]) -> frozenset[str]:
    return frozenset[str]().union(*(size.models for size in sizes))

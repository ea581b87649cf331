"""The controller's looks, on a cluster in memory and a queue in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from recipes import ORIGIN, recipe
from stores import Clock

from bot.app.fleet import lines
from bot.domain.errors import StoreUnavailable
from bot.fleet.controller import Controller, Spec
from bot.fleet.launch import Launch
from bot.fleet.planning import Phase
from bot.fleet.unit_process import UnitState
from bot.store import Store

TEXT = """
[queue]
database = "sqlite+aiosqlite:///{file}"
[fleet]
check_seconds = 0.2
groups = [
    {{ name = "cpu", most = 3, idle_minutes = 1.0, target_seconds = 20.0 }},
    {{ name = "fronts", role = "front", least = 1 }},
]
"""


class Machines:
    """A cluster in memory; `broken` is the error that it raises, if any."""

    def __init__(self) -> None:
        self.states: dict[str, UnitState] = {}
        self.launches: dict[str, Launch] = {}
        self.broken: Exception | None = None

    def units(self) -> Mapping[str, UnitState]:
        if self.broken is not None:
            raise self.broken
        return dict(self.states)

    def start(self, name: str, launch: Launch) -> None:
        self.launches[name] = launch
        self.all_in(Phase.PENDING, name)

    def drain(self, name: str) -> None:
        self.all_in(Phase.DRAINING, name)

    def remove(self, name: str) -> None:
        del self.states[name]

    def all_in(self, phase: Phase, *names: str, trouble: str = "") -> None:
        for name in names or self.states:
            self.states[name] = UnitState(phase=phase, machine="here", pid=7, trouble=trouble)

    def of(self, group: str) -> list[str]:
        return [name for name in self.states if name.startswith(f"{group}/")]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - a report sets no event
            await asyncio.sleep(0.01)


@pytest.fixture
def text(tmp_path: Path) -> str:
    return TEXT.format(file=tmp_path / "queue.sqlite3")


async def test_units_follow_the_waiting_work(text: str, store: Store) -> None:
    machines, clock = Machines(), Clock()
    controller = Controller(Spec(config=text), machines, clock=clock)
    await controller.look()
    assert (machines.of("cpu"), len(machines.of("fronts"))) == ([], 1)
    job = await store.jobs.enqueue(recipe(variants=4), ORIGIN)  # 80 steps, 40 s
    await controller.look()
    assert len(machines.of("cpu")) == 2
    assert await store.offers.unoffered() == [], "the images wait for the workers that come"
    machines.all_in(Phase.PAINTING)
    await store.jobs.cancel(job.id, user_id=ORIGIN.user_id)
    clock.now += 59
    await controller.look()
    assert {machines.states[name].phase for name in machines.of("cpu")} == {Phase.PAINTING}
    clock.now += 2
    await controller.look()
    assert {machines.states[name].phase for name in machines.of("cpu")} == {Phase.DRAINING}
    machines.all_in(Phase.ENDED, *machines.of("cpu"))
    await controller.look()
    assert machines.of("cpu") == []
    await controller.close()


async def test_images_of_a_model_that_some_worker_paints_do_not_wait_for_another_group(
    text: str, store: Store
) -> None:
    both = text.replace("[\n    {", '[\n    { name = "first" },\n    {', 1)
    machines = Machines()
    controller = Controller(Spec(config=both), machines)
    await store.jobs.enqueue(recipe(variants=1), ORIGIN)
    await controller.look()
    assert (len(machines.of("first")), machines.of("cpu")) == (1, []), "the first group takes all of it"
    assert await store.offers.unoffered() == []
    machines.all_in(Phase.PAINTING)  # but its workers do not offer the lane
    await controller.look()
    assert await store.offers.unoffered() != []
    await controller.close()


async def test_images_of_a_new_model_wait_while_only_earlier_workers_paint(text: str, store: Store) -> None:
    machines = Machines()
    machines.all_in(Phase.PAINTING, "cpu/old/1")
    controller = Controller(Spec(config=text), machines)
    await store.jobs.enqueue(recipe(variants=1), ORIGIN)
    await controller.look()
    assert await store.offers.unoffered() == []
    await controller.close()


async def test_a_queue_that_is_away_changes_nothing_and_is_told(tmp_path: Path, text: str) -> None:
    machines = Machines()
    machines.all_in(Phase.PAINTING, "cpu/old/1")
    controller = Controller(Spec(config=text.replace("queue.sqlite3", "no/folder/queue")), machines)
    (tmp_path / "no").touch()
    with pytest.raises(StoreUnavailable):
        await controller.look()
    running = asyncio.create_task(controller.run())
    await until(lambda: bool(controller.report.problem))
    running.cancel()
    assert machines.of("cpu") == ["cpu/old/1"]
    assert next(lines(controller.report)).startswith("The fleet stays as it is: ")


async def test_a_look_that_fails_is_repeated(text: str, store: Store) -> None:
    machines = Machines()
    machines.broken = RuntimeError("the cluster is away")
    controller = Controller(Spec(config=text), machines)
    running = asyncio.create_task(controller.run())
    await until(lambda: "the cluster is away" in controller.report.problem)
    machines.broken = None
    await until(lambda: not controller.report.problem and bool(machines.of("fronts")))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await controller.close()


async def test_a_fleet_that_stops_drains_everything_without_its_queue(tmp_path: Path, text: str) -> None:
    machines = Machines()
    machines.all_in(Phase.PAINTING, "cpu/old/1", "fronts/new/2")
    spec = Spec(config=text.replace("queue.sqlite3", "no/folder/queue"), stopping=True)
    await Controller(spec, machines).look()
    assert {state.phase for state in machines.states.values()} == {Phase.DRAINING}


async def test_a_controller_that_returns_in_the_middle_of_an_upgrade_starts_no_more(
    text: str, store: Store
) -> None:
    machines = Machines()
    machines.all_in(Phase.PAINTING, "cpu/old/1")
    before = Controller(Spec(config=text), machines)
    await before.look()
    assert len(machines.of("cpu")) == 2, "one of each generation"
    await before.close()
    controller = Controller(Spec(config=text), machines)
    await controller.look()
    assert len(machines.of("cpu")) == 2
    await controller.close()


async def test_the_report_shows_phases_earlier_versions_and_troubles(text: str, store: Store) -> None:
    machines = Machines()
    controller = Controller(Spec(config=text), machines)
    assert list(lines(controller.report)) == ["The controller has not looked yet."]
    machines.all_in(Phase.STARTING, "cpu/old/1", trouble="the disk is full (status 1)")
    await store.jobs.enqueue(recipe(variants=2), ORIGIN)
    await controller.look()
    await controller.look()
    assert list(lines(controller.report)) == [
        "cpu: 1 wanted, 1 pending, 1 starting; 1 of an earlier version; 2 images wait, 20 s of work",
        "  here: the disk is full (status 1)",
        "fronts: 1 wanted, 1 pending",
    ]
    await controller.close()

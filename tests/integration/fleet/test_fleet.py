"""A fleet on a Ray cluster of three nodes: every accepted request is painted, whatever happens to nodes."""

from __future__ import annotations

import asyncio
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest
import sqlalchemy as sa
import yaml
from fleet_cluster import ROOT, Fleet, Nodes
from recipes import origin, recipe

from bot.domain.errors import ConfigurationError, FleetUnavailable
from bot.domain.jobs import Job, State
from bot.fleet import ray_cluster
from bot.fleet.controller import Spec
from bot.store import Store
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import images

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.ray,
    pytest.mark.slow,
    # Ray forks before it starts a program; JAX, loaded for other tests of this process, warns of every fork.
    pytest.mark.filterwarnings("ignore:os.fork\\(\\) was called:RuntimeWarning"),
]

PATIENCE = 90.0
STEPS = 15


class Asking:
    """People who ask for pictures, each with a seed of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._numbers = count(1)
        self.jobs: list[Job] = []

    async def ask(self, times: int) -> None:
        for _ in range(times):
            number = next(self._numbers)
            wanted = recipe(seed=1000 * number, variants=3, num_inference_steps=STEPS)
            self.jobs.append(await self._store.jobs.enqueue(wanted, origin(number, user_id=number % 7)))

    async def open(self) -> int:
        """How many images have not ended."""
        async with self._store.shared.database.read() as connection:
            ended = images.c.state.in_([State.DONE, State.FAILED, State.CANCELLED])
            return await connection.scalar(sa.select(sa.func.count()).select_from(images).where(~ended)) or 0

    async def keep_asking(self, *, until: Callable[[], bool], least: int = 12) -> None:
        """Keep at least so many images open until a condition holds."""
        async with asyncio.timeout(PATIENCE):
            while not until():
                if (missing := least - await self.open()) > 0:
                    await self.ask(1 + missing // 3)
                await asyncio.sleep(0.2)

    async def all_painted(self) -> None:
        """Wait for the end of every image, and check that each request has one result."""
        async with asyncio.timeout(PATIENCE):
            while await self.open():  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(0.2)
        async with self._store.shared.database.read() as connection:
            states = Counter(await connection.scalars(sa.select(images.c.state)))
            results = Counter(await connection.scalars(sa.select(outbox.c.job_id)))
        assert states == {State.DONE: 3 * len(self.jobs)}
        assert results == {job.id: 1 for job in self.jobs}


def has(fleet: Fleet, *parts: str) -> bool:
    """Whether each part is in the status."""
    line = " ".join(fleet.status())
    return all(part in line for part in parts)


async def seen(fleet: Fleet, *parts: str) -> None:
    """Wait until each part is in the status; while Ray restarts the controller there is none."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(FleetUnavailable):
                if has(fleet, *parts):
                    return
            await asyncio.sleep(0.3)


def each_once(fleet: Fleet) -> None:
    """Check that no image was begun twice."""
    times = Counter(seed for seed, _ in fleet.begun())
    assert {seed: number for seed, number in times.items() if number > 1} == {}


def processes_of(fleet: Fleet) -> set[int]:
    """The processes that have begun an image."""
    return {process for _, process in fleet.begun()}


async def a_first_worker_publishes(queue: Store) -> None:
    """Wait until a worker has published the model, as a front does that cannot read its files."""
    await queue.offers.await_published(["demo"], ttl=PATIENCE)
    async with asyncio.timeout(PATIENCE):
        while not await queue.offers.published(["demo"]):  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("group", ["headGroupSpec", "workerGroupSpecs"])
def test_the_probes_of_the_manifest_find_the_processes_of_a_node(nodes: Nodes, group: str) -> None:
    (cluster,) = (
        each["spec"]
        for each in yaml.safe_load_all((ROOT / "deploy" / "ray" / "cluster.yaml").read_text())
        if each["kind"] == "RayCluster"
    )
    found = cluster[group] if group == "headGroupSpec" else cluster[group][0]
    (container,) = found["template"]["spec"]["containers"]
    for probe in ("livenessProbe", "readinessProbe"):
        subprocess.run(container[probe]["exec"]["command"], check=True)


def test_a_configuration_that_the_cluster_cannot_read_leaves_the_fleet_as_it_is(painters: Fleet) -> None:
    painters.start()
    name = painters.config.fleet.name
    broken = Spec(config='[prompts]\nstyles_file = "/nowhere/styles.toml"')
    with ray_cluster.connected(painters.nodes.address, name):
        with pytest.raises(ConfigurationError, match=r"/nowhere/styles\.toml"):
            ray_cluster.apply(broken, name)
        assert ray_cluster.asked(name, "spec").parsed() == painters.config
    painters.stop()


async def test_workers_come_with_a_burst_and_go_without_work(painters: Fleet, queue: Store) -> None:
    painters.start()
    await seen(painters, "painters: 0 wanted, nothing runs")
    await a_first_worker_publishes(queue)
    asking = Asking(queue)
    # A worker takes seconds to start on a busy machine, and fewer than three could paint the burst meanwhile.
    await asking.keep_asking(
        until=lambda: has(painters, "3 wanted, 3 painting") and len(processes_of(painters)) == 3, least=90
    )
    await asking.all_painted()
    await seen(painters, "painters: 0 wanted, nothing runs")
    each_once(painters)
    assert len(processes_of(painters)) == 3
    painters.stop()


async def test_an_upgrade_under_load_begins_no_image_twice(painters: Fleet, queue: Store) -> None:
    painters.start(least=2, most=2)
    asking = Asking(queue)
    await asking.keep_asking(until=lambda: has(painters, "2 painting") and len(processes_of(painters)) == 2)
    before = processes_of(painters)
    painters.start(least=2, most=2, version="2")
    await asking.keep_asking(
        until=lambda: has(painters, "2 wanted, 2 painting") and not has(painters, "earlier")
    )
    await asking.ask(4)
    await asking.all_painted()
    each_once(painters)
    after = processes_of(painters) - before
    assert len(after) == 2, "the new workers have painted"
    assert painters.stop()[0] == "2 processes are ending their work"


async def test_a_node_that_dies_costs_no_request_and_a_drained_group_ends(
    nodes: Nodes, painters: Fleet, queue: Store
) -> None:
    painters.start(least=2, most=2, cores=3.0)  # one on each node
    asking = Asking(queue)
    await asking.keep_asking(until=lambda: len(processes_of(painters)) == 2)
    nodes.kill_one()
    nodes.add()
    await asking.keep_asking(until=lambda: len(processes_of(painters)) == 3)
    await asking.all_painted()
    assert painters.drain("painters", beside="another") == {"painters", "another"}
    await seen(painters, "painters: 0 wanted, nothing runs")
    painters.stop()


async def test_devices_that_hang_cost_no_request_and_their_worker_starts_again(
    painters: Fleet, queue: Store
) -> None:
    painters.start(least=2, most=2)
    asking = Asking(queue)
    await asking.keep_asking(until=lambda: len(processes_of(painters)) == 2)
    (painters.folder / "cache" / "hang").touch()
    await asking.keep_asking(until=lambda: has(painters, "(status 75)"))
    await asking.keep_asking(until=lambda: len(processes_of(painters)) == 3)
    await asking.all_painted()
    await seen(painters, "2 wanted, 2 painting")
    painters.stop()


async def test_a_head_that_dies_and_returns_costs_no_request(
    nodes: Nodes, painters: Fleet, queue: Store
) -> None:
    painters.start(least=2, most=2)
    asking = Asking(queue)
    await asking.keep_asking(until=lambda: len(processes_of(painters)) == 2)
    nodes.kill_head()
    begun = len(painters.begun())
    await asking.keep_asking(until=lambda: len(painters.begun()) > begun + 10)  # workers paint without a head
    nodes.start_head()
    await seen(painters, "2 wanted, 2 painting")
    await asking.ask(2)
    await asking.all_painted()
    each_once(painters)
    painters.stop()

"""What a fleet costs its queue, and how soon it reacts.

    python benchmarks/fleet.py [FOLDER] [--only demand load reaction]

demand    the time of the view fleet_demand at 100 to 100,000 waiting images, on SQLite and PostgreSQL
load      64 simulated workers and 1,000 people on one PostgreSQL, whose demand is read every second
reaction  three nodes of Ray on this machine: a burst, until the last worker paints and until none is left

The databases are made inside FOLDER (default: here), because the time of a commit depends on the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from conditions import print_conditions
from percentiles import percentile
from store import vacuum
from store_load import MEASURED, WARM_UP, load_run
from store_servers import postgresql  # makes the tests' modules importable
from store_verbs import CAPS, RequestSource, request

# isort: split
from fleet_cluster import Fleet, three_nodes

from bot.fleet.planning import Phase
from bot.fleet.ray_cluster import asked, connected
from bot.store import Store

WAITING = (100, 1_000, 10_000, 100_000)
TIMES = 40
PARTS = ("demand", "load", "reaction")
BURST = 60
PATIENCE = 120.0


def percentiles(seconds: list[float]) -> str:
    """Return the median and the 99th percentile, in milliseconds."""
    half, most = (percentile(seconds, percent) * 1e3 for percent in (50, 99))
    return f"p50 {half:.1f}, p99 {most:.1f}"


async def demand(url: str) -> None:
    """Print the time of the demand with more and more waiting images."""
    store = await Store.open(url)
    crowd = RequestSource(store)
    for waiting in WAITING:
        await crowd.fill(waiting)
        await vacuum(store)
        times = [await _timed(store) for _ in range(TIMES)]
        rows, load_now = await store.demands.rows(), os.getloadavg()[0]
        print(f"{waiting:>7} images wait, {len(rows)} rows; ms: {percentiles(times)}; load {load_now:.1f}")
    await store.close()


async def _timed(store: Store) -> float:
    began = time.perf_counter()
    await store.demands.rows()
    return time.perf_counter() - began


def load(url: str) -> None:
    """Run the load of `store.py`, and read the demand every second as a controller does."""
    times: list[float] = []
    reader = threading.Thread(target=lambda: asyncio.run(_read(url, times)), daemon=True)
    asyncio.run(_migrated(url))
    reader.start()
    load_run(url)
    reader.join()
    print(f"  fleet_demand, {len(times)} times beside it, ms: {percentiles(times)}")


async def _migrated(url: str) -> None:
    await (await Store.open(url)).close()


async def _read(url: str, times: list[float]) -> None:
    store = await Store.open(url)
    end = time.monotonic() + WARM_UP + MEASURED
    while time.monotonic() < end:
        times.append(await _timed(store))
        await asyncio.sleep(1)
    await store.close()


async def reaction(url: str, folder: Path) -> None:
    """Print the seconds from a burst to each worker's painting, to the last picture, and to no worker."""
    began = time.monotonic()
    with three_nodes(folder / "gcs") as nodes:
        print(f"three nodes after {time.monotonic() - began:.1f} s")
        fleet, store = Fleet(nodes, folder, url), await Store.open(url)
        fleet.start()
        try:
            for number in (1, 2):
                await _one_burst(number, nodes.address, fleet.config.fleet.name, store)
        finally:
            fleet.stop()
            await store.close()


async def _one_burst(number: int, address: str, name: str, store: Store) -> None:
    def painting() -> int:
        return sum(group.phases[Phase.PAINTING] for group in asked(name, "report").groups)

    async def nothing_open() -> bool:  # neither waiting nor held
        return not await store.demands.rows()

    async def at_least(count: int) -> bool:
        return painting() >= count

    async def no_unit() -> bool:
        return int(asked(name, "report").units) == 0

    found: dict[str, float] = {}
    with connected(address, name):
        began = time.monotonic()
        for each in range(BURST):
            recipe, origin = request(3 * (1000 * number + each), each % 50, variants=4)  # of one size
            await store.jobs.enqueue(recipe, origin, caps=CAPS)
        for count in (1, 2, 3):
            await _until(lambda count=count: at_least(count))  # type: ignore[misc]
            found[f"worker {count} paints"] = time.monotonic() - began
        await _until(nothing_open)
        found["the last picture"] = time.monotonic() - began
        await _until(no_unit)
        found["no worker"] = time.monotonic() - began
    said = ", ".join(f"{what} after {seconds:.1f} s" for what, seconds in found.items())
    print(f"burst {number} of {4 * BURST} images: {said}; load {os.getloadavg()[0]:.1f}")


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.05)


def main() -> None:
    """Print the conditions, then the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default=".", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    print_conditions("ray", "sqlalchemy", "aiosqlite", "asyncpg")
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder, prefix="fleet-benchmark-") as made,
        postgresql(arguments.folder) as server,
    ):
        folder = Path(made).absolute()
        for part in arguments.only:
            server.execute(f"CREATE DATABASE {part}")
        if "demand" in arguments.only:
            for kind, url in (
                ("SQLite", f"sqlite+aiosqlite:///{folder / 'queue.sqlite3'}"),
                ("PostgreSQL", server.url("demand")),
            ):
                print(f"\n{kind}")
                asyncio.run(demand(url))
        if "load" in arguments.only:
            load(server.url("load"))
        if "reaction" in arguments.only:
            print()
            asyncio.run(reaction(server.url("reaction"), folder))


if __name__ == "__main__":
    main()

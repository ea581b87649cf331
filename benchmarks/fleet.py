"""What a fleet costs its queue, and how soon it reacts.

    python benchmarks/fleet.py [FOLDER] [--only demand load reaction]

demand    the time of the view fleet_demand at 100 to 100,000 waiting images, on SQLite and PostgreSQL
load      64 simulated workers and 1,000 people on one PostgreSQL, whose demand is read every second
reaction  a Ray cluster of three nodes on this machine: a burst until the last worker paints, and until none is left

The databases are made inside FOLDER (default: here), because the time of a commit depends on the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conditions import print_conditions
from store import vacuum
from store_load import MEASURED, WARM_UP, load_run
from store_servers import postgresql
from store_verbs import RequestSource

from bot.store import Store

sys.path.append(str(Path(__file__).parents[1] / "tests"))

WAITING = (100, 1_000, 10_000, 100_000)
TIMES = 40
PARTS = ("demand", "load", "reaction")
BURST = 60
PATIENCE = 120.0


def percentiles(seconds: list[float]) -> str:
    """Return the median and the 99th percentile, in milliseconds."""
    ordered = sorted(seconds)
    half, most = (ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1e3 for part in (0.5, 0.99))
    return f"p50 {half:.1f}, p99 {most:.1f}"


async def demand(url: str) -> None:
    """Print the time of the demand with more and more waiting images."""
    store = await Store.open(url)
    crowd = RequestSource(store)
    for waiting in WAITING:
        await crowd.fill(waiting)
        await vacuum(store)
        times = [await _timed(store) for _ in range(TIMES)]
        rows = await store.demands.rows()
        print(
            f"{waiting:>7} images wait, {len(rows)} rows; ms: {percentiles(times)}; load {os.getloadavg()[0]:.1f}"
        )
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
    """Print the seconds from a burst to each worker's painting, and from the last picture to no worker."""
    from fleet_cluster import Fleet, three_nodes

    from bot.fleet.ray_cluster import connected

    began = time.monotonic()
    with three_nodes(folder / "gcs") as nodes:
        print(f"three nodes after {time.monotonic() - began:.1f} s")
        fleet = Fleet(nodes, folder, url)
        fleet.start()
        store = await Store.open(url)
        crowd = RequestSource(store)
        with connected(nodes.address, fleet.config.fleet.name):
            for turn in ("first", "second"):
                await _one_burst(turn, fleet.config.fleet.name, crowd, store)
        fleet.stop()
        await store.close()


async def _one_burst(turn: str, name: str, crowd: RequestSource, store: Store) -> None:
    from bot.fleet.planning import Phase
    from bot.fleet.ray_cluster import asked

    def painting() -> int:
        return sum(group.phases[Phase.PAINTING] for group in asked(name, "report").groups)

    for _ in range(BURST):
        await crowd.ask(variants=4)
    began = time.monotonic()
    found: dict[str, float] = {}
    for count in (1, 2, 3):
        await _until(lambda count=count: painting() >= count)
        found[f"worker {count} paints"] = time.monotonic() - began
    while await store.demands.rows():  # waiting or held
        await asyncio.sleep(0.05)
    found["the last picture"] = time.monotonic() - began
    ended = time.monotonic()
    await _until(lambda: asked(name, "report").units == 0)
    said = ", ".join(f"{what} after {seconds:.1f} s" for what, seconds in found.items())
    print(
        f"{turn} burst of {4 * BURST} images: {said}; none left {time.monotonic() - ended:.1f} s after that"
    )


async def _until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
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

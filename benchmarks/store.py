"""The queue's times and fairness: on SQLite, on PostgreSQL, and under load.

    python benchmarks/store.py [FOLDER] [--only sqlite postgresql fairness load]

The databases are made inside FOLDER (default: here), because the time of a commit depends on the disk. The
user of PostgreSQL's processes must have access to FOLDER.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from conditions import print_conditions
from percentiles import percentile
from store_evening import EveningClock, SimulatedEvening, Size, busy_evening, flood, jain
from store_load import load_run
from store_servers import postgresql
from store_verbs import (
    SEATS,
    USERS,
    VARIANTS,
    RequestSource,
    Samples,
    latencies,
    paused_latencies,
    rate,
    whole_lives,
)

from bot.store import Store

WAITING = (100, 1_000, 10_000, 100_000)
COMMITS = 100
LIVES = 200
PARTS = ("sqlite", "postgresql", "fairness", "load")
SIZES = (
    Size(side=512, seats=8, step_seconds=0.25),
    Size(side=640, seats=8, step_seconds=0.4),
    Size(side=768, seats=4, step_seconds=0.4),
)
ONE_SIZE = (Size(side=512, seats=8, step_seconds=0.25),)


def commit_milliseconds(folder: Path, synchronous: str) -> float:
    """Return the median time of one small commit in WAL mode: FULL waits for the disk, NORMAL does not."""
    times = []
    with closing(sqlite3.connect(folder / f"{synchronous}.sqlite3", isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute(f"PRAGMA synchronous = {synchronous}")
        raw.execute("CREATE TABLE numbers (number INTEGER)")
        for number in range(COMMITS):
            began = time.perf_counter()
            raw.execute("INSERT INTO numbers VALUES (?)", (number,))
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


async def growth(url: str) -> None:
    """Print jobs per second, and the time of each verb with more and more waiting images."""
    store = await Store.open(url)
    crowd = RequestSource(store)
    print(f"whole lives, one after the other: {await whole_lives(crowd, LIVES):.0f} jobs/s")
    found: dict[int, Samples] = {}
    for waiting in WAITING:
        await crowd.fill(waiting)
        await vacuum(store)
        found[waiting] = await latencies(crowd)
        said = ", ".join(f"{name} {value:.1f}" for name, value in found[waiting].items())
        print(f"{waiting:>7} waiting, load {os.getloadavg()[0]:.1f}; ms: {said}")
    said = ", ".join(f"{name} {value:.1f}" for name, value in (await paused_latencies(crowd)).items())
    print(f"six of seven servers paused, each with a seventh of the images; ms: {said}")
    print(f"requests of {VARIANTS} images, one after the other: {await rate(crowd, LIVES):.0f} jobs/s")
    least, most = found[WAITING[0]], found[WAITING[-1]]
    allowed = math.log(WAITING[-1]) / math.log(WAITING[0])
    for name in ("claim", "claim_lanes"):
        ratio = most[name] / least[name]
        print(f"{name} at {WAITING[-1]} over {WAITING[0]}: {ratio:.2f} (log n would be {allowed:.2f})")
    await store.close()


async def vacuum(store: Store) -> None:
    """Run VACUUM ANALYZE, as PostgreSQL does by itself some minutes after a bulk insert."""
    engine = store.shared.database._engine
    if engine.dialect.name == "postgresql":
        async with engine.connect() as connection:
            plain = await connection.execution_options(isolation_level="AUTOCOMMIT")
            await plain.execute(sa.text("VACUUM ANALYZE jobs, images"))


async def told_and_had(folder: Path) -> None:
    """Print the errors of the estimated waits in a busy evening."""
    clock = EveningClock()
    store = await Store.open(f"sqlite+aiosqlite:///{folder / 'evening.sqlite3'}", clock=clock)
    evening = SimulatedEvening(store, clock, sizes=SIZES, painters=2, ask_again=60.0)
    wishes = busy_evening(seconds=1200, sizes=SIZES, painters=2, load=1.3, people=100, seed=1)
    await evening.play(wishes)
    await store.close()
    waits = [a.seated_at - a.told[0].at for a in evening.asked.values() if a.seated_at and a.told]
    print(f"an evening of 20 minutes: {len(wishes)} requests of 100 people in 3 sizes, 2 painters")
    print(f"waits: median {statistics.median(waits):.0f} s, longest {max(waits):.0f} s")
    for what, of_end in (("start", False), ("end", True)):
        for said, later in (("at once", False), ("every minute later", True)):
            errors = evening.errors(least=5.0, later=later, of_end=of_end)
            median, nine_in_ten = statistics.median(errors), percentile(errors, 90)
            print(
                f"time to the {what} told {said}, {len(errors)} waits of 5 s or more: "
                f"error median {median:.0%}, nine in ten below {nine_in_ten:.0%}"
            )


async def shares(folder: Path) -> None:
    """Print each person's share of an hour in which all had waiting work."""
    clock = EveningClock()
    store = await Store.open(f"sqlite+aiosqlite:///{folder / 'shares.sqlite3'}", clock=clock)
    evening = SimulatedEvening(store, clock, sizes=ONE_SIZE, painters=1)
    people = range(1, 9)
    wishes = [w for u in people for w in flood(users=(u,), images=600, steps=(10 + u, 40 - 2 * u), side=512)]
    await evening.play(wishes, until=3900.0)
    await store.close()
    served = evening.served(start=300.0, end=3900.0)
    print(
        f"8 people flooding with 600 images each, mixed steps: Jain's index over an hour "
        f"{jain([served[user] for user in people]):.4f}"
    )


def main() -> None:
    """Print the conditions, then the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default=".", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="store-benchmark-") as made:
        folder = Path(made).absolute()
        print_conditions("sqlalchemy", "aiosqlite", "asyncpg")
        print(f"load {os.getloadavg()[0]:.1f}; requests of {VARIANTS} images by {USERS} people in turn")
        print(f"in 3 sizes; claims of {SEATS} images, or of {SEATS} of each size")
        if "sqlite" in arguments.only:
            print(f"\nSQLite {sqlite3.sqlite_version}, WAL, synchronous=FULL")
            for synchronous in ("FULL", "NORMAL"):
                took = commit_milliseconds(folder, synchronous)
                print(f"one commit, synchronous={synchronous}: {took:.2f} ms")
            asyncio.run(growth(f"sqlite+aiosqlite:///{folder / 'queue.sqlite3'}"))
        if "fairness" in arguments.only:
            print("\nFairness and honesty, in virtual time")
            asyncio.run(told_and_had(folder))
            asyncio.run(shares(folder))
        if "postgresql" in arguments.only or "load" in arguments.only:
            on_postgresql(arguments.folder, arguments.only)


def on_postgresql(parent: Path, parts: tuple[str, ...]) -> None:
    """Run the parts that need a server."""
    with postgresql(parent) as server:
        print("\nPostgreSQL 18 on a socket, fsync on, shared_buffers 256 MB")
        for part in ("postgresql", "load"):
            if part in parts:
                server.execute(f"CREATE DATABASE {part}")
        if "postgresql" in parts:
            asyncio.run(growth(server.url("postgresql")))
        if "load" in parts:
            load_run(server.url("load"))


if __name__ == "__main__":
    main()

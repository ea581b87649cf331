"""What the queue costs: enqueues a second, and claims while 100 to 10,000 images wait.

    python benchmarks/store.py [FOLDER]

The database is made in a folder of its own inside FOLDER (default: here), because the disk decides what a
commit costs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from conditions import print_conditions

from bot.jobs import Origin, Recipe
from bot.store import Store
from sdjax_engine.request import Sampler

WAITING = (100, 1_000, 10_000)
CLAIMS = 50
SEATS = 8
USERS = 50
COMMITS = 100


def recipe(number: int) -> Recipe:
    return Recipe(
        prompt="a red circle on a white background",
        seed=number,
        variants=4,
        num_inference_steps=10 + number % 20,
        guidance_scale=5.0,
        sampler=Sampler.DDIM,
        width=128,
        height=128,
        model="demo",
    )


def origin(number: int) -> Origin:
    return Origin(
        interaction_id=number,
        interaction_token="x" * 200,
        token_expires_at=time.time() + 900,
        application_id=1,
        user_id=number % USERS,
        guild_id=1,
        channel_id=1,
        locale="en-US",
        private=False,
    )


def commit_milliseconds(folder: Path, synchronous: str) -> float:
    """Median time of one small commit in WAL mode: FULL waits for the disk, NORMAL does not."""
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


async def claim_milliseconds(store: Store) -> list[float]:
    """Times of claims for a batch, each given back afterwards so that as many wait again."""
    times = []
    for _ in range(CLAIMS):
        began = time.perf_counter()
        claims = await store.claim("benchmark", limit=SEATS, ttl=60)
        times.append((time.perf_counter() - began) * 1e3)
        for claim in claims:
            await store.give_back(claim)
    return sorted(times)


async def measure(folder: Path) -> None:
    store = await Store.open(f"sqlite:///{folder / 'queue.sqlite3'}")
    jobs = 0
    for waiting in WAITING:
        began, before = time.perf_counter(), jobs
        for jobs in range(before + 1, waiting // 4 + 1):
            await store.enqueue(recipe(jobs), origin(jobs))
        rate = (jobs - before) / (time.perf_counter() - began)
        times = await claim_milliseconds(store)
        last = (await store.job_by_interaction(jobs)).id
        began = time.perf_counter()
        await store.position(last)
        position = (time.perf_counter() - began) * 1e3
        print(
            f"{waiting:>6} images waiting: {rate:4.0f} enqueues/s, claim of {SEATS} images median "
            f"{statistics.median(times):.1f} ms (slowest {times[-1]:.1f}), position {position:.1f} ms"
        )
    await store.close()


def main() -> None:
    """Print the conditions, then the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default=".", type=Path, metavar="FOLDER")
    parent = parser.parse_args().folder
    with tempfile.TemporaryDirectory(dir=parent, prefix="store-benchmark-") as made:
        folder = Path(made).absolute()
        print_conditions("sqlalchemy", "aiosqlite")
        print(f"load {os.getloadavg()[0]:.1f}; SQLite {sqlite3.sqlite_version}, WAL, synchronous=FULL")
        print(f"jobs of 4 images by {USERS} users in turn; {CLAIMS} claims each")
        for synchronous in ("FULL", "NORMAL"):
            print(f"one commit, synchronous={synchronous}: {commit_milliseconds(folder, synchronous):.2f} ms")
        asyncio.run(measure(folder))


if __name__ == "__main__":
    main()

"""The cost of hashing a picture, and of searching for a picture among those of one server.

    python benchmarks/known_pictures.py [--rows 100000] [--searches 200] [--only sqlite postgresql]

The rows are random hashes of one server: the hardest case for the index, since it leaves out no rows of other
servers. Half of the searched hashes differ from one of the rows in up to 10 bits, the other half are random.
The peer is the scan that a database without the bands makes: every row, compared in Python.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from conditions import Stolen, print_conditions
from percentiles import percentile
from sqlalchemy.ext.asyncio import AsyncConnection
from store_servers import postgresql

from bot.domain.hashes import SEARCH_DISTANCE, bands_of, distance, hash_of_pixels, looked_up, read, stored
from bot.domain.jobs import Origin, Recipe
from bot.store import Store
from bot.store.tables.pictures import blocked_pictures, picture_hashes
from sdjax_engine.request import Sampler

KINDS = ("sqlite", "postgresql")
GUILD = 21
BATCH = 2000
RECIPE = Recipe(
    prompt="x",
    seed=1,
    num_inference_steps=4,
    guidance_scale=2.0,
    sampler=Sampler.DDIM,
    width=64,
    height=64,
    model="demo",
)
ORIGIN = Origin(
    interaction_id=1,
    interaction_token="",
    token_expires_at=0.0,
    application_id=1,
    user_id=1,
    guild_id=GUILD,
    channel_id=1,
    locale="en-US",
    private=False,
)


def main() -> None:
    """Print the figures as rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--folder", type=Path, default=Path(), help="of PostgreSQL's data")
    options = parser.parse_args()
    print_conditions("sqlalchemy", "imagehash", "scipy", "pillow")
    stolen = Stolen()
    print_hashing()
    if "sqlite" in options.only:
        with tempfile.TemporaryDirectory() as folder:
            print("SQLite")
            asyncio.run(
                print_searching(f"sqlite+aiosqlite:///{folder}/queue.sqlite3", options.rows, options.searches)
            )
    if "postgresql" in options.only:
        with postgresql(options.folder) as server:
            print("PostgreSQL")
            server.execute("CREATE DATABASE known")
            asyncio.run(print_searching(server.url("known"), options.rows, options.searches))
    print(f"time taken by other machines: {stolen.share():.0%}")


def print_hashing() -> None:
    rng = np.random.default_rng(0)
    for side in (512, 1024):
        pixels = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
        hash_of_pixels(pixels)
        times = [timed(lambda pixels=pixels: hash_of_pixels(pixels)) for _ in range(30)]
        print(f"| hash of {side}² | {statistics.median(times):.1f} ms | {max(times):.1f} ms |")


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begun)


async def print_searching(url: str, rows: int, searches: int) -> None:
    store = await Store.open(url)
    try:
        chance = random.Random(1)
        hashes = [chance.getrandbits(64) for _ in range(rows)]
        await fill(store, hashes)
        wanted = [
            changed(chance.choice(hashes), chance) if number % 2 else chance.getrandbits(64)
            for number in range(searches)
        ]
        await measure(f"/whose among {rows:,}", wanted, lambda each: store.known.whose(GUILD, each, limit=5))
        await measure(f"blocked, {rows:,} blocks", wanted, lambda each: store.known.blocking(GUILD, each))
        await measure("the scan of all rows", wanted[:5], lambda each: scan(store, each))
        async with store.shared.database.read() as connection:
            looked_at = [await compared(connection, each) for each in wanted[:20]]
        print(f"rows compared by /whose: {statistics.median(looked_at):.0f}, at most {max(looked_at)}")
    finally:
        await store.close()


def changed(number: int, chance: random.Random) -> int:
    for bit in chance.sample(range(64), chance.randint(0, SEARCH_DISTANCE)):
        number ^= 1 << bit
    return number


async def fill(store: Store, hashes: list[int]) -> None:
    """Store the hashes as pictures of one job, and as blocked pictures."""
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    async with store.shared.database.write() as connection:
        for start in range(0, len(hashes), BATCH):
            some = list(enumerate(hashes[start : start + BATCH], start=start))
            await insert(connection, job.id, some)


async def insert(connection: AsyncConnection, job_id: str, some: list[tuple[int, int]]) -> None:
    rows = [
        {"guild_id": GUILD, "hash": stored(each)}
        | {f"band_{band}": value for band, value in enumerate(bands_of(each))}
        for _, each in some
    ]
    of_job = [{**row, "job_id": job_id, "index": index} for (index, _), row in zip(some, rows, strict=True)]
    await connection.execute(sa.insert(picture_hashes), of_job)
    blocks = [{**row, "by": 0, "reason": "", "at": 0.0} for row in rows]
    await connection.execute(sa.insert(blocked_pictures), blocks)


async def compared(connection: AsyncConnection, wanted: int) -> int:
    """Return how many rows the index by bands finds for a hash, before all bits are compared."""
    column = picture_hashes.c
    near = sa.or_(
        *(column[f"band_{band}"].in_(each) for band, each in enumerate(looked_up(wanted, SEARCH_DISTANCE)))
    )
    look = sa.select(sa.func.count()).select_from(picture_hashes).where(column.guild_id == GUILD, near)
    return await connection.scalar(look) or 0


async def scan(store: Store, wanted: int) -> int:
    look = sa.select(picture_hashes.c.hash).where(picture_hashes.c.guild_id == GUILD)
    async with store.shared.database.read() as connection:
        return min(distance(wanted, read(each)) for each in await connection.scalars(look))


async def measure(name: str, wanted: list[int], search: Callable[[int], Awaitable[object]]) -> None:
    times = []
    for each in wanted:
        begun = time.perf_counter()
        await search(each)
        times.append(1000 * (time.perf_counter() - begun))
    print(f"| {name} | {statistics.median(times):.1f} ms | {percentile(times, 99):.1f} ms |")


if __name__ == "__main__":
    main()

"""What the operators' page costs with viewers of a busy queue, and how far it is behind the queue.

    python benchmarks/page.py [--viewers 10] [--seconds 20] [--view queue] [--database sqlite|postgresql]

The peer is the same process, with the same requests coming in, without viewers. Viewers are another process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

from conditions import print_conditions  # noqa: E402 - found by the line above
from evening import free_port  # noqa: E402
from recipes import origin, recipe  # noqa: E402
from store_servers import postgresql  # noqa: E402

from bot.config.operators import UsageConfig  # noqa: E402
from bot.config.page import PageConfig  # noqa: E402
from bot.files.artifacts import Artifacts  # noqa: E402
from bot.page.house import House  # noqa: E402
from bot.page.server import serving  # noqa: E402
from bot.store import Store  # noqa: E402

JOBS, EVERY = 40, 0.5


async def no_notes() -> list[str]:
    return []


async def ask(store: Store, seconds: float, first: int) -> dict[str, float]:
    """Ask for a picture every EVERY seconds, and cancel the oldest; return when each was asked for."""
    asked: dict[str, float] = {}
    for number in range(int(seconds / EVERY)):
        job = await store.jobs.enqueue(recipe(), origin(first + number, user_id=first + number))
        asked[job.id] = time.time()
        (oldest, *_) = await store.jobs.active(limit=1)
        await store.jobs.cancel(oldest.id, user_id=None)
        await asyncio.sleep(EVERY)
    return asked


async def follow(url: str, cookie: str, viewers: int, seconds: float) -> None:
    """Follow a view with viewers; print a line once all do, then when each job was first seen, as JSON."""
    seen: dict[str, float] = {}
    following = asyncio.Barrier(viewers + 1)

    async def view(session: aiohttp.ClientSession) -> None:
        async with session.get(url, headers={"Cookie": cookie}) as stream:
            await following.wait()
            while line := await stream.content.readline():
                for part in line.decode().split('"/jobs/')[1:]:
                    seen.setdefault(part.partition('"')[0], time.time())

    async with aiohttp.ClientSession() as session:
        tasks = [asyncio.create_task(view(session)) for _ in range(viewers)]
        await following.wait()
        print("following", flush=True)
        await asyncio.wait([*tasks, asyncio.create_task(asyncio.sleep(seconds))], timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps(seen))


async def measure(viewers: int, seconds: float, view: str, database: str) -> None:
    """Print the costs without and with viewers."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = f"sqlite+aiosqlite:///{folder}/queue.sqlite3"
        if database == "postgresql":
            server = stack.enter_context(postgresql(Path(tempfile.gettempdir())))
            server.execute("CREATE DATABASE page")
            url = server.url("page")
        store = await Store.open(url)
        stack.push_async_callback(store.close)
        await ask(store, 0.0, 0)
        for number in range(1, JOBS):
            await store.jobs.enqueue(recipe(), origin(number, user_id=number % 40))
        config, artifacts = PageConfig(port=free_port()), Artifacts(f"{folder}/artifacts")
        house = House(store=store, artifacts=artifacts, config=config, usage=UsageConfig(), notes=no_notes)
        await stack.enter_async_context(serving(house))
        cookie = f"sdjax-login={await store.logins.enter(await store.logins.invite())}"
        shares = []
        for count in (0, viewers):
            arguments = ["--follow", f"{config.url}/live/{view}", "--cookie", cookie]
            more = ["--viewers", str(count), "--seconds", str(seconds)]
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, __file__, *arguments, *more), stdout=asyncio.subprocess.PIPE
            )
            assert child.stdout is not None
            await child.stdout.readline()
            began, used = time.monotonic(), time.process_time()
            asked = await ask(store, seconds, JOBS * (1 + 10 * count))
            shares.append((time.process_time() - used) / (time.monotonic() - began))
            seen = json.loads((await child.communicate())[0] or "{}")
        print(f"without viewers: {shares[0]:.2%} of a core")
        print(f"with {viewers} viewers of {view}: {shares[1]:.2%} of a core")
        if late := [seen[job_id] - at for job_id, at in asked.items() if job_id in seen]:
            print(f"behind the queue: median {statistics.median(late):.2f} s, most {max(late):.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--view", default="queue")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    parser.add_argument("--cookie", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.follow:
        asyncio.run(follow(given.follow, given.cookie, given.viewers, given.seconds))
    else:
        print_conditions("aiohttp", "jinja2")
        asyncio.run(measure(given.viewers, given.seconds, given.view, given.database))

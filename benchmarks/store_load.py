"""64 workers and 1,000 people on one PostgreSQL: the shipped store in processes, with simulated painting.

Each person requests pictures, reads their position in the queue, pauses, and requests again. Each worker
claims two batches ahead, renews its leases and completes its images like the bot's worker. Fronts deliver
finished jobs and follow the first jobs. Only the devices are simulated: an image holds its seat for some
seconds.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from percentiles import percentile
from sqlalchemy.ext.asyncio import create_async_engine
from store_verbs import CAPS, request

from bot.domain.jobs import Claim
from bot.store import Store
from sdjax_engine.request import Lane

T = TypeVar("T")

WORKERS, PEOPLE = 64, 1000
PROCESSES = 2  # of workers, and the same number of people's processes
SEATS = 8
PAINTING_SECONDS = 8.0
THINKING_SECONDS = 100.0
WARM_UP, MEASURED = 20.0, 45.0
HEARTBEAT_SECONDS, POLL_SECONDS, TICK_SECONDS, LEASE = 1.0, 0.5, 0.5, 60.0
WAITS = """
SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE state = 'active' AND pid != pg_backend_pid()
"""


@dataclass(kw_only=True)
class Times:
    """The seconds of each verb, and the number of painted images, both after the warm-up."""

    since: float
    verbs: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    images: int = 0

    async def of(self, verb: str, work: Awaitable[T]) -> T:
        """Wait for `work`, and record its seconds."""
        began = time.monotonic()
        result = await work
        if began >= self.since:
            self.verbs[verb].append(time.monotonic() - began)
        return result


class SimulatedWorker:
    """A worker that uses the store like bot.worker.worker."""

    def __init__(self, store: Store, name: str, lanes: list[Lane], times: Times) -> None:
        self._store, self._name, self._lanes, self._times = store, name, lanes, times
        self._seats = asyncio.Semaphore(SEATS)
        self._held: dict[int, tuple[Claim, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Claim, paint and complete for ever."""
        heart = asyncio.create_task(self._beat())
        try:
            while True:
                of_lane = Counter(claim.request.lane for claim, _ in self._held.values())
                room = {lane: max(0, 2 * SEATS - of_lane[lane]) for lane in self._lanes}
                claims = await self._claim(room)
                for claim in claims:
                    self._held[claim.image_id] = claim, asyncio.create_task(self._paint(claim))
                if not claims:
                    await self._store.wake_ups.work.wait(POLL_SECONDS)
        finally:
            for task in (heart, *(task for _, task in self._held.values())):
                task.cancel()

    async def _claim(self, room: dict[Lane, int]) -> list[Claim]:
        began = time.monotonic()
        claims = await self._store.leases.claim(self._name, limit=room, ttl=LEASE)
        if began >= self._times.since:
            verb = "claim" if claims else "claim of nothing"
            self._times.verbs[verb].append(time.monotonic() - began)
        return claims

    async def _paint(self, claim: Claim) -> None:
        async with self._seats:
            await asyncio.sleep(PAINTING_SECONDS * random.uniform(0.8, 1.2))
        await self._times.of(
            "complete", self._store.leases.complete(claim, artifact="aa/aa.png", seconds=PAINTING_SECONDS)
        )
        self._times.images += time.monotonic() >= self._times.since
        del self._held[claim.image_id]

    async def _beat(self) -> None:
        await asyncio.sleep(random.random() * HEARTBEAT_SECONDS)
        for beat in range(10**9):
            if beat % 5 == 0:
                await self._store.offers.announce(self._name, lanes=self._lanes, seats=SEATS, ttl=LEASE)
                await self._times.of("expire", self._store.leases.expire())
            claims = {claim: 3 for claim, _ in self._held.values()}
            await self._times.of("heartbeat", self._store.leases.heartbeat(claims, ttl=LEASE))
            await asyncio.sleep(HEARTBEAT_SECONDS)


async def person(store: Store, user_id: int, times: Times) -> None:
    """Request pictures, read their position, pause, and repeat for ever."""
    await asyncio.sleep(random.random() * THINKING_SECONDS)
    for turn in range(10**9):
        number = user_id * 1_000_000 + turn
        recipe, asked = request(number, user_id, variants=random.choice((1, 1, 2, 4)))
        job = await times.of("enqueue", store.jobs.enqueue(recipe, asked, caps=CAPS))
        await times.of("position", store.positions.of(job.id))
        await asyncio.sleep(random.expovariate(1 / THINKING_SECONDS))


async def front(store: Store, name: str, times: Times) -> None:
    """Deliver due results and follow the first jobs."""

    async def deliver() -> None:
        while True:
            due = await times.of("claim deliveries", store.deliveries.claim(name, limit=8))
            for delivery in due:
                await times.of(
                    "deliver", store.deliveries.mark_delivered(delivery, outcome="delivered", message_id=1)
                )
            if not due:
                await store.wake_ups.results.wait(POLL_SECONDS)

    async def follow() -> None:
        while True:
            await times.of("ticker", store.jobs.active(limit=50))
            await asyncio.sleep(TICK_SECONDS)

    await asyncio.gather(deliver(), follow())


async def _serve(url: str, kind: str, number: int, since: float) -> Times:
    store = await Store.open(url)
    times = Times(since=since)
    if kind == "workers":
        lanes = list(dict.fromkeys(request(n, 1, variants=1)[0].lane for n in range(3)))
        mine = range(number, WORKERS, PROCESSES)
        work = [SimulatedWorker(store, f"worker-{n}", lanes, times).run() for n in mine]
    else:
        work = [person(store, n + 1, times) for n in range(number, PEOPLE, PROCESSES)]
        work.append(front(store, f"front-{number}", times))
    tasks = [asyncio.create_task(each) for each in work]
    done, _ = await asyncio.wait(
        tasks, timeout=since + MEASURED - time.monotonic(), return_when=asyncio.FIRST_COMPLETED
    )
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
    await store.close()
    return times


def _process(url: str, kind: str, number: int, since: float, results: Any) -> None:
    times = asyncio.run(_serve(url, kind, number, since))
    results.put((kind, dict(times.verbs), times.images))


async def _watch(url: str, until: float) -> tuple[Counter[str], int]:
    """Return how often active connections were in each wait event, and the samples, five a second."""
    engine = create_async_engine(url)
    seen: Counter[str] = Counter()
    looks = 0
    async with engine.connect() as connection:
        while time.monotonic() < until:
            rows = await connection.execute(sa.text(WAITS))
            seen.update("/".join(row) if row[0] else "on the processor" for row in rows)
            await connection.rollback()
            looks += 1
            await asyncio.sleep(0.2)
    await engine.dispose()
    return seen, looks


def load_run(url: str) -> None:
    """Run the load and print the figures."""
    server = asyncio.run(_migrate(url))
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    since = time.monotonic() + WARM_UP
    processes = [
        context.Process(target=_process, args=(url, kind, number, since, results))
        for kind in ("workers", "people")
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    time.sleep(WARM_UP)
    with _processor_seconds(server, [process.pid or 0 for process in processes]) as spent:
        seen, looks = asyncio.run(_watch(url, since + MEASURED - 2))
    outcomes = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    print(
        f"\n{WORKERS} workers of {SEATS} seats and {PEOPLE} people in {len(processes)} processes for "
        f"{MEASURED:.0f} s; {PAINTING_SECONDS:.0f} s an image, {THINKING_SECONDS:.0f} s between requests"
    )
    _print_verbs(outcomes)
    print(", ".join(f"{name} {share:.0%}" for name, share in spent.items()) + f" of {os.cpu_count()} cores")
    waits = ", ".join(f"{name} {number / looks:.2f}" for name, number in seen.most_common(6))
    print(f"active connections, mean: {waits}; load {os.getloadavg()[0]:.1f}")


def _print_verbs(outcomes: list[tuple[str, dict[str, list[float]], int]]) -> None:
    print(f"{sum(images for _, _, images in outcomes) / MEASURED:.0f} images/s painted")
    verbs: dict[str, list[float]] = defaultdict(list)
    for _, each, _ in outcomes:
        for verb, seconds in each.items():
            verbs[verb] += seconds
    for verb, seconds in sorted(verbs.items()):
        half, most = (percentile(seconds, percent) * 1e3 for percent in (50, 99))
        print(f"  {verb:<17} {len(seconds) / MEASURED:6.1f}/s, ms: p50 {half:.1f}, p99 {most:.1f}")


async def _migrate(url: str) -> int:
    """Make the tables; return the id of the server's first process."""
    await (await Store.open(url)).close()
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        backend = await connection.scalar(sa.text("SELECT pg_backend_pid()"))
    parent = _fields(backend)[1]
    await engine.dispose()
    return int(parent)


@contextmanager
def _processor_seconds(server: int, clients: list[int]) -> Iterator[dict[str, float]]:
    """Yield a dictionary; at the end it has the shares of processor time of the clients and the server."""
    spent: dict[str, float] = {}
    began, before = time.monotonic(), (_seconds(clients), _of_server(server))
    yield spent
    whole = (time.monotonic() - began) * (os.cpu_count() or 1)
    spent["clients"] = (_seconds(clients) - before[0]) / whole
    spent["server"] = (_of_server(server) - before[1]) / whole


def _of_server(first: int) -> float:
    """Return the processor seconds of the server's processes; the first process counts ended ones."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    children = [pid for pid in pids if _fields(pid)[1:2] == [str(first)]]
    return _seconds(children) + _seconds([first], until=15)


def _seconds(pids: list[int], *, until: int = 13) -> float:
    ticks = sum(int(value) for pid in pids for value in _fields(pid)[11:until])
    return ticks / os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; empty for an ended process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []

"""The times of the queue's verbs with many waiting images: latencies, and jobs per second."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from typing import TypeVar

import sqlalchemy as sa
from store_evening import origin

from bot.domain.jobs import Claim, Job, Origin, Recipe, State
from bot.domain.quotas import Caps
from bot.store import Store
from bot.store.rows.audit import By
from bot.store.rows.jobs import recipe_values
from bot.store.rows.restrictions import Scope
from bot.store.tables.queue import images, jobs
from sdjax_engine.request import Sampler

VARIANTS = 9
SIZES = (128, 192, 256)
USERS = 500
SEATS = 8
TIMES = 30
LARGEST_COST = 29 * 256 * 128 / 1e6
CAPS = Caps(
    waiting_per_user=10_000, waiting_per_server=1_000_000, waiting=1_000_000, images_at_full_share=1_000_000
)
Samples = dict[str, float]
T = TypeVar("T")


def request(number: int, user_id: int, *, variants: int) -> tuple[Recipe, Origin]:
    """Return the request of this number, from one of seven servers, with mixed steps and sizes."""
    recipe = Recipe(
        prompt="a red circle on a white background",
        seed=number,
        variants=variants,
        num_inference_steps=10 + number % 20,
        guidance_scale=5.0,
        sampler=Sampler.DDIM,
        width=SIZES[number % len(SIZES)],
        height=128,
        model="demo",
    )
    return recipe, replace(origin(number, user_id), guild_id=number % 7)


class RequestSource:
    """Makes requests without end: people in turn, steps and sizes mixed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._numbers = count(1)
        self.waiting = 0
        self.last = ""

    async def ask(self, *, variants: int = VARIANTS) -> Job:
        """Enqueue one more request."""
        number = next(self._numbers)
        recipe, asked = request(number, number % USERS, variants=variants)
        job = await self.store.jobs.enqueue(recipe, asked, caps=CAPS)
        self.waiting += variants
        return job

    async def end(self, job: Job) -> None:
        """Cancel a request of which no image has been claimed."""
        await self.store.jobs.cancel(job.id, user_id=None)
        self.waiting -= len(job.images)

    async def fill(self, waiting: int) -> None:
        """Add waiting images up to `waiting`, as if people had requested in turn, in one transaction."""
        of_jobs, of_images = [], []
        while self.waiting < waiting:
            number = next(self._numbers)
            variants = min(VARIANTS, waiting - self.waiting)
            recipe, asked = request(number, number % USERS, variants=variants)
            before = number // USERS * VARIANTS * LARGEST_COST
            tags = [before + turn * recipe.cost for turn in range(1, variants + 1)]
            self.last, states = f"{number:08d}", {"state": State.WAITING}
            place = {"id": self.last, "recipe": recipe_values(recipe), "created_at": 0.0, "tag": tags[0]}
            of_jobs.append({**asdict(asked), **states, **place})
            of_image = {"job_id": self.last, "lane": str(recipe.lane), "steps": recipe.steps, **states}
            of_image |= {"share": recipe.cost, "step": 0, "fencing_token": 0, "worker_deaths": 0}
            of_images += [
                {**of_image, "index": index, "seed": index, "tag": tag, "lead": tag}
                for index, tag in enumerate(tags)
            ]
            self.waiting += variants
        async with self.store.shared.database.write() as connection:
            for table, rows in ((jobs, of_jobs), (images, of_images)):
                for start in range(0, len(rows), 1000):
                    await connection.execute(sa.insert(table), rows[start : start + 1000])


async def whole_lives(crowd: RequestSource, jobs: int) -> float:
    """Return jobs per second, one after the other, from enqueue to a settled delivery."""
    began = time.perf_counter()
    for _ in range(jobs):
        await crowd.ask(variants=1)
        for claim in await crowd.store.leases.claim("benchmark", limit=1, ttl=60):
            await crowd.store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0)
        for delivery in await crowd.store.deliveries.claim("benchmark", limit=1):
            await crowd.store.deliveries.mark_delivered(delivery, outcome="delivered", message_id=1)
    crowd.waiting = 0
    return jobs / (time.perf_counter() - began)


async def rate(crowd: RequestSource, requests: int) -> float:
    """Return enqueued requests per second, one after the other."""
    began = time.perf_counter()
    for _ in range(requests):
        await crowd.ask()
    return requests / (time.perf_counter() - began)


async def latencies(crowd: RequestSource) -> Samples:
    """Return the median milliseconds of the verbs; claims are given back, and enqueued requests cancelled."""
    store = crowd.store
    lanes = [request(number, user_id=0, variants=1)[0].lane for number in range(len(SIZES))]
    await store.offers.announce("benchmark", lanes=lanes, seats=SEATS, ttl=3600)
    found: Samples = {}
    for name, limit in (("claim", SEATS), ("claim_lanes", dict.fromkeys(lanes, SEATS))):
        claim = partial(store.leases.claim, "benchmark", limit=limit, ttl=60)
        found[name] = await _median(claim, undo=partial(_give_back, store))
    found["position"] = await _median(lambda: store.positions.of(crowd.last))
    found["queue"] = await _median(lambda: _queue_page(store))
    found["ticker"] = await _median(lambda: store.jobs.active(limit=50))
    found["enqueue"] = await _median(crowd.ask, undo=crowd.end)
    return found


async def paused_latencies(crowd: RequestSource) -> Samples:
    """Return the median milliseconds of pausing and resuming six of seven servers, and of claims after."""
    store = crowd.store
    found: Samples = {}
    servers = [(Scope(guild_id=number), By(actor_id=1, guild_id=number)) for number in range(1, 7)]
    for name, verb in (("pause", store.moderation.pause), ("resume", store.moderation.resume)):
        times = []
        for scope, by in servers:
            began = time.perf_counter()
            await verb(scope, by)
            times.append(time.perf_counter() - began)
        found[name] = statistics.median(times) * 1e3
        found[f"claim after {name}"] = await _median(lambda: _claim(store))
    return found


async def _claim(store: Store) -> None:
    await _give_back(store, await store.leases.claim("benchmark", limit=SEATS, ttl=60))


async def _give_back(store: Store, claims: Iterable[Claim]) -> None:
    for claim in claims:
        await store.leases.give_back(claim)


async def _queue_page(store: Store) -> None:
    """Read what /queue reads for one server."""
    first = await store.jobs.active(guild_id=1, limit=10)
    mine = await store.jobs.active(guild_id=1, user_id=8, limit=20)
    for job in mine[:10]:
        await store.jobs.count_active(guild_id=1, before=job.id)
    await store.jobs.count_active(guild_id=1)
    await store.positions.of_all([job.id for job in [*first, *mine[:10]]])


async def _median(
    verb: Callable[[], Awaitable[T]], undo: Callable[[T], Awaitable[None]] | None = None
) -> float:
    """Return the median milliseconds of a verb; `undo`, which is not timed, is called with each result."""
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        result = await verb()
        times.append(time.perf_counter() - began)
        if undo is not None:
            await undo(result)
    return statistics.median(times) * 1e3

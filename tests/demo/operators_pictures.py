"""The pictures of docs/operators/page.md: the queue, the workers and the failures of a busy bot.

`make pictures` renews them in docs/images. `test_operators_pictures.py` takes the same steps and writes
nothing.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from documented import Keep
from evening import free_port
from playwright.async_api import Browser, ViewportSize
from recipes import origin, recipe

from bot.config.operators import UsageConfig
from bot.config.page import PageConfig
from bot.files.artifacts import Artifacts
from bot.page.house import House
from bot.page.server import serving
from bot.sandbox.community import PEOPLE
from bot.store import Store

VIEWS = ("queue", "workers", "failures")
FILES = frozenset(f"page-{view}.png" for view in VIEWS)
SIZE = ViewportSize(width=1240, height=820)
TTL = 600.0


async def no_notes() -> list[str]:
    return []


async def fill(store: Store) -> None:
    """Some requests that run, wait, are paused, and have failed."""
    lane = recipe().lane
    facts = {
        "ttl": TTL,
        "accelerator": "cpu",
        "version": "1.0.0",
        "ready": 1,
        "hourly": 214,
        "memory": 6 * 2**30,
    }
    await store.offers.announce("studio-worker-1", lanes=[lane], seats=4, **facts)
    await store.offers.announce("studio-worker-2", lanes=[lane], seats=4, **facts)
    for number in range(1, 3):
        person = PEOPLE[number]
        await store.jobs.enqueue(
            recipe(variants=2), origin(number, user_id=person.id, user_name=person.username)
        )
    for claim in await store.leases.claim("studio-worker-2", limit=4, ttl=TTL):
        await store.leases.fail(claim, failure="not_kept" if claim.image_id % 2 else "painting_failed")
    for number in range(3, 12):
        person = PEOPLE[number % len(PEOPLE)]
        model = "sdxl" if number == 8 else "demo"
        whose = origin(number, user_id=person.id, user_name=person.username)
        await store.jobs.enqueue(recipe(variants=2, model=model), whose)
    claims = await store.leases.claim("studio-worker-1", limit=4, ttl=TTL)
    await store.leases.heartbeat(
        {claim: 3 + 5 * number for number, claim in enumerate(claims)}, ttl=TTL, begun=claims
    )


async def visited(browser: Browser, folder: Path, keep: Keep) -> None:
    """Keep a picture of each of VIEWS."""
    async with AsyncExitStack() as stack:
        store = await Store.open(f"sqlite+aiosqlite:///{folder}/queue.sqlite3")
        stack.push_async_callback(store.close)
        await fill(store)
        config, artifacts = PageConfig(port=free_port()), Artifacts(f"{folder}/artifacts")
        house = House(store=store, artifacts=artifacts, config=config, usage=UsageConfig(), notes=no_notes)
        await stack.enter_async_context(serving(house))
        context = await stack.enter_async_context(
            await browser.new_context(viewport=SIZE, locale="en-GB", color_scheme="dark")
        )
        page = await context.new_page()
        await page.goto(f"{config.url}/enter?link={await store.logins.invite()}")
        await page.locator("button.main").click()
        await page.wait_for_url(f"{config.url}/")
        for view in VIEWS:
            await page.goto(f"{config.url}/{view}")
            await page.locator("h1").wait_for()
            keep(f"page-{view}.png", await page.screenshot())

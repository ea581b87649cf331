"""The operators' page in Chromium: accessible in both themes, live, and usable without script."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from evening import free_port
from page_tools import DESKTOP, PHONE
from playwright.async_api import Browser, Page, ViewportSize, expect
from recipes import origin, recipe
from stores import TTL

from bot.config.operators import UsageConfig
from bot.config.page import PageConfig
from bot.domain.jobs import State
from bot.files.artifacts import Artifacts
from bot.page.house import House
from bot.page.server import VIEWS, serving
from bot.store import Store
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope

pytestmark = pytest.mark.asyncio(loop_scope="session")
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


async def no_notes() -> list[str]:
    return []


async def busy(store: Store) -> str:
    """Some of everything in the queue; returns the id of a waiting job."""
    lane = recipe().lane
    await store.offers.announce("machine-worker-1", lanes=[lane], seats=2, ttl=TTL, accelerator="cpu")
    for number in range(1, 5):
        await store.jobs.enqueue(recipe(variants=2, model="sdxl" if number == 4 else "demo"), origin(number))
    claims = await store.leases.claim("machine-worker-1", limit={lane: 4}, ttl=TTL)
    await store.leases.heartbeat(dict.fromkeys(claims, 5), ttl=TTL, begun=claims[:2])
    await store.leases.fail(claims[2], failure="painting_failed")
    await store.leases.fail(claims[3], failure="painting_failed")
    by = By(actor_id=7, guild_id=21, reason="spam")
    await store.moderation.block(Scope(guild_id=21, user_id=5), by, until=None)
    return (await store.jobs.active(paused=False))[-1].id


class Operator:
    """Opens pages as the operator; a fault on any of them is kept."""

    def __init__(self, store: Store, url: str, chromium: Browser, stack: AsyncExitStack) -> None:
        self.store, self.url = store, url
        self.faults: list[str] = []
        self._chromium, self._stack = chromium, stack

    async def page(self, *, size: tuple[int, int] = DESKTOP, **options: Any) -> Page:
        viewport = ViewportSize(width=size[0], height=size[1])
        context = await self._chromium.new_context(viewport=viewport, **options)
        self._stack.push_async_callback(context.close)
        page = await context.new_page()
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda line: self.faults.append(line.text) if line.type == "error" else None)
        await page.goto(f"{self.url}/enter?link={await self.store.logins.invite()}")
        await page.locator("button.main").click()
        await page.wait_for_url(f"{self.url}/")
        return page


@pytest_asyncio.fixture(loop_scope="session")
async def operator(tmp_path: Path, chromium: Browser) -> AsyncIterator[Operator]:
    async with AsyncExitStack() as stack:
        store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3")
        stack.push_async_callback(store.close)
        config = PageConfig(port=free_port())
        artifacts = Artifacts(str(tmp_path / "artifacts"))
        house = House(store=store, artifacts=artifacts, config=config, usage=UsageConfig(), notes=no_notes)
        await stack.enter_async_context(serving(house))
        async with AsyncExitStack() as pages:
            operator = Operator(store, config.url, chromium, pages)
            yield operator
        assert operator.faults == []


@pytest.mark.parametrize(
    ("size", "scheme", "locale"),
    [(DESKTOP, "light", "en-GB"), (PHONE, "dark", "ar")],
    ids=["desktop", "phone"],
)
async def test_every_view_is_accessible_and_fits_the_screen(
    operator: Operator, size: tuple[int, int], scheme: str, locale: str
) -> None:
    job_id = await busy(operator.store)
    page = await operator.page(size=size, color_scheme=scheme, locale=locale, bypass_csp=True)
    for path in [*("" if view.name == "well" else view.name for view in VIEWS), f"jobs/{job_id}", "enter"]:
        await page.goto(f"{operator.url}/{path}")
        await page.add_script_tag(content=AXE)
        found = await page.evaluate(
            "async () => (await axe.run()).violations.map(v => [v.id, v.nodes[0].html])"
        )
        assert found == [], path
        assert await page.evaluate("document.documentElement.scrollWidth") <= size[0], path


async def test_a_view_changes_by_itself_and_stops_while_nobody_looks(operator: Operator) -> None:
    page = await operator.page()
    await page.goto(f"{operator.url}/queue")
    await expect(page.get_by_text("No request waits")).to_be_visible()
    job_id = (await operator.store.jobs.enqueue(recipe(), origin(1))).id
    await expect(page.get_by_role("link", name=job_id)).to_be_visible()


async def test_a_request_is_cancelled_with_the_keyboard_alone(operator: Operator) -> None:
    job_id = await busy(operator.store)
    page = await operator.page()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="To the content")).to_be_focused()
    await page.goto(f"{operator.url}/jobs/{job_id}")
    await page.get_by_role("button", name="Cancel the request").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".state").first).to_have_text("cancelled")
    assert (await operator.store.jobs.get(job_id)).state is State.CANCELLED


async def test_the_page_works_without_script(operator: Operator) -> None:
    job_id = await busy(operator.store)
    page = await operator.page(java_script_enabled=False)
    await page.goto(f"{operator.url}/queue")
    await page.get_by_label("Model").select_option("sdxl")
    await page.get_by_role("button", name="Show").click()
    await expect(page.get_by_text("no worker paints this model and size")).to_be_visible()
    await page.get_by_role("link", name=job_id).click()
    await page.get_by_role("button", name="Cancel the request").click()
    await expect(page.locator(".state").first).to_have_text("cancelled")
    await page.get_by_role("button", name="Log out", exact=True).click()
    await expect(page.get_by_text("sdjax-bot page-link")).to_be_visible()
    operator.faults.clear()  # the entrance answers with status 401, which Chromium logs

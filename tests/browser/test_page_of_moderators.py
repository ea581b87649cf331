"""The page in a real browser, as moderators see it: login with Discord, and the wall of reviews."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from page_place import Place, placed
from page_tools import DESKTOP, PHONE
from playwright.async_api import Browser, Page, ViewportSize, expect

pytestmark = pytest.mark.asyncio(loop_scope="session")
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


class People:
    """Opens pages as members of the sandbox; a fault on any of them is kept."""

    def __init__(self, place: Place, chromium: Browser) -> None:
        self.place = place
        self.faults: list[str] = []
        self._chromium = chromium

    async def page(self, member: str = "", *, size: tuple[int, int] = DESKTOP, **options: Any) -> Page:
        """A page in a browser of its own; with `member`, this person has logged in with Discord."""
        viewport = ViewportSize(width=size[0], height=size[1])
        context = await self._chromium.new_context(viewport=viewport, **options)
        self.place.stack.push_async_callback(context.close)
        page = await context.new_page()
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda line: self.faults.append(line.text) if line.type == "error" else None)
        if member:
            await page.goto(f"{self.place.url}/enter")
            await page.locator("a[href='/discord']").click()
            await page.get_by_role("button", name=member).click()
            await page.locator("nav").wait_for()
        return page

    async def check(self, page: Page) -> None:
        """Find no violation of accessibility, and nothing wider than the screen."""
        await page.add_script_tag(content=AXE)
        found = await page.evaluate(
            "async () => (await axe.run()).violations.map(v => [v.id, v.nodes[0].html])"
        )
        assert found == [], page.url
        width = page.viewport_size["width"] if page.viewport_size else 0
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, page.url


@pytest_asyncio.fixture(loop_scope="session")
async def people(tmp_path: Path, chromium: Browser) -> AsyncIterator[People]:
    async with placed(tmp_path) as place:
        people = People(place, chromium)
        yield people
        assert people.faults == []


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
async def test_a_login_with_discord_leads_into_the_page(people: People, script: bool) -> None:
    page = await people.page("Mina", java_script_enabled=script)
    await expect(page.get_by_role("link", name="The Studio")).to_be_visible()
    await page.get_by_role("link", name="The Studio").click()
    await page.get_by_role("button", name="The Studio").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Queue")


@pytest.mark.parametrize(("size", "locale"), [(DESKTOP, "en-GB"), (PHONE, "ar")], ids=["desktop", "phone"])
async def test_the_pages_of_a_login_are_accessible(
    people: People, size: tuple[int, int], locale: str
) -> None:
    page = await people.page("Omar", size=size, locale=locale, bypass_csp=True)
    for path in ("enter", "servers", "gallery?whose=me", "gallery?whose=server", "queue"):
        await page.goto(f"{people.place.url}/{path}")
        await people.check(page)

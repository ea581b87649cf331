"""A page of operators that is served, and browsers that look at it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from evening import free_port
from recipes import origin, recipe
from stores import Clock

from bot.config.operators import UsageConfig
from bot.config.page import PageConfig
from bot.files.artifacts import Artifacts
from bot.page.house import House
from bot.page.server import serving
from bot.store import Store

PUBLIC = "bot.example.org"


@dataclass(frozen=True, kw_only=True)
class Site:
    """A page that is served, its address, and a browser that is logged in."""

    store: Store
    house: House
    url: str
    operator: aiohttp.ClientSession
    stranger: aiohttp.ClientSession


async def no_notes() -> list[str]:
    return []


async def enter(browser: aiohttp.ClientSession, url: str, store: Store) -> None:
    link = await store.logins.invite()
    async with browser.post(f"{url}/enter", data={"link": link}, headers={"Origin": url}) as answer:
        assert str(answer.url) == f"{url}/"
        assert answer.status == 200


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3", clock=Clock())
        stack.push_async_callback(store.close)
        config = PageConfig(port=free_port(), address=f"https://{PUBLIC}")
        artifacts = Artifacts(str(tmp_path / "artifacts"))
        house = House(store=store, artifacts=artifacts, config=config, usage=UsageConfig(), notes=no_notes)
        await stack.enter_async_context(serving(house))
        url = f"http://127.0.0.1:{config.port}"
        jar = aiohttp.CookieJar(unsafe=True)  # keeps cookies of addresses without a name
        operator = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
        stranger = await stack.enter_async_context(aiohttp.ClientSession())
        await enter(operator, url, store)
        yield Site(store=store, house=house, url=url, operator=operator, stranger=stranger)


async def enqueue(store: Store, number: int = 1) -> str:
    return (await store.jobs.enqueue(recipe(prompt="a <b>red</b> circle"), origin(number))).id


async def press(site: Site, path: str, **form: str) -> str:
    """What the browser shows after a press of a button."""
    async with site.operator.post(site.url + path, data=form, headers={"Origin": site.url}) as answer:
        assert answer.status == 200
        return re.sub(r"[\u2066-\u2069]", "", await answer.text())


async def shown(site: Site, path: str, word: str, *, there: bool = True) -> str:
    """A page once it has a word, or has it no longer: what several viewers see is read once a second."""
    async with asyncio.timeout(20):
        while True:
            async with site.operator.get(f"{site.url}{path}") as answer:
                text = re.sub(r"[\u2066-\u2069]", "", await answer.text())
            if (word in text) == there:
                return text
            await asyncio.sleep(0.05)

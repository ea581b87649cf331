"""A page that is served to the people of a sandbox, for tests of who may do what."""

from __future__ import annotations

import io
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
from evening import free_port
from PIL import Image
from recipes import origin, recipe
from stores import TTL
from yarl import URL

from bot.config.operators import UsageConfig
from bot.config.page import PageConfig
from bot.domain.jobs import Showing
from bot.files.artifacts import Artifacts
from bot.page.discord_api import opened
from bot.page.house import House
from bot.page.members import FRESH_SECONDS, Members
from bot.page.server import serving
from bot.sandbox.community import CHANNELS, GUILD_ID, PEOPLE
from bot.sandbox.exchange import Observer
from bot.sandbox.permissions import Permission
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.rows.hashes import NO_HASHES, Hashes

IDS = {user.username: user.id for user in PEOPLE}
CHANNEL_IDS = {str(channel.name): channel.id for channel in CHANNELS}
ART, MODS = CHANNEL_IDS["art"], CHANNEL_IDS["mods"]
HERE, ELSEWHERE = GUILD_ID, GUILD_ID + 7
OPERATOR_ID, READER_ID, NOBODY_ID = 41, 42, 43
MODERATES = (Permission.VIEW_CHANNEL, Permission.READ_MESSAGE_HISTORY, Permission.MANAGE_MESSAGES)


_NUMBERS = itertools.count(1000)


@dataclass(kw_only=True)
class Time:
    """Seconds that pass when a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, kw_only=True)
class Place:
    """A page that is served to the people of a sandbox; `time` is that of what Discord has answered."""

    sandbox: Sandbox
    store: Store
    house: House
    url: str
    stack: AsyncExitStack
    time: Time = field(default_factory=Time)

    async def browser(self, user_id: int | None = None) -> aiohttp.ClientSession:
        """A browser, in which this person is logged in."""
        jar = aiohttp.CookieJar(unsafe=True)
        browser = await self.stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
        if user_id is not None:
            secret = await self.store.logins.open(user_id)
            jar.update_cookies({"sdjax-login": secret}, URL(self.url))
        return browser

    async def as_(self, role: str) -> aiohttp.ClientSession:
        """A browser of a person with this role in the server of the sandbox."""
        if role == "stranger":
            return await self.browser()
        if role in ("operator", "reader", "nobody"):
            known = {"operator": OPERATOR_ID, "reader": READER_ID, "nobody": NOBODY_ID}
            return await self.browser(known[role])
        allowed = {"manager": (*MODERATES, Permission.MANAGE_GUILD), "moderator": MODERATES, "member": ()}
        self.sandbox.employ("ravi", *allowed[role])
        self.time.now += FRESH_SECONDS  # what Discord has answered about its roles before is too old
        return await self.browser(IDS["ravi"])

    async def paint(
        self,
        number: int,
        showing: Showing = Showing.SHOW,
        *,
        variants: int = 1,
        hashes: Hashes = NO_HASHES,
        prompt: str = "",
        asked: Mapping[str, Any] = MappingProxyType({}),
        **whose: object,
    ) -> str:
        """A finished request with pictures of a colour of its own; `asked` is more of its recipe."""
        values = {"user_id": IDS["yuna"], "guild_id": HERE, "channel_id": ART, "private": False, **whose}
        wanted = recipe(prompt=prompt or f"wall {number}", variants=variants, **asked)
        job_id = (await self.store.jobs.enqueue(wanted, origin(number + next(_NUMBERS), **values))).id
        for claim in await self.store.leases.claim("one", limit=variants, ttl=TTL):
            png = io.BytesIO()
            Image.new("RGB", (64, 64), (number % 256, 40, next(_NUMBERS) % 256)).save(png, "PNG")
            name = await self.house.artifacts.put(png.getvalue(), ".png")
            await self.store.leases.complete(
                claim, artifact=name, seconds=1.0, showing=showing, hashes=hashes
            )
        return job_id


async def no_notes() -> list[str]:
    return []


@asynccontextmanager
async def placed(folder: Path, observer: Observer | None = None) -> AsyncIterator[Place]:
    """Serve the page of a sandbox of its own in the block."""
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(Sandbox(observer=observer))
        store = await Store.open(f"sqlite+aiosqlite:///{folder}/queue.sqlite3")
        stack.push_async_callback(store.close)
        yield await stack.enter_async_context(page_of(sandbox, store, Artifacts(str(folder / "artifacts"))))
        assert sandbox.violations == []


@asynccontextmanager
async def page_of(sandbox: Sandbox, store: Store, artifacts: Artifacts) -> AsyncIterator[Place]:
    """Serve the page of this queue to the people of a sandbox in the block."""
    async with AsyncExitStack() as stack:
        config = PageConfig(
            port=free_port(), operators=(OPERATOR_ID,), readers=(READER_ID,), discord_url=sandbox.address
        )
        sandbox.register(f"{config.url}/discord/back")
        api = await stack.enter_async_context(
            opened(
                api_url=sandbox.api_url,
                site_url=sandbox.address,
                token=sandbox.token,
                client_secret="a-secret",
            )
        )
        time = Time()
        house = House(
            store=store,
            artifacts=artifacts,
            config=config,
            usage=UsageConfig(),
            notes=no_notes,
            discord=api,
            members=Members(api, clock=time),
        )
        await stack.enter_async_context(serving(house))
        async with AsyncExitStack() as browsers:
            yield Place(sandbox=sandbox, store=store, house=house, url=config.url, stack=browsers, time=time)

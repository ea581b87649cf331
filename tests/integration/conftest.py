"""A sandbox for every integration test, its exchanges checked against Discord's documents."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from discord.gateway import DiscordWebSocket
from discord.http import Route
from discord_spec import Documents
from exchanges import DOCUMENTS
from recipes import MODEL
from sandbox_bot import SmallBot
from sandbox_tools import FakeClock, MakeBot, MakeMember
from serving import Served, serving

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.front.gateway.address import use_address
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store

DEADLINE = 15.0


@pytest.fixture
def documents(request: pytest.FixtureRequest) -> Iterator[Documents | None]:
    """Discord's documents, or None; a violation of them fails the test."""
    found = request.config.stash.get(DOCUMENTS, None)
    if found is not None:
        found.problems.clear()
    yield found
    assert found is None or found.problems == []


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def lenient(documents: Documents | None) -> AsyncIterator[Sandbox]:
    """A sandbox whose violations are not checked, for tests that break rules on purpose."""
    async with Sandbox(observer=documents) as sandbox:
        yield sandbox


@pytest.fixture
async def timed(documents: Documents | None, clock: FakeClock) -> AsyncIterator[Sandbox]:
    """A sandbox whose time is `clock`, which the test moves."""
    async with Sandbox(observer=documents, clock=clock) as sandbox:
        yield sandbox


@pytest.fixture
async def sandbox(lenient: Sandbox) -> AsyncIterator[Sandbox]:
    """A sandbox whose log of violations must be empty at the end of the test."""
    yield lenient
    assert lenient.violations == []


@pytest.fixture
def discord_address() -> Iterator[Callable[[str, str], None]]:
    """Sets Discord's address for a test, and the real one again after it."""
    api_url, gateway_url = Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY
    yield use_address
    use_address(api_url, str(gateway_url))


@pytest.fixture
async def log_in(discord_address: Callable[[str, str], None]) -> AsyncIterator[MakeBot]:
    """Logs small bots in at a sandbox, and out at the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(sandbox: Sandbox, bot: SmallBot | None = None) -> SmallBot:
            discord_address(sandbox.api_url, sandbox.gateway_url)
            return await stack.enter_async_context(running(bot or SmallBot()))

        yield make


@contextlib.asynccontextmanager
async def running(bot: SmallBot) -> AsyncIterator[SmallBot]:
    """Run a bot until the block ends."""
    task = asyncio.create_task(bot.start("a-token"))
    ready = asyncio.create_task(bot.ready.wait())
    try:
        done, _ = await asyncio.wait({task, ready}, timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
        assert ready in done, task.exception() if task.done() else "the bot did not get ready"
        yield bot
    finally:
        await bot.close()
        await asyncio.wait({task}, timeout=DEADLINE)
        ready.cancel()


@pytest.fixture
async def member() -> AsyncIterator[MakeMember]:
    """Logs members in at a sandbox, and out at the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(sandbox: Sandbox, name: str = "Mina", *, channel: str = "art") -> Member:
            return await stack.enter_async_context(Member(sandbox.address, name, channel=channel))

        yield make


@pytest.fixture
async def served(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object
) -> AsyncIterator[Served]:
    """The shipped bot on the sandbox, without an engine."""
    async with serving(sandbox, store, artifacts, Config(models=(MODEL,))) as served:
        yield served


@pytest.fixture
async def mina(sandbox: Sandbox, member: MakeMember) -> Member:
    """Mina, who moderates."""
    return await member(sandbox, "Mina")


@pytest.fixture
async def ravi(sandbox: Sandbox, member: MakeMember) -> Member:
    return await member(sandbox, "Ravi")


@pytest.fixture
async def yuna(sandbox: Sandbox, member: MakeMember) -> Member:
    """Yuna, who reads Korean."""
    return await member(sandbox, "Yuna")


@pytest.fixture
async def omar(sandbox: Sandbox, member: MakeMember) -> Member:
    return await member(sandbox, "Omar")

"""A served sandbox with its members, for every test of the front."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from serving import Served, serving

from bot.artifacts import Artifacts
from bot.config import Config
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store


@pytest.fixture(autouse=True)
def _discord_is_elsewhere(discord_address: Callable[[str, str], None]) -> None:
    """Put the real address back after each test."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3")
    yield store
    await store.close()


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(str(tmp_path / "artifacts"))


@pytest.fixture
async def served(sandbox: Sandbox, store: Store, artifacts: Artifacts) -> AsyncIterator[Served]:
    async with serving(sandbox, store, artifacts, Config()) as served:
        yield served


@pytest.fixture
async def people(sandbox: Sandbox) -> AsyncIterator[dict[str, Member]]:
    async with AsyncExitStack() as stack:
        names = ("Mina", "Ravi", "Yuna", "Omar")
        yield {name: await stack.enter_async_context(Member(sandbox.address, name)) for name in names}


@pytest.fixture
def mina(people: dict[str, Member]) -> Member:
    """She moderates."""
    return people["Mina"]


@pytest.fixture
def ravi(people: dict[str, Member]) -> Member:
    return people["Ravi"]


@pytest.fixture
def yuna(people: dict[str, Member]) -> Member:
    """She reads Korean."""
    return people["Yuna"]


@pytest.fixture
def omar(people: dict[str, Member]) -> Member:
    return people["Omar"]

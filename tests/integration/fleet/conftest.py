"""The Ray cluster of the tests, and a queue on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fleet_cluster import PAINTER, ROOT, Fleet, Nodes, three_nodes
from forked_command import forked_command

from bot.store import Store


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with three_nodes(tmp_path_factory.mktemp("gcs")) as there:
        yield there


@pytest.fixture
def painters(nodes: Nodes, tmp_path: Path, postgres_url: str) -> Iterator[Fleet]:
    with forked_command(PAINTER, ROOT, tmp_path) as command:
        yield Fleet(nodes, tmp_path, postgres_url, command)


@pytest.fixture
async def queue(postgres_url: str) -> AsyncIterator[Store]:
    store = await Store.open(postgres_url)
    yield store
    await store.close()
